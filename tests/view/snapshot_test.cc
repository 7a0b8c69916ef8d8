// The wire format of snapshots: what is written can be read back, by this version and by others.
#include "api/snapshot.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace pergpu {
namespace {

using nlohmann::json;

constexpr std::int64_t kAt = 1'795'266'000'123'000'000;

template <typename T>
json round_trip(const T& value) {
  const std::string line = json(value).dump();
  return json(json::parse(line).get<T>());
}

TEST(Snapshot, JobSurvivesTheWire) {
  JobSnapshot job;
  job.id = 17;
  job.sweep = "thirteen";
  job.sweep_id = 3;
  job.run = "03-method=edm,seed=2";
  job.index = 3;
  job.step = "train";
  job.state = "failed";
  job.reason = "exit code 3";
  job.cls = "exit";
  job.attempt = 2;
  job.exit = 3;
  job.gpus = {"GPU-1"};
  job.lane = "gpu1";
  job.queued_at = kAt;
  job.started_at = kAt + 1'000'000'000;
  job.duration_s = 12.5;
  job.listed = false;
  job.warnings = {"train.py changed"};
  const json wire = json(job);
  EXPECT_EQ(round_trip(job), wire);
  EXPECT_EQ(wire["class"], "exit");
  EXPECT_EQ(wire["queued_at"], rfc3339(kAt));
  EXPECT_TRUE(wire["ended_at"].is_null());
  EXPECT_TRUE(wire["signal"].is_null());
  EXPECT_EQ(wire.get<JobSnapshot>().queued_at, kAt);
  EXPECT_TRUE(json::object().get<JobSnapshot>().listed);  // of one that does not tell it
}

TEST(Snapshot, SweepLaneAndGpuSurviveTheWire) {
  SweepSnapshot sweep;
  sweep.id = 3;
  sweep.name = "thirteen";
  sweep.steps = {"train", "evaluate"};
  sweep.columns = {"method", "seed"};
  sweep.rows = {{"ddpm", "0"}, {"edm", "1"}};
  sweep.runs = {"00-method=ddpm,seed=0", "01-method=edm,seed=1"};
  sweep.counts = {{"done", 3}, {"queued", 1}};
  sweep.lanes = 8;
  sweep.remaining_s = 61.5;
  EXPECT_EQ(round_trip(sweep), json(sweep));
  EXPECT_EQ(json(sweep).get<SweepSnapshot>().rows[1][0], "edm");

  LaneSnapshot lane;
  lane.name = "gpu0";
  lane.state = "busy";
  lane.job = 17;
  EXPECT_EQ(round_trip(lane), json(lane));

  GpuSnapshot gpu;
  gpu.uuid = "GPU-1";
  gpu.lanes = {"gpu0"};
  gpu.memory_bytes = 80LL << 30;
  GpuHolder holder;
  holder.pid = 99;
  holder.user = "alice";
  holder.memory_bytes = 1 << 20;
  gpu.holders = {holder};
  EXPECT_EQ(round_trip(gpu), json(gpu));
  EXPECT_EQ(json(gpu).get<GpuSnapshot>().holders[0].user, "alice");
}

TEST(Snapshot, EnvironmentKeepsBytesThatAreNotUtf8) {
  SubmitContext context;
  context.cwd = "/data/\xff";
  context.env = {"A=plain", "B=\xe4\xb8", "C=\xc3\xa4", std::string("D=\x80\0z", 5)};
  context.limits = {{7, ~0ULL}, {3, 8u << 20}};
  context.key = "00ff";
  const SubmitContext back = json::parse(json(context).dump()).get<SubmitContext>();
  EXPECT_EQ(back.env, context.env);
  EXPECT_EQ(back.cwd, context.cwd);
  EXPECT_EQ(back.limits, context.limits);
  EXPECT_EQ(back.key, "00ff");
}

TEST(Snapshot, SubmitReplySaysNewAndSchema) {
  SubmitReply reply;
  reply.sweep = "thirteen";
  reply.sweep_id = 3;
  reply.jobs = {17, 18};
  reply.fresh = 26;
  const json wire = json(reply);
  EXPECT_EQ(wire["new"], 26);
  EXPECT_EQ(wire["schema"], 1);
  EXPECT_EQ(wire.get<SubmitReply>().fresh, 26);
  EXPECT_EQ(wire.get<SubmitReply>().jobs, reply.jobs);
}

TEST(Snapshot, UnknownMissingAndMistypedFieldsAreNoError) {
  const json wire = json::parse(
      R"({"id":17,"state":5,"exit":"three","gpus":["a",1,"b"],"index":null,"of_tomorrow":{}})");
  const JobSnapshot job = wire.get<JobSnapshot>();
  EXPECT_EQ(job.id, 17);
  EXPECT_EQ(job.state, "");
  EXPECT_FALSE(job.exit.has_value());
  EXPECT_EQ(job.gpus, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(job.index.has_value());
  EXPECT_EQ(json("text").get<JobSnapshot>().id, 0);
}

TEST(Rfc3339, KnownInstantsBothWays) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(951'782'400'000'000'000), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(rfc3339(kAt), "2026-11-21T13:00:00.123Z");
  EXPECT_EQ(rfc3339(-1'000'000), "1969-12-31T23:59:59.999Z");
  for (std::int64_t day = -100'000; day < 100'000; day += 37) {
    const std::int64_t at = day * 86'400'000'000'000 + 3'723'004'000'000;
    ASSERT_EQ(from_rfc3339(rfc3339(at)), at);
  }
}

TEST(Rfc3339, OffsetsAndMalformedTexts) {
  EXPECT_EQ(from_rfc3339("2026-11-21T15:30:00.123+02:30"), kAt);
  EXPECT_EQ(from_rfc3339("2026-11-21T13:00:00.123456789Z"), kAt + 456'789);
  for (const char* bad :
       {"", "yesterday", "2026-13-01T00:00:00Z", "2026-11-21", "2026-11-21T13:00Z",
        "2026-11-21T13:00:00", "2026-11-21T13:00:00.Z", "2026-11-21T13:00:00Zx"}) {
    EXPECT_EQ(from_rfc3339(bad), 0) << bad;
  }
}

TEST(Rfc3339, BeyondWhatNanosecondsReachIsMalformed) {
  EXPECT_NE(from_rfc3339("2262-04-11T23:00:00Z"), 0);
  EXPECT_EQ(from_rfc3339("2262-04-12T00:00:00Z"), 0);
  EXPECT_EQ(from_rfc3339("9999-12-31T23:59:60Z"), 0);
  EXPECT_EQ(from_rfc3339("0000-01-01T00:00:00Z"), 0);
  EXPECT_EQ(rfc3339(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(rfc3339(std::numeric_limits<std::int64_t>::min()), "1677-09-21T00:12:43.145Z");
}

}  // namespace
}  // namespace pergpu
