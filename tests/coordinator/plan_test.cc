// What is foretold, beside what the same coordinator then does over the fake engine.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "lock_folder.h"
#include "simulation.h"
#include "state/simulated_sweep.h"

namespace pergpu::testing {
namespace {

using nlohmann::json;

constexpr std::int64_t kMinute = 60 * kSecond;

struct PlanTest : ::testing::Test {
  Result<json> ask(Simulation& sim, const Coordinator::PlanRequest& request) {
    std::optional<Result<json>> answer;
    sim.core->plan(request, [&](Result<json> told) { answer = std::move(told); });
    while (!answer && !sim.sim_timers.empty()) sim.sim_timers.step(clock);
    EXPECT_TRUE(answer);
    return answer ? std::move(*answer) : Error{ErrorKind::Unavailable, 0, "no answer"};
  }
  json plan(Simulation& sim, const Coordinator::PlanRequest& request) {
    Result<json> told = ask(sim, request);
    EXPECT_TRUE(told) << (told ? "" : told.error().message);
    return told ? *told : json::object();
  }
  static double total_s(const json& plan) {
    return plan.contains("total_s") && plan["total_s"].is_number() ? plan["total_s"].get<double>()
                                                                   : -1;
  }
  /// Seconds from now until the last job has ended.
  double run_to_the_end(Simulation& sim) {
    const std::int64_t from = clock.now().boot_ns;
    sim.run();
    std::int64_t last = from;
    for (const Job& job : sim.world.jobs()) {
      if (job.last && job.last->outcome) last = std::max(last, job.last->ended_at.boot_ns);
    }
    return static_cast<double>(last - from) / 1e9;
  }

  MemoryStore store;
  SimClock clock;
  LockFolder locks;
};

/// Its jobs take as long as the file says.
StepSpec expecting(const std::string& name, const std::string& duration) {
  StepSpec step = step_of(name, "");
  step.expect = duration;
  return step;
}

SweepSpec story(bool one_evaluation_at_a_time) {
  SweepSpec sweep = sweep_of("thirteen", 13);
  sweep.steps.push_back(expecting("train", "1h"));
  StepSpec evaluate = expecting("evaluate", "830769ms");  // 3 h / 13
  evaluate.needs = {{.step = 0}};
  if (one_evaluation_at_a_time) evaluate.max_parallel = 1;
  sweep.steps.push_back(evaluate);
  return sweep;
}

TEST_F(PlanTest, OfTheStoryIsWhatTheSimulationThenTakes) {
  for (const bool serial : {true, false}) {
    MemoryStore fresh;
    Simulation sim(fresh, clock);
    const SubmitContext context{.lanes = 8};
    const json told = plan(sim, {.file = story(serial), .context = context});
    EXPECT_NEAR(total_s(told) / 60, serial ? 240 : 133.8, 0.1);
    EXPECT_EQ(told["bound_by"]["kind"], serial ? "max_parallel" : "lanes");
    EXPECT_NEAR(told["lower_bound_s"].get<double>() / 60, serial ? 240 : 120, 0.01);
    EXPECT_EQ(told["jobs"].size(), 26u);
    EXPECT_EQ(told["lane_count"], 8);
    EXPECT_EQ(told["with_lanes"].size(), 16u);
    EXPECT_NEAR(told["with_lanes"][0]["total_s"].get<double>() / 60, 16 * 60, 0.1);
    EXPECT_EQ(told["with_lanes"][7]["total_s"], told["total_s"]);
    ASSERT_TRUE(sim.submit(story(serial), context));
    EXPECT_NEAR(run_to_the_end(sim), total_s(told), 0.001);
  }
}

TEST_F(PlanTest, NothingIsRecordedAndNothingStarts) {
  Simulation sim(store, clock);
  const std::size_t rows = store.rows.size();
  plan(sim, {.file = story(true), .context = {.lanes = 8}});
  sim.turn();
  EXPECT_EQ(store.rows.size(), rows);
  EXPECT_EQ(sim.world.sweeps().size(), 0u);
  EXPECT_EQ(sim.engine->running(), 0u);
}

TEST_F(PlanTest, FollowsNeedsBarriersLimitsAndOnceSteps) {
  SweepSpec sweep = sweep_of("shapes", 7);
  for (int i = 0; i < 7; ++i) {
    sweep.runs[static_cast<std::size_t>(i)].json = "{\"x\":" + std::to_string(2 + i * i) + "}";
  }
  StepSpec once = expecting("classifier", "11s");
  once.once = true;
  sweep.steps.push_back(once);
  sweep.steps.push_back(expecting("train", "{x}s"));
  StepSpec evaluate = expecting("evaluate", "7s");
  evaluate.needs = {{.step = 1}, {.step = 0}};
  evaluate.uses = {"disk"};
  sweep.steps.push_back(evaluate);
  StepSpec compare = expecting("compare", "3s");
  compare.needs = {{.step = 2, .scope = Need::Scope::All}};
  sweep.steps.push_back(compare);
  StepSpec last = expecting("report", "5s");
  last.once = true;
  last.needs = {{.step = 3, .scope = Need::Scope::Ended}};
  sweep.steps.push_back(last);
  sweep.limits = {{"disk", 2}};
  Simulation sim(store, clock);
  const json told = plan(sim, {.file = sweep, .context = {.lanes = 3}});
  EXPECT_EQ(told["jobs"].size(), 23u);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 3}));
  EXPECT_NEAR(run_to_the_end(sim), total_s(told), 0.001);
}

TEST_F(PlanTest, OfWhatRunsCountsWhatIsLeftOfIt) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(story(true), {.lanes = 8}));
  sim.run_for(100 * kMinute);
  const json told = plan(sim, {});
  EXPECT_NEAR(total_s(told) / 60, 140, 0.1);
  EXPECT_NEAR(run_to_the_end(sim), total_s(told), 0.001);
}

TEST_F(PlanTest, OfAFileThatRunsAlreadyKeepsWhatIsDone) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(story(false), {.lanes = 8}));
  sim.run_for(90 * kMinute);
  SweepSpec longer = story(false);
  longer.runs.push_back({.json = "{\"x\":13}"});
  SubmitContext context = {.lanes = 8};
  context.engine = kFake;  // as the jobs that are done
  const json told = plan(sim, {.file = longer, .context = context});
  EXPECT_EQ(told["jobs"].size(), 28u - static_cast<std::size_t>(sim.count(JobState::Done)));
  ASSERT_TRUE(sim.submit(longer, {.lanes = 8}));
  EXPECT_NEAR(run_to_the_end(sim), total_s(told), 0.001);
}

TEST_F(PlanTest, OtherSweepsCompeteAsTheyWill) {
  Simulation sim(store, clock);
  SweepSpec other = sweep_of("other", 9);
  other.steps.push_back(expecting("train", "10min"));
  ASSERT_TRUE(sim.submit(other));  // on the four CPU lanes
  SweepSpec ours = sweep_of("ours", 5);
  ours.steps.push_back(expecting("train", "7min"));
  const json told = plan(sim, {.file = ours});
  EXPECT_FALSE(told["others"].empty());
  ASSERT_TRUE(sim.submit(ours));
  EXPECT_NEAR(run_to_the_end(sim), total_s(told), 0.001);
}

TEST_F(PlanTest, LanesOfAnotherSweepAreNotTakenForThoseOfTheOneThatIsAsked) {
  Simulation sim(store, clock);
  for (const char* name : {"first", "second"}) {
    SweepSpec sweep = sweep_of(name, 2);
    sweep.steps.push_back(expecting("train", "10min"));
    ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  }
  sim.turn();
  const json told = plan(sim, {.jobs = std::vector<JobId>{JobId{3}, JobId{4}}});
  EXPECT_EQ(told["lanes"], json::array({"1/lane0", "lane0"}));
  EXPECT_EQ(told["others"][0]["lanes"], json::array({"1/lane0"}));
  EXPECT_EQ(told["jobs"][0]["lanes"], json::array({"lane0"}));
}

TEST_F(PlanTest, DurationsAreLearntFromJobsThatAreDone) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("learning", 12);
  sweep.steps.push_back(step_of("train", "20min"));
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 2}));
  const json early = plan(sim, {});
  ASSERT_EQ(early["missing"].size(), 1u);
  EXPECT_EQ(early["missing"][0], (json{{"sweep", "learning"}, {"step", "train"}, {"jobs", 12}}));
  sim.run([&] { return sim.count(JobState::Done) >= 2; });
  const json told = plan(sim, {});
  EXPECT_EQ(told["durations"][0]["source"], "learnt");
  EXPECT_NEAR(told["durations"][0]["mean_s"].get<double>(), 1200, 0.01);
  EXPECT_NEAR(run_to_the_end(sim), total_s(told), 0.01);
}

TEST_F(PlanTest, GivenDurationsCountButTheSchedulerDoesNotKnowThem) {
  Simulation sim(store, clock);
  SweepSpec sweep = story(false);
  for (StepSpec& step : sweep.steps) {
    step.fake.duration = step.expect;
    step.expect.clear();
  }
  const json told =
      plan(sim, {.file = sweep,
                 .context = {.lanes = 8},
                 .given = {{"train", 60 * kMinute}, {"evaluate", 830769 * kMillisecond}}});
  EXPECT_EQ(told["durations"][0]["source"], "given");
  // Evaluations of the first runs go before trainings of the last, until `expect` is in the file.
  EXPECT_NEAR(told["with_expect_s"].get<double>() / 60, 133.8, 0.1);
  EXPECT_GT(total_s(told), told["with_expect_s"].get<double>());
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 8}));
  EXPECT_NEAR(run_to_the_end(sim), total_s(told), 0.001);
}

TEST_F(PlanTest, WhatCannotBeAnsweredIsRefused) {
  Simulation sim(store, clock);
  const Result<json> unknown =
      ask(sim, {.file = story(true), .context = {.lanes = 8}, .given = {{"trian", kMinute}}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::Invalid);
  EXPECT_NE(unknown.error().message.find("did you mean `train`?"), std::string::npos);
  SweepSpec huge = sweep_of("huge", 6000);
  huge.steps.push_back(expecting("train", "1h"));
  const Result<json> too_many = ask(sim, {.file = huge});
  ASSERT_FALSE(too_many);
  EXPECT_NE(too_many.error().message.find("6000 jobs would be open"), std::string::npos);
}

TEST_F(PlanTest, HeldJobsAndThoseThatNeedThemAreNotCounted) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("held", 4);
  sweep.steps.push_back(expecting("train", "10min"));
  StepSpec evaluate = expecting("evaluate", "10min");
  evaluate.needs = {{.step = 0}};
  sweep.steps.push_back(evaluate);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 1}));
  sim.core->hold({World::current(*sim.world.sweep({1}), 0, 3)}, "held by hand");
  sim.turn();
  const json told = plan(sim, {});
  EXPECT_EQ(told["held"], 2);
  EXPECT_NEAR(total_s(told), 3600, 0.01);
}

TEST_F(PlanTest, OfGpusThatAreNotThereIsAnsweredWithOn) {
  Simulation sim(store, clock);
  SweepSpec sweep = story(false);
  for (StepSpec& step : sweep.steps) step.gpus = 1;
  EXPECT_FALSE(ask(sim, {.file = sweep}));
  const json told = plan(sim, {.file = sweep, .on = 8});
  EXPECT_EQ(told["lane_kind"], "GPU");
  EXPECT_NEAR(total_s(told) / 60, 133.8, 0.1);
}

TEST_F(PlanTest, OnGpusIsWhatTheyThenTake) {
  ShownGpus shown;
  shown.look.gpus = {gpu_reading(0), gpu_reading(1), gpu_reading(2)};
  shown.look.gpus[2].processes.push_back(foreign_process());
  Simulation sim(store, clock, "boot-1",
                 Machine{.cores = {0, 1, 2, 3}, .memory_bytes = 64ull << 30}, &shown);
  sim.run([&] { return sim.gpus->discovered(); });
  SweepSpec sweep = sweep_of("training", 5);
  sweep.steps.push_back(expecting("train", "1h"));
  sweep.steps[0].gpus = 1;
  ASSERT_TRUE(sim.submit(sweep));
  sim.run_for(kMinute);
  const json told = plan(sim, {});
  EXPECT_EQ(told["lane_kind"], "GPU");
  EXPECT_EQ(told["lane_count"], 2);  // one has a foreign process
  EXPECT_EQ(told["notes"].size(), 1u);
  EXPECT_EQ(told["with_lanes"].size(), 4u);
  EXPECT_NEAR(total_s(told), 3 * 3600 - 60, 5);
  const std::optional<std::int64_t> expected = sim.core->expected_end(SweepId{1});
  ASSERT_TRUE(expected);
  EXPECT_NEAR(static_cast<double>(*expected - clock.now().boot_ns) / 1e9, total_s(told), 1);
}

TEST_F(PlanTest, TheExpectedEndIsRightFromTheBeginWhereDurationsAreKnown) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(story(true), {.lanes = 8}));
  const std::int64_t begin = clock.now().boot_ns;
  const std::optional<std::int64_t> end = sim.core->expected_end(SweepId{1});
  ASSERT_TRUE(end);
  EXPECT_NEAR(static_cast<double>(*end - begin) / 1e9, run_to_the_end(sim), 1);
  EXPECT_FALSE(sim.core->expected_end(SweepId{1})) << "it has ended";
}

TEST_F(PlanTest, TheExpectedEndAfterAThirdOfTheJobsIsNearTheRealOne) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("demo", 13);
  for (int i = 0; i < 13; ++i) {  // 40 s to 100 s, in no order
    sweep.runs[static_cast<std::size_t>(i)].json =
        "{\"x\":" + std::to_string(40 + (i * 37) % 61) + "}";
  }
  StepSpec once = step_of("classifier", "15s");
  once.once = true;
  StepSpec evaluate = step_of("evaluate", "6s");
  evaluate.needs = {{.step = 1}, {.step = 0}};
  evaluate.max_parallel = 1;
  sweep.steps = {once, step_of("train", "{x}s"), evaluate};
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 8}));
  const std::int64_t begin = clock.now().boot_ns;
  sim.run([&] { return sim.count(JobState::Done) >= 9; });
  const std::optional<std::int64_t> expected = sim.core->expected_end(SweepId{1});
  ASSERT_TRUE(expected);
  const double foretold = static_cast<double>(*expected - begin) / 1e9;
  const double real = static_cast<double>(clock.now().boot_ns - begin) / 1e9 + run_to_the_end(sim);
  EXPECT_NEAR(foretold, real, 0.15 * real);
}

TEST_F(PlanTest, OneThatShouldHaveEndedPushesTheEndAhead) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("late", 1);
  StepSpec train = expecting("train", "100s");
  train.fake.duration = "200s";
  sweep.steps.push_back(train);
  ASSERT_TRUE(sim.submit(sweep));
  const auto left = [&] {
    const std::optional<std::int64_t> end = sim.core->expected_end(JobId{1});
    return end ? static_cast<double>(*end - clock.now().boot_ns) / 1e9 : -1;
  };
  sim.run_for(40 * kSecond);
  EXPECT_NEAR(left(), 60, 0.1);
  sim.run_for(64 * kSecond);
  EXPECT_NEAR(left(), 4, 0.1);
  sim.run_for(60 * kSecond);
  EXPECT_NEAR(left(), 10, 0.1);
}

TEST_F(PlanTest, TheExpectedEndOfManyJobsIsEstimatedFromTheWorkThatIsLeft) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("many", 1500);
  sweep.steps.push_back(expecting("train", "10s"));
  StepSpec evaluate = expecting("evaluate", "1s");
  evaluate.needs = {{.step = 0}};
  sweep.steps.push_back(evaluate);
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 8}));
  const std::optional<std::int64_t> expected = sim.core->expected_end(SweepId{1});
  ASSERT_TRUE(expected);
  EXPECT_FALSE(sim.core->expected_end(JobId{1}));
  const double foretold = static_cast<double>(*expected - clock.now().boot_ns) / 1e9;
  EXPECT_NEAR(foretold, 1500 * 11 / 8.0, 1);
  EXPECT_NEAR(foretold, run_to_the_end(sim), 0.02 * foretold);
}

TEST_F(PlanTest, AnUnknownDurationLeavesTheEndUnknown) {
  Simulation sim(store, clock);
  SweepSpec sweep = sweep_of("unknown", 6);
  sweep.steps.push_back(step_of("train", "10s"));
  ASSERT_TRUE(sim.submit(sweep, {.lanes = 2}));
  EXPECT_FALSE(sim.core->expected_end(SweepId{1}));
  sim.run([&] { return sim.count(JobState::Done) >= 2; });
  sim.run_for(2 * kSecond);
  EXPECT_TRUE(sim.core->expected_end(SweepId{1}));
}

}  // namespace
}  // namespace pergpu::testing
