// What other programs read: CSV, JSON lines and the trace.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "view/export/csv.h"
#include "view/export/trace.h"
#include "view/model/history.h"
#include "view/model/metrics.h"
#include "view/model/timeline.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

constexpr std::int64_t kStart = 1'795'266'000'000'000'000;  // 2026-11-21 13:00:00 UTC
constexpr std::int64_t kSecond = 1'000'000'000;

AttemptFacts attempt(std::int64_t number, std::string cls, std::string lane, double from_s,
                     double to_s) {
  AttemptFacts a;
  a.number = number;
  a.cls = std::move(cls);
  a.lane = std::move(lane);
  a.started_at = kStart + static_cast<std::int64_t>(from_s * 1e9);
  a.ended_at = kStart + static_cast<std::int64_t>(to_s * 1e9);
  a.duration_s = to_s - from_s;
  return a;
}

JobHistory history(std::int64_t id, std::string run, std::vector<AttemptFacts> attempts) {
  JobHistory h;
  h.job.id = id;
  h.job.sweep = "s";
  h.job.sweep_id = 1;
  h.job.run = std::move(run);
  h.job.index = id - 1;
  h.job.step = "train";
  h.job.state = "done";
  h.job.attempt = static_cast<std::int64_t>(attempts.size());
  h.attempts = std::move(attempts);
  return h;
}

TEST(Csv, QuotesWhatWouldEndAField) {
  EXPECT_EQ(csv_record({"a", "", "b,c", "say \"x\"", "two\nlines", "cr\r", " blank"}),
            "a,,\"b,c\",\"say \"\"x\"\"\",\"two\nlines\",\"cr\r\", blank\r\n");
}

TEST(Csv, HasAColumnForEachParameterAndMetricOfAnyJob) {
  JobHistory first = history(1, "0", {});
  first.params = {{"lr", "0.1"}, {"opt", "\"adam, w\""}};
  JobHistory second = history(2, "1", {});
  second.params = {{"seed", "7"}};
  second.metrics = {{"loss", "0.41234567890123"}, {"note", "\"nan\""}};
  const std::string text = jobs_csv({first, second});
  const std::string header = text.substr(0, text.find('\r'));
  EXPECT_TRUE(header.starts_with("job,sweep,run,index,step,state,class,reason,attempts,exit,"));
  EXPECT_TRUE(
      header.ends_with(",out,log,params.lr,params.opt,params.seed,metrics.loss,metrics.note"));
  EXPECT_NE(text.find("\r\n1,s,0,0,train,done,"), std::string::npos) << text;
  EXPECT_NE(text.find(",0.1,\"adam, w\",,,\r\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(",,,7,0.41234567890123,nan\r\n")) << text;
}

TEST(JobHistory, AsJsonKeepsTypesAndTellsOfEveryAttempt) {
  JobHistory job =
      history(3, "2", {attempt(1, "exit", "cpu0", 0, 1.5), attempt(2, "ok", "cpu1", 3, 4)});
  job.attempts[0].exit = 4;
  job.params = {{"lr", "0.1"}, {"layers", "[1,2]"}, {"opt", "\"adam\""}};
  job.metrics = {{"loss", "0.5"}, {"grad", "\"inf\""}};
  const json value = to_json_value(job);
  EXPECT_EQ(value["schema"], 1);
  EXPECT_EQ(value["id"], 3);
  EXPECT_EQ(value["params"], json({{"lr", 0.1}, {"layers", {1, 2}}, {"opt", "adam"}}));
  EXPECT_EQ(value["last_metrics"], json({{"loss", 0.5}, {"grad", "inf"}}));
  ASSERT_EQ(value["attempts"].size(), 2u);
  EXPECT_EQ(value["attempts"][0]["outcome"], "exit");
  EXPECT_EQ(value["attempts"][0]["exit"], 4);
  EXPECT_EQ(value["attempts"][0]["duration_s"], 1.5);
  EXPECT_EQ(value["attempts"][1]["signal"], nullptr);
  EXPECT_EQ(value["attempts"][1]["started_at"], "2026-11-21T13:00:03.000Z");
  EXPECT_EQ(value["attempts"][0]["git"], nullptr);
  EXPECT_EQ(value["attempts"][0]["files"], json::object());
}

TEST(JobHistory, TellsWhichCodeEachAttemptRan) {
  JobHistory job =
      history(1, "0", {attempt(1, "exit", "cpu0", 0, 1), attempt(2, "ok", "cpu0", 2, 3)});
  job.attempts[0].git_commit = "5b2f";
  job.attempts[1].git_commit = "77aa";
  job.attempts[1].git_dirty = true;
  job.attempts[1].files = {{"train.py", "00ff"}};
  const json value = to_json_value(job);
  EXPECT_EQ(value["attempts"][0]["git"], json({{"commit", "5b2f"}, {"dirty", false}}));
  EXPECT_EQ(value["attempts"][1]["git"], json({{"commit", "77aa"}, {"dirty", true}}));
  EXPECT_EQ(value["attempts"][1]["files"], json({{"train.py", "00ff"}}));
  EXPECT_NE(jobs_csv({job}).find(",77aa,true,"), std::string::npos);
}

TEST(ExactMetrics, NothingIsRounded) {
  EXPECT_EQ(exact_metrics_of_line(R"({"loss":0.41234567890123,"n":3,"s":"a","v":[1],"e":null})"),
            (Metrics{{"loss", "0.41234567890123"}, {"n", "3"}, {"s", "\"a\""}}));
  EXPECT_EQ(exact_metrics_of_line(R"({"loss": NaN})"), (Metrics{{"loss", "\"nan\""}}));
  EXPECT_TRUE(exact_metrics_of_line(R"({"lo)").empty());
}

TEST(EndOfAttempt, WallClockUnlessItWasSetMeanwhile) {
  AttemptFacts a = attempt(1, "ok", "cpu0", 0, 10);
  a.duration_s = 10.0004;
  EXPECT_EQ(end_of(a, 0), kStart + 10 * kSecond);
  a.ended_at = kStart - 3600 * kSecond;
  EXPECT_EQ(end_of(a, 0), kStart + 10 * kSecond);
  a.live = true;
  EXPECT_EQ(end_of(a, kStart + 5 * kSecond), kStart + 5 * kSecond);
  EXPECT_EQ(end_of(AttemptFacts{}, kStart), 0);
}

TEST(Timeline, LanesInOrderAndWhatNobodyKnowsIsCounted) {
  std::vector<JobHistory> jobs = {
      history(1, "0", {attempt(1, "ok", "cpu10", 0, 1)}),
      history(2, "1", {attempt(1, "ok", "cpu9", 0, 2)}),
      history(3, "2", {attempt(1, "ok", "gpu0", 1, 2), AttemptFacts{.number = 2}})};
  const Timeline timeline = timeline_of(jobs, kStart);
  ASSERT_EQ(timeline.rows.size(), 3u);
  EXPECT_EQ(timeline.rows[0].name, "gpu0");
  EXPECT_EQ(timeline.rows[1].name, "cpu9");
  EXPECT_EQ(timeline.rows[2].name, "cpu10");
  EXPECT_EQ(timeline.left_out, 1u);
  EXPECT_EQ(timeline.begin_ns, kStart);
  EXPECT_EQ(timeline.end_ns, kStart + 2 * kSecond);
}

TEST(Timeline, LanesOfTwoSweepsAreNotOne) {
  std::vector<JobHistory> jobs = {history(1, "0", {attempt(1, "ok", "lane0", 0, 2)}),
                                  history(2, "1", {attempt(1, "ok", "lane0", 1, 3)})};
  jobs[1].job.sweep_id = 2;
  jobs[1].job.sweep = "other";
  const Timeline timeline = timeline_of(jobs, kStart);
  ASSERT_EQ(timeline.rows.size(), 2u);
  EXPECT_EQ(timeline.rows[0].name, "lane0 of s");
  EXPECT_EQ(timeline.rows[1].name, "lane0 of other");
}

TEST(Timeline, WhatOverlapsBecauseAClockWasSetGetsARowOfItsOwn) {
  const std::vector<JobHistory> jobs = {history(1, "0", {attempt(1, "ok", "gpu0", 0, 5)}),
                                        history(2, "1", {attempt(1, "ok", "gpu0", 3, 6)}),
                                        history(3, "2", {attempt(1, "ok", "gpu0", 5, 7)})};
  const Timeline timeline = timeline_of(jobs, kStart);
  ASSERT_EQ(timeline.rows.size(), 2u);
  EXPECT_EQ(timeline.rows[0].bars.size(), 2u);
  EXPECT_EQ(timeline.rows[1].name, "gpu0 (2)");
}

TEST(Trace, NamesTheMachineItsLanesAndEachAttempt) {
  JobHistory job = history(17, "0-lr=<script>",
                           {attempt(1, "exit", "gpu0", 0, 1), attempt(2, "ok", "gpu1", 2, 4)});
  job.params = {{"lr", "\"\\u001b[31m\""}};
  const json trace = json::parse(trace_text({job}, "node1", kStart));
  const json& events = trace["traceEvents"];
  EXPECT_EQ(trace["otherData"]["begins_at"], "2026-11-21T13:00:00.000Z");
  ASSERT_EQ(events.size(), 7u);  // machine, 2 x (name, order, attempt)
  EXPECT_EQ(events[0]["args"]["name"], "node1");
  EXPECT_EQ(events[1]["name"], "thread_name");
  EXPECT_EQ(events[1]["args"]["name"], "gpu0");
  EXPECT_EQ(events[3]["ph"], "X");
  EXPECT_EQ(events[3]["ts"], 0);
  EXPECT_EQ(events[3]["dur"], 1'000'000);
  EXPECT_EQ(events[6]["ts"], 2'000'000);
  EXPECT_EQ(events[6]["tid"], 2);
  EXPECT_EQ(events[6]["name"], "0-lr=<script>/train");
  EXPECT_EQ(events[6]["args"]["outcome"], "ok");
  EXPECT_EQ(events[6]["args"]["params.lr"], "\x1b[31m");
}

TEST(Trace, OfNothingIsATraceToo) {
  EXPECT_EQ(json::parse(trace_text({}, "node1", kStart))["traceEvents"].size(), 1u);
}

/// Attempts at random times, also in lanes of several sweeps, with ends that contradict durations.
std::vector<JobHistory> any_jobs() {
  std::vector<JobHistory> jobs;
  const int count = *rc::gen::inRange(0, 40);
  for (int i = 0; i < count; ++i) {
    const double from = *rc::gen::inRange(0, 2000) / 100.0;
    const double to = from + *rc::gen::inRange(0, 500) / 100.0;
    const std::string lane =
        *rc::gen::elementOf(std::vector<std::string>{"gpu0", "gpu1", "cpu0", "lane0", "odd"});
    AttemptFacts a = attempt(1, "ok", lane, from, to);
    if (*rc::gen::arbitrary<bool>()) a.duration_s = *rc::gen::inRange(0, 500) / 100.0;
    a.live = *rc::gen::inRange(0, 10) == 0;
    jobs.push_back(history(i + 1, std::to_string(i), {a}));
    jobs.back().job.sweep_id = *rc::gen::inRange(1, 3);
  }
  return jobs;
}

TEST(Trace, ThreadsNeverOverlapAndNoAttemptIsLost) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<JobHistory> jobs = any_jobs();
    const json trace = json::parse(trace_text(jobs, "m", kStart + 30 * kSecond));
    std::map<std::int64_t, std::int64_t> free_at;  // by thread
    std::size_t shown = 0;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      ++shown;
      const std::int64_t begin = event["ts"];
      const std::int64_t length = event["dur"];
      RC_ASSERT(begin >= 0);
      RC_ASSERT(length >= 0);
      std::int64_t& free = free_at[event["tid"].get<std::int64_t>()];
      RC_ASSERT(begin >= free);
      free = begin + length;
    }
    RC_ASSERT(shown == jobs.size());
  }));
}

}  // namespace
}  // namespace pergpu::view
