#include "view/export/prometheus.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "view/model/metric_points.h"

namespace pergpu::view {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

JobSnapshot job(std::int64_t started_s, std::int64_t ended_s) {
  JobSnapshot job;
  job.id = 1;
  job.queued_at = 100 * kSecond;
  job.started_at = started_s * kSecond;
  job.ended_at = ended_s * kSecond;
  if (ended_s > 0) {
    job.cls = "exit";
    job.duration_s = static_cast<double>(ended_s - started_s);
  }
  return job;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(AttemptTally, CountsEachStartAndEndOnce) {
  AttemptTally tally(50 * kSecond);
  for (int i = 0; i < 3; ++i) tally.see(job(105, 0));
  for (int i = 0; i < 3; ++i) tally.see(job(105, 225));
  JobSnapshot again = job(230, 0);  // a retry
  again.queued_at = 225 * kSecond;
  tally.see(again);
  const std::string text = tally.text();
  EXPECT_TRUE(has_line(text, "pergpu_attempts_ended_total{class=\"exit\"} 1"));
  EXPECT_TRUE(has_line(text, "pergpu_attempt_seconds_sum 120"));
  EXPECT_TRUE(has_line(text, "pergpu_attempt_seconds_bucket{le=\"60\"} 0"));
  EXPECT_TRUE(has_line(text, "pergpu_attempt_seconds_bucket{le=\"300\"} 1"));
  EXPECT_TRUE(has_line(text, "pergpu_queue_wait_seconds_count 2"));
  EXPECT_TRUE(has_line(text, "pergpu_queue_wait_seconds_sum 10"));
}

TEST(AttemptTally, WhatWasBeforeItBeganDoesNotCount) {
  AttemptTally tally(300 * kSecond);
  tally.see(job(105, 225));
  EXPECT_TRUE(has_line(tally.text(), "pergpu_attempt_seconds_count 0"));
  EXPECT_TRUE(has_line(tally.text(), "pergpu_queue_wait_seconds_count 0"));
}

TEST(AttemptTally, AJobThatIsToldOfAgainIsNotCountedTwice) {
  AttemptTally tally(50 * kSecond);
  tally.see(job(105, 225));
  tally.forget(1);
  tally.see(job(105, 225));
  EXPECT_TRUE(has_line(tally.text(), "pergpu_attempt_seconds_count 1"));
  EXPECT_TRUE(has_line(tally.text(), "pergpu_queue_wait_seconds_count 1"));
  // What it does then counts, as does what others do.
  tally.see(job(300, 310));
  JobSnapshot other = job(320, 330);
  other.id = 2;
  tally.see(other);
  EXPECT_TRUE(has_line(tally.text(), "pergpu_attempt_seconds_count 3"));
  EXPECT_TRUE(has_line(tally.text(), "pergpu_queue_wait_seconds_count 3"));
}

TEST(AttemptTally, AJobThatWaitsForARetryHasNoWaitYet) {
  AttemptTally tally(50 * kSecond);
  JobSnapshot waiting = job(105, 225);
  waiting.queued_at = 225 * kSecond;
  tally.see(waiting);
  EXPECT_TRUE(has_line(tally.text(), "pergpu_queue_wait_seconds_count 0"));
  EXPECT_TRUE(has_line(tally.text(), "pergpu_attempt_seconds_count 1"));
  waiting.started_at = 235 * kSecond;
  tally.see(waiting);
  EXPECT_TRUE(has_line(tally.text(), "pergpu_queue_wait_seconds_sum 10"));
}

TEST(PrometheusText, WhatIsNotKnownIsNotThere) {
  TopSnapshot snapshot;
  GpuSnapshot gpu;
  gpu.uuid = "GPU-1";
  gpu.state = "busy";
  gpu.busy_percent = 50;
  snapshot.gpus = {gpu};
  snapshot.counts = {{"running", 3}};
  const std::string text = prometheus_text(snapshot, AttemptTally(0));
  EXPECT_TRUE(has_line(text, "pergpu_jobs{state=\"running\"} 3"));
  EXPECT_TRUE(has_line(text, "pergpu_jobs{state=\"failed\"} 0"));
  EXPECT_TRUE(has_line(text, "pergpu_gpu_utilization_ratio{gpu=\"0\",uuid=\"GPU-1\"} 0.5"));
  EXPECT_EQ(text.find("pergpu_gpu_power_watts"), std::string::npos);
  EXPECT_EQ(text.find("pergpu_gpu_memory"), std::string::npos);
}

TEST(PrometheusText, NamesAreQuoted) {
  TopSnapshot snapshot;
  snapshot.sweeps = {{.id = 1, .name = "a\"b\\c\nd", .counts = {{"done", 1}}}};
  EXPECT_NE(prometheus_text(snapshot, AttemptTally(0)).find("sweep=\"a\\\"b\\\\c\\nd\""),
            std::string::npos);
}

TEST(MetricPoints, HoldsTheNumbersOfEachLine) {
  const nlohmann::json points = metric_points(
      "{\"step\":1,\"loss\":0.5,\"note\":\"x\"}\nnonsense\n\n{\"step\":2,\"lr\":1e-3}\n{\"step\":",
      10);
  EXPECT_EQ(points["names"], nlohmann::json({"step", "loss", "lr"}));
  EXPECT_EQ(points["points"],
            nlohmann::json::parse(R"([{"step":1,"loss":0.5},{"step":2,"lr":0.001}])"));
}

TEST(MetricPoints, OfManyLinesTheNewestIsOne) {
  std::string lines;
  for (int i = 0; i < 10'000; ++i) lines += "{\"step\":" + std::to_string(i) + "}\n";
  const nlohmann::json points = metric_points(lines, 100)["points"];
  ASSERT_EQ(points.size(), 100u);
  EXPECT_EQ(points.back()["step"], 9'999);
  EXPECT_LT(points.front()["step"], 200);
}

TEST(MetricPoints, OfNothingThereIsNothing) {
  EXPECT_TRUE(metric_points("", 10)["points"].empty());
  EXPECT_TRUE(metric_points("[1]\n3\n\"x\"\n", 10)["points"].empty());
}

}  // namespace
}  // namespace pergpu::view
