// The lines between coordinator and probe (gpu/probe_wire.h).
#include "gpu/probe_wire.h"

#include <gtest/gtest.h>

namespace pergpu::gpu {
namespace {

GpuLook full_look() {
  GpuLook look;
  look.complete = true;
  look.why = "a reason";
  look.driver_mismatch = true;
  look.in_container = true;
  look.driver = "550.54.15";
  look.library = "550.90.07";
  look.cuda = "12.4";
  GpuReading& reading = look.gpus.emplace_back();
  reading.uuid = "GPU-a";
  reading.name = "Big \"GPU\"\n";
  reading.pci = "0000:65:00.0";
  reading.index = 3;
  reading.minor = 4;
  reading.numa_node = 1;
  reading.near_cpus = {4, 5};
  reading.distances = {10, 1, 50, 0};
  reading.total_bytes = 1ull << 40;
  reading.used_bytes = 77;
  reading.health = GpuHealth::Error;
  reading.note = "words";
  reading.repair_pending = true;
  reading.repair_failed = false;
  reading.recovery_action = 2;
  reading.persistent = false;
  reading.mig = true;
  reading.mig_pending = false;
  reading.compute_mode = 3;
  look.xids = {{"GPU-a", 79, 123}};
  reading.processes = {
      {.pid = 9, .memory_bytes = 5, .uid = 1001, .command = "x", .ancestors = {8, 7}},
      {.pid = 10, .compute = false, .matched = false}};
  reading.device_holders = {{.pid = 11}};
  return look;
}

TEST(ProbeWire, ReplyComesBackWhole) {
  const std::string line = to_line(ProbeReply{42, full_look()});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto answer = parse_answer(line);
  ASSERT_TRUE(answer) << answer.error().message;
  const auto* reply = std::get_if<ProbeReply>(&*answer);
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->id, 42);
  // Each field is in the line: written again, it is the same.
  EXPECT_EQ(to_line(*reply), line);
  ASSERT_EQ(reply->look.gpus.size(), 1u);
  const GpuReading& reading = reply->look.gpus[0];
  EXPECT_EQ(reading.name, "Big \"GPU\"\n");
  EXPECT_EQ(reading.total_bytes, 1ull << 40);
  EXPECT_EQ(reading.health, GpuHealth::Error);
  ASSERT_EQ(reading.processes.size(), 2u);
  EXPECT_EQ(reading.processes[0].uid, 1001u);
  EXPECT_EQ(reading.processes[0].ancestors, (std::vector<std::int32_t>{8, 7}));
  EXPECT_FALSE(reading.processes[1].compute);
  EXPECT_FALSE(reading.processes[1].memory_bytes);
  EXPECT_TRUE(reply->look.in_container);
  EXPECT_EQ(reading.repair_pending, true);
  EXPECT_EQ(reading.repair_failed, false);
  EXPECT_EQ(reading.recovery_action, 2);
  EXPECT_EQ(reading.persistent, false);
  EXPECT_EQ(reading.mig, true);
  EXPECT_EQ(reading.mig_pending, false);
  EXPECT_EQ(reading.compute_mode, kComputeOneProcess);
  EXPECT_EQ(reply->look.driver, "550.54.15");
  EXPECT_EQ(reply->look.library, "550.90.07");
  EXPECT_EQ(reply->look.cuda, "12.4");
  EXPECT_EQ(reply->look.xids, (std::vector<GpuXid>{{"GPU-a", 79, 123}}));
}

TEST(ProbeWire, RequestAndProgressComeBackWhole) {
  for (const ProbeRequest& request :
       {ProbeRequest{7, {0, 3}}, ProbeRequest{.id = 8, .stay = true}, ProbeRequest{.rest = true},
        ProbeRequest{.stay = true, .rest = true}}) {
    const auto parsed = parse_request(to_line(request));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, request);
  }
  for (const ProbeProgress& progress :
       {ProbeProgress{7, "gpu", 2, {}}, ProbeProgress{7, "xids", -1, {{"GPU-a", 13, 5}}}}) {
    const auto answer = parse_answer(to_line(progress));
    ASSERT_TRUE(answer);
    EXPECT_EQ(std::get<ProbeProgress>(*answer), progress);
  }
}

UsageAnswer full_usage() {
  return {.boot_ns = 5,
          .cost_ns = 6,
          .trees = {std::nullopt,
                    os::TreeUsage{.processes = 3,
                                  .cpu_ns = 7,
                                  .resident_bytes = 1ull << 40,
                                  .proportional_bytes = 8,
                                  .read_bytes = 9,
                                  .written_bytes = 10},
                    os::TreeUsage{}},
          .gpus = {{.uuid = "GPU-a",
                    .busy_percent = 99,
                    .used_bytes = 1ull << 36,
                    .power_mw = 700'000,
                    .temperature_c = 71,
                    .clock_mhz = 1980,
                    .throttle = 4},
                   {.uuid = "GPU-b"}}};
}

TEST(ProbeWire, UsageComesBackWholeAndUnknownIsNotZero) {
  const auto answer = parse_answer(to_line(ProbeUsage{9, full_usage()}));
  ASSERT_TRUE(answer) << answer.error().message;
  const auto* told = std::get_if<ProbeUsage>(&*answer);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->id, 9);
  EXPECT_EQ(told->usage, full_usage());
  EXPECT_FALSE(told->usage.gpus[1].busy_percent);
}

TEST(ProbeWire, AQuestionOfUsageComesBackWhole) {
  const ProbeRequest request{
      .id = 3,
      .skip = {1},
      .stay = true,
      .usage = UsageQuestion{.trees = {{4711, 1ull << 63}, {12, 5}}, .gpus = {"GPU-a"}}};
  const auto parsed = parse_request(to_line(request));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, request);
  for (const char* line : {R"({"id":1,"op":"usage","skip":[],"trees":[[1]],"gpus":[]})",
                           R"({"id":1,"op":"usage","skip":[],"trees":[["1",2]],"gpus":[]})",
                           R"({"id":1,"op":"usage","skip":[],"trees":[],"gpus":[3]})",
                           R"({"id":1,"op":"usage","skip":[],"gpus":[]})"}) {
    EXPECT_FALSE(parse_request(line)) << line;
  }
  EXPECT_FALSE(parse_answer(R"({"id":1,"usage":{"boot_ns":1,"cost_ns":1,"trees":[3],"gpus":[]}})"));
}

TEST(ProbeWire, WhatIsNotToldStaysSo) {
  GpuLook look = full_look();
  look.gpus[0].repair_pending.reset();
  look.gpus[0].repair_failed.reset();
  look.gpus[0].recovery_action.reset();
  const auto answer = parse_answer(to_line(ProbeReply{1, look}));
  ASSERT_TRUE(answer);
  const GpuReading& reading = std::get<ProbeReply>(*answer).look.gpus[0];
  EXPECT_FALSE(reading.repair_pending || reading.repair_failed || reading.recovery_action);
}

TEST(ProbeWire, ARequestOfAnOlderCoordinatorIsUnderstood) {
  const auto request = parse_request(R"({"id":1,"op":"look","skip":[]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_FALSE(request->stay);
}

TEST(ProbeWire, NameThatIsNotUtf8DoesNotBreakTheLine) {
  GpuLook look = full_look();
  look.gpus[0].name = "caf\xe9";
  EXPECT_TRUE(parse_answer(to_line(ProbeReply{1, look})));
}

TEST(ProbeWire, NonsenseIsAnErrorThatShowsIt) {
  for (const char* line : {"", "x", "[]", "{}", R"({"id":1})", R"({"id":"1","at":"gpu","index":0})",
                           R"({"id":1,"look":{}})", R"({"id":1,"look":7})",
                           R"({"id":1,"look":{"complete":true,"why":"","no_driver":false,
                              "driver_mismatch":false,"in_container":false,"xids":[],"gpus":[{"uuid":5}]}})",
                           R"({"id":1,"at":"xids","index":-1,"xids":[{"uuid":"GPU-a"}]})",
                           R"({"id":1,"look":{"complete":true,"why":"","no_driver":false,
                              "driver_mismatch":false,"in_container":false,"xids":7,"gpus":[]}})"}) {
    const auto answer = parse_answer(line);
    ASSERT_FALSE(answer) << line;
    EXPECT_EQ(answer.error().kind, ErrorKind::Corrupt);
  }
  EXPECT_FALSE(parse_request(R"({"id":1,"op":"dance","skip":[]})"));
  EXPECT_FALSE(parse_request("hello"));
}

}  // namespace
}  // namespace pergpu::gpu
