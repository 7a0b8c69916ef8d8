// Events on disk: each comes back as it was, and what was written by this version stays readable.
#include "store/event_json.h"

#include <gtest/gtest.h>

namespace pergpu::store {
namespace {

std::vector<JobEvent> one_of_each() {
  const Placement placement{
      .lane = {.pool = LaneId::Pool::Sweep, .sweep = {3}, .slot = 5, .part = 1},
      .gpus = {"GPU-a", "GPU-b"},
      .slots = {1, 3},
      .port = 20'017,
      .cpus = 4,
      .cpu_list = {0, 2},
      .node = "n3"};
  UsageSummary usage{.readings = 3, .throttle = 4, .written_bytes = 1ull << 40};
  usage.extents[0] = UsageSummary::Extent{.mean = 0.1f, .most = 1.7f};
  usage.extents[kMeasures - 1] = UsageSummary::Extent{.mean = -1, .most = 1e20f};
  const Outcome outcome{.cls = OutcomeClass::Signal,
                        .exit_code = 0,
                        .signal = 9,
                        .reason = "killed by signal 9 (SIGKILL)\n\"é\"",
                        .left_running = "1 process that it left running was ended: sleep",
                        .mistake = "error: no data for #",
                        .peak_memory_bytes = 1u << 31,
                        .cpu_ns = 77,
                        .usage = usage};
  const Next next{.kind = Next::Kind::Again,
                  .state = JobState::Lost,
                  .charged = false,
                  .delay_ns = 60,
                  .reason = "more",
                  .more_memory = true,
                  .more_gpu_memory = true};
  return {event::Submitted{},
          event::Requeued{"tried by the circuit breaker", true},
          event::Held{"", HoldCause::Breaker},
          event::Starting{.attempt = 2, .placement = placement, .keeper = {9}},
          event::Started{.pid = 4711, .start_ticks = 1ull << 63},
          event::Stopping{StopCause::Memory, "too much", true},
          event::Ended{outcome, next},
          event::Cancelled{"no longer in the file"},
          event::Skipped{"train failed"},
          event::Folded{.state = JobState::Held,
                        .attempts = 2,
                        .retries_used = 1,
                        .moves = 3,
                        .memory_growths = 4,
                        .gpu_memory_growths = 5,
                        .queued_at = {4, 5},
                        .not_before_wall_ns = 6,
                        .reason = "r",
                        .hold_cause = HoldCause::Breaker,
                        .last = {{.number = 2,
                                  .placement = placement,
                                  .keeper = {9},
                                  .pid = 8,
                                  .start_ticks = 1ull << 63,
                                  .starting_at = {1, 2},
                                  .started_at = {-3, 4},
                                  .ended_at = {5, 6},
                                  .stop = StopCause::Timeout,
                                  .stop_reason = "late",
                                  .stop_at = {7, 8},
                                  .stop_at_once = true,
                                  .outcome = outcome}}}};
}

TEST(EventJson, EveryEventComesBack) {
  for (const JobEvent& event : one_of_each()) {
    const std::string body = event_body(event);
    const Result<JobEvent> back = event_of(event_name(event), body);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, event) << body;
  }
  EXPECT_EQ(one_of_each().size(), std::variant_size_v<JobEvent>);
}

TEST(EventJson, DefaultsComeBackToo) {
  for (const JobEvent& event :
       {JobEvent{event::Requeued{}}, JobEvent{event::Starting{}}, JobEvent{event::Started{}},
        JobEvent{event::Stopping{}}, JobEvent{event::Ended{}}, JobEvent{event::Skipped{}},
        JobEvent{event::Folded{}}, JobEvent{event::Folded{.last = {Attempt{}}}}}) {
    const Result<JobEvent> back = event_of(event_name(event), event_body(event));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, event);
  }
}

// These texts are in users' stores: if this test fails, old journals have become unreadable.
TEST(EventJson, FormatOfVersionOneIsRead) {
  const Result<JobEvent> starting = event_of(
      "starting",
      R"({"attempt":2,"cpu_list":[0,2],"cpus":4,"gpus":["GPU-a"],"keeper":9,"pool":"gpu","slot":1})");
  ASSERT_TRUE(starting);
  EXPECT_EQ(*starting,
            JobEvent(event::Starting{.attempt = 2,
                                     .placement = {.lane = {.pool = LaneId::Pool::Gpu, .slot = 1},
                                                   .gpus = {"GPU-a"},
                                                   .cpus = 4,
                                                   .cpu_list = {0, 2}},
                                     .keeper = {9}}));
  const Result<JobEvent> ended = event_of(
      "ended", R"({"class":"exit","exit":3,"reason":"exit code 3","next":"again","delay_ns":5})");
  ASSERT_TRUE(ended);
  EXPECT_EQ(*ended, JobEvent(event::Ended{
                        {.cls = OutcomeClass::Exit, .exit_code = 3, .reason = "exit code 3"},
                        {.kind = Next::Kind::Again, .delay_ns = 5}}));
}

// A held event named no cause before: what the breaker held began with these words.
TEST(EventJson, WhatTheBreakerHeldWithoutACauseIsKnown) {
  const std::string reason = R"("held by the breaker: 3 jobs of step train failed the same way")";
  const Result<JobEvent> held = event_of("held", R"({"reason":)" + reason + "}");
  ASSERT_TRUE(held);
  EXPECT_EQ(std::get<event::Held>(*held).cause, HoldCause::Breaker);
  const Result<JobEvent> folded = event_of("folded", R"({"state":"held","reason":)" + reason + "}");
  ASSERT_TRUE(folded);
  EXPECT_EQ(std::get<event::Folded>(*folded).hold_cause, HoldCause::Breaker);
  const Result<JobEvent> other = event_of("held", R"({"reason":"held by hand"})");
  ASSERT_TRUE(other);
  EXPECT_EQ(*other, JobEvent(event::Held{"held by hand"}));
  const Result<JobEvent> failed =
      event_of("folded", R"({"state":"failed","reason":)" + reason + "}");
  ASSERT_TRUE(failed);
  EXPECT_EQ(std::get<event::Folded>(*failed).hold_cause, HoldCause::Other);
}

TEST(EventJson, FormatOfVersionTwoIsRead) {
  const Result<JobEvent> folded = event_of(
      "folded",
      R"({"attempts":1,"last":{"attempt":1,"cpus":2,"ended_at":[8,9],"keeper":1,"outcome":{"class":)"
      R"("exit","exit":3,"reason":"exit code 3"},"pid":7,"pool":"cpu","slot":0,"start_ticks":5,)"
      R"("started_at":[6,7],"starting_at":[4,5]},"queued_at":[2,3],"reason":"why",)"
      R"("state":"failed"})");
  ASSERT_TRUE(folded) << folded.error().message;
  const Outcome outcome{.cls = OutcomeClass::Exit, .exit_code = 3, .reason = "exit code 3"};
  EXPECT_EQ(*folded, JobEvent(event::Folded{.state = JobState::Failed,
                                            .attempts = 1,
                                            .queued_at = {2, 3},
                                            .reason = "why",
                                            .last = {{.number = 1,
                                                      .placement = {.cpus = 2},
                                                      .keeper = {1},
                                                      .pid = 7,
                                                      .start_ticks = 5,
                                                      .starting_at = {4, 5},
                                                      .started_at = {6, 7},
                                                      .ended_at = {8, 9},
                                                      .outcome = outcome}}}));
}

TEST(EventJson, FormatOfVersionOneIsWritten) {
  EXPECT_EQ(event_body(event::Submitted{}), "{}");
  EXPECT_EQ(event_body(event::Started{.pid = 7, .start_ticks = 8}), R"({"pid":7,"start_ticks":8})");
  EXPECT_EQ(event_body(event::Ended{{.cls = OutcomeClass::Ok, .exit_code = 0}, {}}),
            R"({"class":"ok","exit":0,"next":"final"})");
}

TEST(EventJson, UnknownMembersAreIgnored) {
  const Result<JobEvent> event = event_of("held", R"({"reason":"r","by":"a later version"})");
  ASSERT_TRUE(event);
  EXPECT_EQ(*event, JobEvent(event::Held{"r"}));
}

TEST(EventJson, WhatMakesNoSenseIsRefusedWithItsName) {
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"exploded", "{}"}, "unknown kind"},
      {{"held", "{"}, "isn't a JSON object"},
      {{"held", "[]"}, "isn't a JSON object"},
      {{"held", R"({"reason":3})"}, "reason = 3"},
      {{"started", R"({"pid":"x"})"}, "pid = \"x\""},
      {{"started", R"({"pid":99999999999})"}, "pid = 99999999999"},
      {{"stopping", R"({"cause":"boredom"})"}, "cause = \"boredom\""},
      {{"starting", R"({"gpus":[1]})"}, "gpus = [1]"},
      {{"starting", R"({"cpu_list":["0"]})"}, "cpu_list = [\"0\"]"},
      {{"ended", R"({"class":"fine"})"}, "class = \"fine\""},
      {{"folded", R"({"state":"fine"})"}, "state = \"fine\""},
      {{"folded", R"({"queued_at":[1]})"}, "queued_at = [1]"},
      {{"folded", R"({"last":{"outcome":{"class":"fine"}}})"}, "last.outcome.class = \"fine\""},
      {{"ended", R"({"class":"ok","next":"perhaps"})"}, "next = \"perhaps\""},
      {{"ended", R"({"class":"ok","charged":1})"}, "charged = 1"},
      {{"ended", R"({"class":"ok","usage":{"cores":[1]}})"}, "usage.cores = [1]"},
      {{"ended", R"({"class":"ok","usage":{"cores":[1,1e300]}})"}, "usage.cores = [1,1e+300]"},
      {{"ended", R"({"class":"ok","usage":{"readings":-1}})"}, "usage.readings = -1"}};
  for (const auto& [input, expected] : cases) {
    const Result<JobEvent> event = event_of(input.first, input.second);
    ASSERT_FALSE(event) << input.first << input.second;
    EXPECT_EQ(event.error().kind, ErrorKind::Corrupt);
    EXPECT_NE(event.error().message.find(expected), std::string::npos) << event.error().message;
  }
}

TEST(EventJson, BytesThatAreNoTextAreReplaced) {
  const std::string body = event_body(event::Held{"path \xff"});
  const Result<JobEvent> event = event_of("held", body);
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(*event, JobEvent(event::Held{"path \xef\xbf\xbd"}));
}

TEST(EventJson, TooDeepOrTooLargeIsDamageNotTheEndOfTheStack) {
  EXPECT_FALSE(event_of("ended", R"({"reason":)" + std::string(1'000'000, '[')));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(event_of("ended", R"({"reason":)" + deep + "}").error().kind, ErrorKind::Corrupt);
  EXPECT_FALSE(event_of("starting", R"({"cpu_list":[4294967296]})"));
}

}  // namespace
}  // namespace pergpu::store
