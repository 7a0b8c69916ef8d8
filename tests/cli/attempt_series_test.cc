// What attempts used over time: of whom it is asked, and what is made of the answer.
#include "cli/results/attempt_series.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 1'795'266'000 * kSecond;  // 2026-11-21 13:00:00 UTC

view::JobHistory job_of(std::int64_t seconds, std::vector<std::string> gpus) {
  view::AttemptFacts attempt{.number = 1};
  attempt.gpus = std::move(gpus);
  attempt.started_at = kStart;
  attempt.ended_at = kStart + seconds * kSecond;
  attempt.duration_s = static_cast<double>(seconds);
  view::JobHistory job;
  job.attempts.push_back(std::move(attempt));
  return job;
}

TEST(WithSeries, GpusComeFirstThenTheLongestAndTheStoreHasNoneOfShortOnes) {
  std::vector<view::JobHistory> jobs = {job_of(100, {}), job_of(5000, {}), job_of(59, {"GPU-0"}),
                                        job_of(60, {"GPU-0"}), job_of(90, {"GPU-1"})};
  jobs.push_back(job_of(0, {}));
  jobs.back().attempts[0].live = true;
  jobs.push_back(job_of(0, {}));
  jobs.back().attempts[0].started_at = 0;  // never begun
  const std::vector<AttemptPlace> places = with_series(jobs, kStart + 2 * kSecond);
  std::vector<std::size_t> order;
  for (const AttemptPlace& place : places) order.push_back(place.job);
  EXPECT_EQ(order, (std::vector<std::size_t>{4, 3, 1, 0, 5}));
}

TEST(AddSeries, KeepsMeansAndLeavesOutWhatIsNotKnown) {
  const json reply = json::parse(R"({"step_s": 60, "buckets": [
      {"at": "2026-11-21T13:00:00Z", "readings": 60, "cores": [0.5, 1, 2],
       "gpu_busy_percent": [0, 90, 100]},
      {"at": "2026-11-21T13:01:00Z", "readings": 30, "cores": [3, 4, 5]}]})");
  view::AttemptFacts attempt;
  add_series(reply, attempt);
  ASSERT_EQ(attempt.series.size(), 2u);
  EXPECT_EQ(attempt.series[0], (view::UsageStretch{.begin_ns = kStart,
                                                   .end_ns = kStart + 60 * kSecond,
                                                   .cores = 1,
                                                   .gpu_busy_percent = 90}));
  EXPECT_EQ(attempt.series[1].gpu_busy_percent, std::nullopt);
  // An attempt before the newest has no mean but that of its minutes.
  EXPECT_EQ(attempt.usage.cores, (view::AttemptUsage::Extent{.mean = 2, .most = 5}));
  EXPECT_EQ(attempt.usage.gpu_busy_percent, (view::AttemptUsage::Extent{.mean = 90, .most = 100}));
  EXPECT_EQ(attempt.usage.resident_bytes, std::nullopt);
}

TEST(AddSeries, WhatTheOutcomeSaysStays) {
  view::AttemptFacts attempt;
  attempt.usage.cores = view::AttemptUsage::Extent{.mean = 7, .most = 8};
  add_series(json::parse(R"({"step_s": 1, "buckets": [
                 {"at": "2026-11-21T13:00:00Z", "cores": [1, 1, 1]}]})"),
             attempt);
  EXPECT_EQ(attempt.usage.cores, (view::AttemptUsage::Extent{.mean = 7, .most = 8}));
}

TEST(AddSeries, OfSomethingElseIsNothing) {
  for (const char* text :
       {"[]", "{}", R"({"step_s":"x","buckets":[]})", R"({"step_s":60,"buckets":{}})",
        R"({"step_s":60,"buckets":[1,null,{"at":7},{"at":"soon"}]})"}) {
    view::AttemptFacts attempt;
    add_series(json::parse(text), attempt);
    EXPECT_TRUE(attempt.series.empty()) << text;
    EXPECT_EQ(attempt.usage, view::AttemptUsage{}) << text;
  }
  view::AttemptFacts attempt;
  add_series(
      json::parse(R"({"step_s":60,"buckets":[{"at":"2026-11-21T13:00:00Z","cores":[1,"2",3]}]})"),
      attempt);
  ASSERT_EQ(attempt.series.size(), 1u);
  EXPECT_EQ(attempt.series[0].cores, std::nullopt);
}

}  // namespace
}  // namespace pergpu::cli
