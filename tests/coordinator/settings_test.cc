// `pergpu set` over the fake engine: who goes first and how many at once, now and after a restart.
#include "simulation.h"

namespace pergpu::testing {
namespace {

using Ids = std::vector<std::int64_t>;

struct SettingsTest : ::testing::Test {
  MemoryStore store;
  SimClock clock;

  static SweepSpec of_two_steps(const std::string& name, int runs) {
    SweepSpec sweep = sweep_of(name, runs);
    sweep.steps.push_back(step_of("train", "10s"));
    sweep.steps.push_back(step_of("evaluate", "10s"));
    sweep.steps[1].needs.push_back({.step = 0});
    return sweep;
  }
  static SweepSpec plain(const std::string& name, int runs) {
    SweepSpec sweep = sweep_of(name, runs);
    sweep.steps.push_back(step_of("train", "10s"));
    return sweep;
  }
  static std::vector<JobId> jobs(std::int64_t first, std::int64_t last) {
    std::vector<JobId> out;
    for (std::int64_t id = first; id <= last; ++id) out.push_back({id});
    return out;
  }
  static int live(const Simulation& sim) {
    return sim.count(JobState::Starting) + sim.count(JobState::Running);
  }
  static const StepSpec& step(Simulation& sim, std::int64_t sweep, std::size_t slot = 0) {
    return sim.world.sweep(SweepId{sweep})->steps[slot].spec;
  }
};

TEST_F(SettingsTest, AHigherPriorityGoesFirst) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("first", 8)));
  ASSERT_TRUE(sim.submit(plain("second", 4)));
  ASSERT_EQ(live(sim), 4);
  const Result<Coordinator::Changed> changed = sim.core->set(jobs(9, 12), {.priority = 5});
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->changed, (Ids{9, 10, 11, 12}));
  EXPECT_TRUE(changed->unchanged.empty());
  sim.run([&] { return is_live(sim.job(12).state); });
  EXPECT_EQ(sim.job(5).state, JobState::Queued);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 12);
}

TEST_F(SettingsTest, MoreAtOnceStartAtOnce) {
  Simulation sim(store, clock);
  SweepSpec sweep = plain("narrow", 4);
  sweep.steps[0].max_parallel = 1;
  ASSERT_TRUE(sim.submit(sweep));
  ASSERT_EQ(live(sim), 1);
  ASSERT_TRUE(sim.core->set(jobs(1, 4), {.max_parallel = 3}));
  sim.turn();
  EXPECT_EQ(live(sim), 3);
  ASSERT_TRUE(sim.core->set(jobs(1, 4), {.max_parallel = 0}));
  sim.turn();
  EXPECT_EQ(live(sim), 4);
  EXPECT_FALSE(step(sim, 1).max_parallel);
}

TEST_F(SettingsTest, FewerAtOnceEndNothing) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("wide", 6), {.lanes = 4}));
  ASSERT_EQ(live(sim), 4);
  ASSERT_TRUE(sim.core->set(jobs(1, 6), {.lanes = 1}));
  sim.turn();
  EXPECT_EQ(live(sim), 4);
  sim.run([&] { return sim.count(JobState::Done) >= 4; });
  EXPECT_LE(live(sim), 1);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 6);
}

TEST_F(SettingsTest, LanesOfItsOwnMayBeGivenLater) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("first", 4)));
  ASSERT_TRUE(sim.submit(plain("second", 4)));
  ASSERT_EQ(live(sim), 4);
  ASSERT_TRUE(sim.core->set(jobs(5, 8), {.lanes = 2}));
  sim.turn();
  EXPECT_EQ(live(sim), 6);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 8);
}

TEST_F(SettingsTest, OutliveARestartButNotTheNextSubmit) {
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(of_two_steps("sweep", 2), {.lanes = 1}));
    ASSERT_TRUE(sim.core->set(jobs(1, 4), {.priority = 7, .max_parallel = 2, .lanes = 3}));
    ASSERT_TRUE(sim.core->set(jobs(3, 4), {.priority = -1}));
    sim.turn();
  }
  Simulation sim(store, clock);
  EXPECT_EQ(step(sim, 1, 0).max_parallel, 2);
  EXPECT_EQ(step(sim, 1, 1).max_parallel, 2);
  EXPECT_EQ(step(sim, 1, 0).priority, 7);
  EXPECT_EQ(step(sim, 1, 1).priority, -1);
  ASSERT_EQ(step(sim, 1, 1).needs.size(), 1u);
  EXPECT_EQ(step(sim, 1, 1).needs[0].step, 0);
  EXPECT_EQ(sim.world.sweep({1})->context.lanes, 3);
  EXPECT_EQ(sim.world.jobs().size(), 4u);
  const Result<SubmitReply> again = sim.submit(of_two_steps("sweep", 2), {.lanes = 1});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->fresh, 0);
  EXPECT_EQ(step(sim, 1, 0).priority, 0);
  EXPECT_FALSE(step(sim, 1, 1).max_parallel);
  EXPECT_EQ(sim.world.sweep({1})->context.lanes, 1);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 4);
}

TEST_F(SettingsTest, PartOfAStepIsRefusedAndNothingChanges) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("sweep", 6), {.lanes = 1}));
  const std::size_t rows = store.rows.size();
  const Result<Coordinator::Changed> some = sim.core->set(jobs(1, 3), {.priority = 5});
  ASSERT_FALSE(some);
  EXPECT_EQ(some.error().kind, ErrorKind::Invalid);
  EXPECT_NE(some.error().message.find("name sweep/*/train"), std::string::npos);
  EXPECT_FALSE(sim.core->set(jobs(1, 5), {.lanes = 2}));
  EXPECT_FALSE(sim.core->set(jobs(1, 5), {.priority = 1, .lanes = 2}));
  sim.turn();
  EXPECT_EQ(store.rows.size(), rows);
  EXPECT_EQ(step(sim, 1).priority, 0);
}

TEST_F(SettingsTest, AJobThatRunsOnWithoutItsRowIsNoPartOfTheSweep) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("sweep", 4), {.lanes = 4}));
  ASSERT_EQ(live(sim), 4);
  ASSERT_TRUE(sim.submit(plain("sweep", 3), {.lanes = 4}));
  ASSERT_TRUE(is_live(sim.job(4).state)) << "a row that is gone ends no job";
  const Result<Coordinator::Changed> all = sim.core->set(jobs(1, 4), {.priority = 5, .lanes = 2});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->changed, (Ids{1, 2, 3}));
  EXPECT_EQ(all->unchanged, (Ids{4}));
  EXPECT_EQ(step(sim, 1).priority, 5);
  EXPECT_EQ(sim.world.sweep({1})->context.lanes, 2);
}

TEST_F(SettingsTest, WhatHasEndedIsLeftAsItIs) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("sweep", 2), {.lanes = 1}));
  sim.run([&] { return sim.job(1).state == JobState::Done; });
  const Result<Coordinator::Changed> rest = sim.core->set(jobs(1, 2), {.priority = 5});
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->changed, (Ids{2}));
  EXPECT_EQ(rest->unchanged, (Ids{1}));
  sim.run();
  const std::size_t rows = store.rows.size();
  const Result<Coordinator::Changed> none = sim.core->set(jobs(1, 2), {.lanes = 5});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->changed.empty());
  sim.turn();
  EXPECT_EQ(store.rows.size(), rows);
}

TEST_F(SettingsTest, ASweepForGpusHasNoLanes) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("sweep", 2), {.devices = "0"}));
  const Result<Coordinator::Changed> lanes = sim.core->set(jobs(1, 2), {.lanes = 2});
  ASSERT_FALSE(lanes);
  EXPECT_NE(lanes.error().message.find("you can't set its lanes"), std::string::npos);
}

}  // namespace
}  // namespace pergpu::testing
