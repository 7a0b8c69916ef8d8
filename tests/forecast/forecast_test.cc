// What the forecast foretells, by hand.
#include "forecast/forecast.h"

#include <gtest/gtest.h>

#include "forecast/forecast_case.h"

namespace pergpu::testing_forecast {
namespace {

TEST(Forecast, TheStoryTakesFourHoursWhereEvaluationsMustNotOverlap) {
  EXPECT_NEAR(story(true).outcome().minutes(), 240, 0.001);
}

TEST(Forecast, TheStoryTakesTwoHoursAndFourteenMinutesWhereTheyMay) {
  EXPECT_NEAR(story(false).outcome().minutes(), 120 + 180.0 / 13, 0.001);
}

/// On 4 lanes the evaluations bind: begun as soon as there is one, they end 28 minutes after the 4
/// hours that all of the work takes at least.  Left for the end they take 6 hours.
TEST(Forecast, EvaluationsOneAtATimeAreNotLeftForTheEnd) {
  Case c = story(true);
  c.machine.capacity.cpu_lanes.size = 4;
  EXPECT_NEAR(c.outcome().minutes(), 240 + 2 * 180.0 / 13, 0.001);
}

TEST(Forecast, IsTheSameInSlices) {
  const Outcome whole = story(true).outcome();
  const Outcome sliced = story(true).outcome(1);
  ASSERT_EQ(whole.spans.size(), sliced.spans.size());
  for (std::size_t i = 0; i < whole.spans.size(); ++i) {
    EXPECT_EQ(whole.spans[i].start_ns, sliced.spans[i].start_ns);
    EXPECT_EQ(whole.spans[i].end_ns, sliced.spans[i].end_ns);
    EXPECT_EQ(whole.spans[i].lane, sliced.spans[i].lane);
  }
}

TEST(Forecast, NoTwoJobsHaveALaneAtOnceAndNeedsComeFirst) {
  const Case c = story(false);
  const Outcome out = c.outcome();
  for (std::size_t a = 0; a < out.spans.size(); ++a) {
    ASSERT_TRUE(out.spans[a].ends());
    for (const std::uint32_t need : c.jobs.jobs[a].needs) {
      EXPECT_GE(out.spans[a].start_ns, out.spans[need].end_ns);
    }
    for (std::size_t b = a + 1; b < out.spans.size(); ++b) {
      if (out.spans[a].lane != out.spans[b].lane) continue;
      EXPECT_TRUE(out.spans[a].end_ns <= out.spans[b].start_ns ||
                  out.spans[b].end_ns <= out.spans[a].start_ns);
    }
  }
}

TEST(Forecast, OrderIsWhatTheSchedulerKnowsNotWhatIsExpected) {
  Case c(1);
  c.add(0, 10 * kMinute);
  c.add(0, 30 * kMinute);
  for (ForecastJob& job : c.jobs.jobs) job.order_ns = 0;
  EXPECT_EQ(c.outcome().spans[1].start_ns, 10 * kMinute);
  c.jobs.jobs[1].order_ns = 30 * kMinute;
  EXPECT_EQ(c.outcome().spans[1].start_ns, 0);
}

TEST(Forecast, WhatRunsKeepsItsLaneForWhatIsLeftOfIt) {
  Case c(1);
  const std::uint32_t live = c.add(0, 5 * kMinute);
  const std::uint32_t next = c.add(1, 10 * kMinute, {live});
  c.jobs.jobs[live].kind = ForecastJob::Kind::Live;
  c.jobs.jobs[live].hold = ForecastJob::Hold{.lane = {.slot = 0}};
  const Outcome out = c.outcome();
  EXPECT_EQ(out.spans[live].start_ns, 0);
  EXPECT_EQ(out.spans[next].start_ns, 5 * kMinute);
  EXPECT_EQ(out.total_ns, 15 * kMinute);
}

TEST(Forecast, ABarrierOpensWithTheLastOfItsJobs) {
  Case c(2);
  c.jobs.barriers = {{c.add(0, 5 * kMinute), c.add(0, 20 * kMinute)}};
  const std::uint32_t behind = c.add(1, kMinute);
  c.jobs.jobs[behind].barriers = {0};
  EXPECT_EQ(c.outcome().spans[behind].start_ns, 20 * kMinute);
}

TEST(Forecast, WhatIsHeldAndWhatNeedsItNeverStart) {
  Case c(2);
  const std::uint32_t held = c.add(0, kMinute);
  const std::uint32_t behind = c.add(1, kMinute, {held});
  const std::uint32_t free = c.add(0, kMinute);
  c.jobs.jobs[held].kind = ForecastJob::Kind::Held;
  const Outcome out = c.outcome();
  EXPECT_EQ(out.spans[held].start_ns, -1);
  EXPECT_EQ(out.spans[behind].start_ns, -1);
  EXPECT_EQ(out.why_not[behind], "");
  EXPECT_TRUE(out.spans[free].ends());
}

TEST(Forecast, OneThatWaitsForATimeDoesNotStartBefore) {
  Case c(1);
  const std::uint32_t again = c.add(0, kMinute);
  c.jobs.jobs[again].not_before_ns = 7 * kMinute;
  EXPECT_EQ(c.outcome().spans[again].start_ns, 7 * kMinute);
}

TEST(Forecast, StartUpsThatMustNotOverlapFollowEachOther) {
  Case c(4);
  c.declare(0, {.step_name = "train", .max_starting = 1}, 2 * kMinute);
  for (int i = 0; i < 3; ++i) c.add(0, 30 * kMinute);
  const Outcome out = c.outcome();
  EXPECT_EQ(out.spans[2].start_ns, 4 * kMinute);
  EXPECT_EQ(out.total_ns, 34 * kMinute);
}

TEST(Forecast, OneWithoutAKnownDurationKeepsItsLaneForEver) {
  Case c(2);
  const std::uint32_t unknown = c.add(0, ForecastJob::kForever);
  c.jobs.jobs[unknown].order_ns = 100 * kMinute;  // so that it goes first
  c.add(1, 10 * kMinute);
  c.add(1, 10 * kMinute);
  const Outcome out = c.outcome();
  EXPECT_EQ(out.spans[unknown].start_ns >= 0, true);
  EXPECT_FALSE(out.spans[unknown].ends());
  EXPECT_GE(out.total_ns, 20 * kMinute);
}

TEST(Forecast, WhatFindsNoLaneSaysWhyInTheSchedulersWords) {
  Case c(0);
  c.add(0, kMinute);
  EXPECT_EQ(c.outcome().why_not[0], "there is no lane it can run on");
}

TEST(Forecast, AGpuThatIsLeavingIsNotGivenToAnother) {
  Case c(0);
  for (int i = 0; i < 2; ++i) {
    c.machine.capacity.gpus.push_back(
        {.id = {.pool = LaneId::Pool::Gpu, .slot = i}, .uuid = "GPU-" + std::to_string(i)});
  }
  const Demand demand{.step_name = "train", .pool = LaneId::Pool::Gpu, .gpus = 1};
  c.declare(0, demand);
  const std::uint32_t live = c.add(0, 5 * kMinute);
  c.jobs.jobs[live].kind = ForecastJob::Kind::Live;
  c.jobs.jobs[live].hold =
      ForecastJob::Hold{.demand = demand, .lane = c.machine.capacity.gpus[0].id, .gpus = {"GPU-0"}};
  c.machine.leaving = {"GPU-0"};
  for (int i = 0; i < 3; ++i) c.add(0, 10 * kMinute);
  const Outcome out = c.outcome();
  EXPECT_EQ(out.total_ns, 30 * kMinute);
  for (std::uint32_t i = 1; i < 4; ++i) EXPECT_EQ(out.spans[i].gpus.front(), "GPU-1");
}

TEST(Forecast, FarAwayEndsDoNotOverflow) {
  Case c(1);
  for (int i = 0; i < 5; ++i) c.add(0, kFarthest);
  EXPECT_EQ(c.outcome().total_ns, kFarthest);
  EXPECT_GT(c.bound().ns, 0);
}

TEST(LowerBound, OfTheStoryIsWhatTheEvaluationsTakeOneByOne) {
  const LowerBound bound = story(true).bound();
  EXPECT_EQ(bound.by, LowerBound::By::MaxParallel);
  EXPECT_EQ(bound.step, step_key(1));
  EXPECT_EQ(bound.at_once, 1u);
  EXPECT_NEAR(static_cast<double>(bound.ns) / kMinute, 240, 0.001);
}

TEST(LowerBound, OfTheStoryWithoutALimitIsWhatTheLanesTake) {
  const LowerBound bound = story(false).bound();
  EXPECT_EQ(bound.by, LowerBound::By::Lanes);
  EXPECT_EQ(bound.at_once, 8u);
  EXPECT_NEAR(static_cast<double>(bound.ns) / kMinute, 120, 0.001);
  EXPECT_NEAR(static_cast<double>(bound.work_ns) / kMinute, 16 * 60, 0.001);
}

TEST(LowerBound, OfFewJobsIsTheLongestChain) {
  Case c(4);
  const std::uint32_t first = c.add(0, 10 * kMinute);
  c.add(0, 15 * kMinute);
  const std::uint32_t last = c.add(1, 20 * kMinute, {first});
  const LowerBound bound = c.bound();
  EXPECT_EQ(bound.by, LowerBound::By::Chain);
  EXPECT_EQ(bound.chain, (std::vector<std::uint32_t>{first, last}));
  EXPECT_EQ(bound.ns, 30 * kMinute);
}

TEST(LowerBound, GoesThroughBarriersToo) {
  Case c(8);
  c.jobs.barriers = {{c.add(0, 5 * kMinute), c.add(0, 20 * kMinute)}};
  const std::uint32_t behind = c.add(1, 3 * kMinute);
  c.jobs.jobs[behind].barriers = {0};
  EXPECT_EQ(c.bound().ns, 23 * kMinute);
  EXPECT_EQ(c.bound().chain, (std::vector<std::uint32_t>{1, behind}));
}

TEST(LowerBound, NamesTheLimitThatBinds) {
  Case c(8);
  c.machine.capacity.limits["disk"].value = 2;
  c.declare(0, {.step_name = "train", .uses = {"disk"}});
  for (int i = 0; i < 6; ++i) c.add(0, 10 * kMinute);
  const LowerBound bound = c.bound();
  EXPECT_EQ(bound.by, LowerBound::By::Limit);
  EXPECT_EQ(bound.limit, "disk");
  EXPECT_EQ(bound.ns, 30 * kMinute);
  EXPECT_EQ(c.outcome().total_ns, 30 * kMinute);
}

TEST(LowerBound, NamesReservationsThatBind) {
  Case c(8);
  c.machine.capacity.cpus = 8;
  c.machine.capacity.memory_bytes = 100;
  c.declare(0, {.step_name = "train", .cpus = 4});
  c.declare(1, {.step_name = "pack", .memory_bytes = 100});
  for (int i = 0; i < 8; ++i) c.add(0, 10 * kMinute);
  EXPECT_EQ(c.bound().by, LowerBound::By::Cpus);
  EXPECT_EQ(c.bound().ns, 40 * kMinute);
  for (int i = 0; i < 5; ++i) c.add(1, 10 * kMinute);
  EXPECT_EQ(c.bound().by, LowerBound::By::Memory);
  EXPECT_EQ(c.bound().ns, 50 * kMinute);
}

TEST(LowerBound, NamesStartUpsThatMustNotOverlap) {
  Case c(100);
  c.declare(0, {.step_name = "train", .max_starting = 2}, kMinute);
  for (int i = 0; i < 80; ++i) c.add(0, 10 * kMinute);
  EXPECT_EQ(c.bound().by, LowerBound::By::MaxStarting);
  EXPECT_EQ(c.bound().ns, 40 * kMinute);
}

TEST(LowerBound, AGpuThatOthersUseCountsOnlyForJobsThatDoNotMind) {
  Case c(0);
  for (int i = 0; i < 2; ++i) {
    c.machine.capacity.gpus.push_back(
        {.id = {.pool = LaneId::Pool::Gpu, .slot = i}, .uuid = "GPU-" + std::to_string(i)});
  }
  c.machine.capacity.gpus[1].outsiders = "alice/python";
  Demand demand{.step_name = "train", .pool = LaneId::Pool::Gpu, .gpus = 1};
  c.declare(0, demand);
  demand.outsiders = Outsiders::Ignore;
  c.declare(1, demand);
  for (int i = 0; i < 4; ++i) c.add(0, 60 * kMinute);
  EXPECT_EQ(c.outcome().total_ns, 240 * kMinute);
  EXPECT_EQ(c.bound().ns, 240 * kMinute);
  EXPECT_EQ(c.bound().by, LowerBound::By::Lanes);
  EXPECT_EQ(c.bound().at_once, 1u);
  // 4 hours of work for one GPU, and 6 more for both: together 10 hours on two.
  for (int i = 0; i < 6; ++i) c.add(1, 60 * kMinute);
  EXPECT_EQ(c.bound().ns, 300 * kMinute);
  EXPECT_EQ(c.bound().at_once, 2u);
  EXPECT_GE(c.outcome().total_ns, c.bound().ns);
}

TEST(LowerBound, OfNothingIsNothing) {
  Case c(2);
  EXPECT_EQ(c.bound().by, LowerBound::By::Nothing);
  EXPECT_EQ(c.bound().ns, 0);
}

/// `cores` for each job of the case, on a machine with so many.
Case with_cores(Case c, std::vector<double> cores, double machine) {
  for (std::size_t i = 0; i < cores.size(); ++i) c.jobs.jobs[i].cores = cores[i];
  c.machine.cores = machine;
  return c;
}

TEST(Forecast, JobsThatWantMoreCoresThanThereAreSlowEachOtherDown) {
  Case c(8);
  for (int i = 0; i < 8; ++i) c.add(0, 10 * kMinute);
  EXPECT_NEAR(with_cores(c, std::vector<double>(8, 1), 2).outcome().minutes(), 40, 0.001);
  EXPECT_NEAR(with_cores(c, std::vector<double>(8, 1), 8).outcome().minutes(), 10, 0.001);
  EXPECT_NEAR(with_cores(c, std::vector<double>(8, 0), 2).outcome().minutes(), 10, 0.001)
      << "how many they want is not known";
}

TEST(Forecast, TheLastOnesAreFasterThanThoseThatHadCompany) {
  Case c(2);
  c.add(0, 10 * kMinute);
  c.add(0, 4 * kMinute);
  const Outcome out = with_cores(c, {1, 1}, 1).outcome();
  EXPECT_NEAR(static_cast<double>(out.spans[1].end_ns) / kMinute, 8, 0.001);
  EXPECT_NEAR(static_cast<double>(out.spans[0].end_ns) / kMinute, 14, 0.001);
}

TEST(Forecast, WhoWantsNoCoresIsNotSlowed) {
  Case c(3);
  c.add(0, 10 * kMinute);
  c.add(0, 10 * kMinute);
  c.add(0, 10 * kMinute);
  const Outcome out = with_cores(c, {1, 1, 0}, 1).outcome();
  EXPECT_NEAR(static_cast<double>(out.spans[2].end_ns) / kMinute, 10, 0.001);
  EXPECT_NEAR(out.minutes(), 20, 0.001);
}

}  // namespace
}  // namespace pergpu::testing_forecast
