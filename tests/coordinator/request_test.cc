// What is read of a client's line, and what is refused.
#include "api/request.h"

#include <gtest/gtest.h>

namespace pergpu {
namespace {

std::string refusal(const std::string& line) {
  const Result<Request> request = request_of(line);
  return request ? "accepted" : request.error().message;
}

TEST(Request, OfEachKindIsRead) {
  EXPECT_EQ(request_of(R"({"hello":1,"version":"0.1.0"})")->op, Request::Op::Hello);
  const Result<Request> cancel =
      request_of(R"({"op":"cancel","sel":["@","17"],"kill":true,"failed":false})");
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->op, Request::Op::Cancel);
  EXPECT_EQ(cancel->selectors, (std::vector<std::string>{"@", "17"}));
  EXPECT_TRUE(cancel->kill);
  EXPECT_FALSE(cancel->waits);
  const Result<Request> stop = request_of(R"({"op":"stop","kill":false,"wait":true})");
  ASSERT_TRUE(stop);
  EXPECT_TRUE(stop->waits);
  EXPECT_FALSE(stop->replaced);
  const Result<Request> interrupt = request_of(R"({"op":"interrupt","sweep_id":3,"level":2})");
  ASSERT_TRUE(interrupt);
  EXPECT_EQ(interrupt->sweep_id, 3);
  EXPECT_EQ(interrupt->level, 2);
  const Result<Request> submit = request_of(
      R"({"op":"submit","runs":2,"sweep":{"name":"s","steps":[{"name":"a"}]},"context":{"cwd":"/"}})");
  ASSERT_TRUE(submit) << submit.error().message;
  EXPECT_EQ(submit->runs, 2u);
  EXPECT_EQ(submit->sweep.steps.size(), 1u);
  EXPECT_EQ(submit->context.cwd, "/");
}

TEST(Request, PlanIsOfASweepOrOfWhatIsThere) {
  const Result<Request> there =
      request_of(R"({"op":"plan","sel":["@"],"expect":{"train":3600000},"on":4})");
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(there->op, Request::Op::Plan);
  EXPECT_FALSE(there->has_sweep);
  EXPECT_EQ(there->expect.at("train"), 3'600'000);
  EXPECT_EQ(there->on, 4);
  const Result<Request> file =
      request_of(R"({"op":"plan","runs":2,"sweep":{"name":"s"},"context":{}})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->has_sweep);
  EXPECT_EQ(file->runs, 2u);
  for (const char* expect : {"1", "{\"a\":0}", "{\"a\":-1}", "{\"a\":1.5}", "{\"a\":\"1h\"}",
                             "{\"a\":18446744073709551615}"}) {
    EXPECT_NE(refusal(R"({"op":"plan","expect":)" + std::string(expect) + "}"), "accepted")
        << expect;
  }
  EXPECT_EQ(refusal(R"({"op":"plan","on":-1})"),
            "malformed request: `on` must be a number from 0 to 10000");
}

TEST(Request, FieldOfAnotherTypeIsNamed) {
  EXPECT_EQ(refusal(R"({"op":"watch","sweep_id":1e300})"),
            "malformed request: `sweep_id` must be a whole number");
  EXPECT_EQ(refusal(R"({"op":"watch","sweep_id":18446744073709551615})"),
            "malformed request: `sweep_id` must be a whole number");
  EXPECT_EQ(refusal(R"({"op":"ps","sel":["a",1]})"),
            "malformed request: `sel` must be a list of strings");
  EXPECT_EQ(refusal(R"({"op":"ps","all":1})"), "malformed request: `all` must be true or false");
  EXPECT_EQ(refusal(R"({"op":"interrupt"})"),
            "malformed request: `sweep_id` must be a whole number");
  EXPECT_EQ(refusal(R"({"op":"watch","sweep_id":1,"most":-1})"),
            "malformed request: `most` must be a number of jobs");
  EXPECT_EQ(refusal(R"({"op":"interrupt","sweep_id":1,"level":4})"),
            "malformed request: `level` must be 1, 2 or 3");
  EXPECT_EQ(refusal(R"({"op":["ps"]})"), "malformed request: `op` must be a string");
}

TEST(Request, OnlyOfASweepIsItWatchedHowItGrows) {
  const Result<Request> watch =
      request_of(R"({"op":"watch","sweep_id":3,"grows":true,"without_jobs":true})");
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_TRUE(watch->grows);
  EXPECT_TRUE(watch->without_jobs);
  EXPECT_EQ(refusal(R"({"op":"watch","sel":["@"],"grows":true})"),
            "malformed request: `sweep_id` must be the number of the sweep to add to");
  EXPECT_EQ(refusal(R"({"op":"watch","sweep_id":3,"grows":1})"),
            "malformed request: `grows` must be true or false");
}

TEST(Request, ACancelMaySpareWhatRuns) {
  const Result<Request> spares = request_of(R"({"op":"cancel","sel":["a"],"queued":true})");
  ASSERT_TRUE(spares) << spares.error().message;
  EXPECT_TRUE(spares->queued);
  EXPECT_FALSE(request_of(R"({"op":"cancel","sel":["a"]})")->queued);
  EXPECT_EQ(refusal(R"({"op":"cancel","sel":["a"],"queued":1})"),
            "malformed request: `queued` must be true or false");
}

TEST(Request, ForUsageIsRead) {
  const Result<Request> all = request_of(R"({"op":"usage","job":17})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->op, Request::Op::Usage);
  EXPECT_EQ(all->job, 17);
  EXPECT_EQ(all->attempt, 0);
  EXPECT_EQ(all->from_wall_ns, 0);
  EXPECT_EQ(all->step_s, 0);
  const Result<Request> part =
      request_of(R"({"op":"usage","job":17,"attempt":2,"from":"2026-11-21T13:00:00Z","step":10})");
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->attempt, 2);
  EXPECT_EQ(part->from_wall_ns, 1'795'266'000'000'000'000);
  EXPECT_EQ(part->step_s, 10);
  EXPECT_EQ(refusal(R"({"op":"usage"})"), "malformed request: `job` must be the number of a job");
  EXPECT_EQ(refusal(R"({"op":"usage","job":1,"attempt":4294967296})"),
            "malformed request: `attempt` must be the number of an attempt");
  EXPECT_EQ(refusal(R"({"op":"usage","job":1,"step":-1})"),
            "malformed request: `step` must be seconds");
  EXPECT_EQ(refusal(R"({"op":"usage","job":1,"from":"noon"})"),
            "malformed request: `from` must be a time like 2026-11-21T13:00:00Z");
}

TEST(Request, WhatToSetIsReadAndEveryMistakeTold) {
  const Result<Request> set =
      request_of(R"({"op":"set","sel":["@"],"set":["priority=5","lanes=2"]})");
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->op, Request::Op::Set);
  EXPECT_EQ(set->set, (Settings{.priority = 5, .lanes = 2}));
  EXPECT_EQ(refusal(R"({"op":"set","sel":["@"],"set":"priority=5"})"),
            "malformed request: `set` must be a list of strings");
  EXPECT_NE(refusal(R"({"op":"set","sel":["@"],"set":["lanes=0"]})").find("lanes=0: expected"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"op":"set","sel":["@"]})"), "accepted");
}

TEST(Request, WhatToCleanIsBounded) {
  const Result<Request> clean =
      request_of(R"({"op":"clean","sel":["old"],"older_s":3600,"results":true,"take":true})");
  ASSERT_TRUE(clean) << clean.error().message;
  EXPECT_EQ(clean->clean.older_s, 3600);
  EXPECT_TRUE(clean->clean.results && clean->clean.take);
  EXPECT_FALSE(request_of(R"({"op":"clean","sel":["old"]})")->clean.take);
  EXPECT_EQ(refusal(R"({"op":"clean","older_s":-1})"),
            "malformed request: `older_s` must be seconds");
  EXPECT_EQ(refusal(R"({"op":"clean","older_s":9223372036854775807})"),
            "malformed request: `older_s` must be seconds");
  for (const char* op : {R"({"op":"moving"})", R"({"op":"moved"})", R"({"op":"cleaned"})"}) {
    EXPECT_EQ(refusal(op), "malformed request: `sweep_id` must be a whole number") << op;
  }
}

TEST(Request, WhatIsNoneIsRefused) {
  EXPECT_EQ(refusal("[]"), "a request must be one JSON object on a line");
  EXPECT_EQ(refusal("{\"op\":\"ps\""), "a request must be one JSON object on a line");
  EXPECT_EQ(refusal("{}"), "unknown request ``");
  EXPECT_EQ(refusal(R"({"op":"drop"})"), "unknown request `drop`");
}

TEST(Request, NumberOfRunsIsBounded) {
  const std::string rest = R"(,"sweep":{"name":"s"},"context":{}})";
  EXPECT_EQ(refusal(R"({"op":"submit","runs":0)" + rest), "accepted");
  for (const char* runs : {"-1", "10000001", "1.5", "1e300", "null", "\"2\""}) {
    EXPECT_NE(refusal(R"({"op":"submit","runs":)" + std::string(runs) + rest), "accepted") << runs;
  }
}

TEST(Request, DepthIsBoundedSoThatNoStackEnds) {
  const std::string deep(5'000'000, '[');
  EXPECT_EQ(refusal(R"({"op":"submit","sweep":{"x":)" + deep),
            "malformed request: nested more than 100 levels deep");
}

}  // namespace
}  // namespace pergpu
