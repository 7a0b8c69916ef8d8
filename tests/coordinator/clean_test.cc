// Sweeps that `clean` took out of the history: nobody is told of them, and nothing else changes.
#include "simulation.h"
#include "state/selector.h"
#include "state/submit.h"

namespace pergpu::testing {
namespace {

constexpr std::int64_t kSecond = 1'000 * kMillisecond;

struct CleanTest : ::testing::Test {
  MemoryStore store;
  SimClock clock;

  static SweepSpec plain(const std::string& name, int runs) {
    SweepSpec sweep = sweep_of(name, runs);
    sweep.steps.push_back(step_of("train", "1s"));
    return sweep;
  }
  static SweepSpec sweep_that_fails() {
    SweepSpec sweep = sweep_of("failing", 1);
    sweep.steps.push_back(step_of("train", "1s", "1"));
    return sweep;
  }
  static bool is_named(const Simulation& sim, const std::string& selector) {
    return static_cast<bool>(select_jobs(sim.world, selector));
  }
  static std::string why_not(const Simulation& sim, std::int64_t id, bool results = true) {
    return sim.core->why_not_cleaned(*sim.world.sweep(SweepId{id}), sim.core->clean_facts(results));
  }
  /// Sweeps 1 ("first", jobs 1 to 3) and 2 ("second", 4 to 5), both ended.
  void live_once(Simulation& sim) {
    ASSERT_TRUE(sim.submit(plain("first", 3)));
    ++clock.ns;
    ASSERT_TRUE(sim.submit(plain("second", 2)));
    sim.run();
  }
};

TEST_F(CleanTest, AForgottenSweepIsNamedByNothing) {
  Simulation sim(store, clock);
  live_once(sim);
  sim.core->forget({SweepId{1}}, false);
  sim.turn();
  for (const char* selector : {"first", "1", "first/0", "@2"}) {
    EXPECT_FALSE(is_named(sim, selector)) << selector;
  }
  EXPECT_TRUE(is_named(sim, "@"));
  EXPECT_TRUE(is_named(sim, "4"));
  EXPECT_EQ(sim.world.sweep_at("/nowhere/runs", "first"), SweepId{});
  EXPECT_EQ(select_jobs(sim.world, "*")->jobs.size(), 2u);
}

TEST_F(CleanTest, TheSameFileAgainIsANewSweepWithNumbersOfItsOwn) {
  Simulation sim(store, clock);
  live_once(sim);
  sim.core->forget({SweepId{1}, SweepId{2}}, false);
  sim.turn();
  const Result<SubmitReply> again = sim.submit(plain("first", 3));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->sweep_id, 3);
  EXPECT_EQ(again->fresh, 3);
  EXPECT_EQ(again->jobs, (std::vector<std::int64_t>{6, 7, 8}));
  sim.run();
  EXPECT_EQ(sim.job(8).state, JobState::Done);
}

TEST_F(CleanTest, ARestartSkipsWhatWasForgotten) {
  {
    Simulation sim(store, clock);
    live_once(sim);
    sim.core->forget({SweepId{1}, SweepId{2}}, false);
    sim.turn();
  }
  {
    Simulation sim(store, clock);
    EXPECT_TRUE(sim.world.archived().empty());
    EXPECT_EQ(sim.world.next_job_id(), JobId{6});
    EXPECT_EQ(sim.world.next_sweep_id(), SweepId{3});
    EXPECT_FALSE(is_named(sim, "first"));
    EXPECT_FALSE(is_named(sim, "1"));
    EXPECT_TRUE(sim.world.archived_with(JobId{1}).empty());
    ASSERT_TRUE(sim.submit(plain("first", 1)));
    sim.run();
  }
  Simulation sim(store, clock);
  EXPECT_EQ(sim.world.archived().size(), 1u);
  EXPECT_EQ(sim.world.sweep_at("/nowhere/runs", "first"), SweepId{3});
  EXPECT_TRUE(sim.world.check_whole());
}

TEST_F(CleanTest, AStoreThatDoesNotKnowOfTheArchiveForgetsToo) {
  {
    Simulation sim(store, clock);
    live_once(sim);
    sim.core->forget({SweepId{2}}, false);
    sim.turn();
  }
  std::erase_if(store.rows,
                [](const Row& row) { return std::holds_alternative<row::Archived>(row); });
  store.archive = {};
  for (const Row& row : store.rows) store.archive.take(row);
  Simulation sim(store, clock);
  EXPECT_TRUE(is_named(sim, "first"));
  EXPECT_FALSE(is_named(sim, "second"));
  EXPECT_FALSE(is_named(sim, "5"));
  EXPECT_EQ(sim.world.next_job_id(), JobId{6});
}

TEST_F(CleanTest, WhatIsOpenStays) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(plain("first", 3), {.lanes = 1}));
  EXPECT_EQ(why_not(sim, 1), "3 of its jobs have not ended");
  sim.core->interrupt({1}, 1);
  sim.run();
  EXPECT_EQ(why_not(sim, 1), "2 of its jobs have not ended") << "held ones";
  sim.core->cancel({JobId{2}, JobId{3}}, false, "cancelled by hand");
  sim.run();
  EXPECT_EQ(why_not(sim, 1), "");
}

TEST_F(CleanTest, ResultsThatHoldThoseOfAnotherSweepStay) {
  Simulation sim(store, clock);
  SweepSpec inner = plain("inner", 1);
  inner.out = "/nowhere/runs/first";
  live_once(sim);
  ASSERT_TRUE(sim.submit(inner));
  sim.run();
  EXPECT_EQ(why_not(sim, 1), "its folder contains the results of sweep inner");
  EXPECT_EQ(why_not(sim, 1, /*results=*/false), "");
  EXPECT_EQ(why_not(sim, 2), "");
  sim.core->forget({SweepId{3}}, true);
  sim.turn();
  EXPECT_EQ(why_not(sim, 1), "");
}

TEST_F(CleanTest, ASlashBehindTheOutputFolderMakesNoOtherFolder) {
  Simulation sim(store, clock);
  SweepSpec file = plain("sweep", 1);
  for (const char* out : {"results", "results/", "/nowhere/results//"}) {
    file.out = out;
    EXPECT_EQ(output_root(file), "/nowhere/results") << out;
    const Result<SubmitReply> reply = sim.submit(file);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->sweep_id, 1) << out;
  }
  file.out = "/";
  EXPECT_EQ(output_root(file), "/");
}

TEST_F(CleanTest, AFolderThatBeginsAlikeIsNotInside) {
  Simulation sim(store, clock);
  for (const char* out : {"runs/sweep-2", "runs/sweep.d", "runs/sweepy"}) {
    SweepSpec file = plain("inner", 1);
    file.out = out;
    ASSERT_TRUE(sim.submit(file));
  }
  ASSERT_TRUE(sim.submit(plain("sweep", 1)));
  sim.run();
  EXPECT_EQ(why_not(sim, 4), "");
  SweepSpec deep = plain("deep", 1);
  deep.out = "runs/sweep/00/train";
  ASSERT_TRUE(sim.submit(deep));
  sim.run();
  EXPECT_EQ(why_not(sim, 4), "its folder contains the results of sweep deep");
}

TEST_F(CleanTest, ItsAgeCountsFromWhenAJobWasQueuedLast) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep_that_fails()));
  sim.run();
  const std::int64_t ended = sim.world.last_touched_ns(*sim.world.sweep(SweepId{1}));
  EXPECT_EQ(ended, sim.job(1).last->ended_at.wall_ns);
  clock.ns += 3600 * kSecond;
  ASSERT_EQ(sim.core->retry({JobId{1}}).changed.size(), 1u);
  sim.core->cancel({JobId{1}}, false, "cancelled by hand");
  sim.run();
  ASSERT_EQ(sim.job(1).state, JobState::Cancelled);
  ASSERT_EQ(sim.job(1).attempts, 1) << "it was not started again";
  EXPECT_GE(sim.world.last_touched_ns(*sim.world.sweep(SweepId{1})), ended + 3600 * kSecond);
}

TEST_F(CleanTest, NothingBeginsWhereResultsAreBeingRemoved) {
  Simulation sim(store, clock);
  live_once(sim);
  sim.core->begin_cleaning({SweepId{1}});
  EXPECT_TRUE(sim.core->is_cleaning(SweepId{1}));
  EXPECT_EQ(sim.core->cleaning_count(), 1u);
  EXPECT_EQ(why_not(sim, 1, /*results=*/false), "another `pergpu clean` is removing its results");
  const Result<SubmitReply> early = sim.submit(plain("first", 3));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().kind, ErrorKind::Invalid);
  EXPECT_FALSE(sim.submit(plain("other", 1), {.unique_name = true})) << "it might be called so";
  EXPECT_TRUE(sim.submit(plain("third", 1)));
  sim.core->forget({SweepId{1}}, true);
  sim.turn();
  EXPECT_EQ(sim.world.put_aside().at(SweepId{1}), "/nowhere/runs/first/.cleaned-1");
  EXPECT_FALSE(sim.submit(plain("first", 3)));
  sim.core->end_cleaning(SweepId{1}, true);
  sim.turn();
  EXPECT_TRUE(sim.world.put_aside().empty());
  EXPECT_TRUE(sim.submit(plain("first", 3)));
  sim.run();
}

TEST_F(CleanTest, NoJobIsQueuedAgainWhoseResultsAreBeingRemoved) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep_that_fails()));
  sim.run();
  sim.core->begin_cleaning({SweepId{1}});
  EXPECT_TRUE(sim.core->retry({JobId{1}}).changed.empty());
  sim.core->end_cleaning(SweepId{1}, false);
  EXPECT_EQ(sim.core->retry({JobId{1}}).changed.size(), 1u);
  sim.run();
}

TEST_F(CleanTest, NothingGoesOnFromResultsThatWereHalfPutAside) {
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(sweep_that_fails()));
    sim.run();
    sim.core->begin_cleaning({SweepId{1}});
    sim.core->begin_moving(SweepId{1});
    sim.core->end_cleaning(SweepId{1}, false);
    sim.turn();
    EXPECT_TRUE(sim.core->retry({JobId{1}}).changed.empty());
  }
  {
    Simulation sim(store, clock);
    EXPECT_TRUE(sim.world.is_half_moved(SweepId{1}));
    const Result<SubmitReply> reply = sim.submit(sweep_that_fails());
    ASSERT_FALSE(reply);
    EXPECT_NE(reply.error().message.find("clean failing --results --yes"), std::string::npos);
    EXPECT_TRUE(sim.submit(plain("other", 1)));
    sim.run();
    EXPECT_EQ(why_not(sim, 1), "");
    sim.core->begin_cleaning({SweepId{1}});
    sim.core->forget({SweepId{1}}, true);
    sim.core->end_cleaning(SweepId{1}, true);
    sim.turn();
    EXPECT_FALSE(sim.world.is_half_moved(SweepId{1}));
  }
  Simulation sim(store, clock);
  EXPECT_FALSE(sim.world.is_half_moved(SweepId{1}));
  EXPECT_TRUE(sim.submit(sweep_that_fails()));
  sim.run();
}

TEST_F(CleanTest, ResultsThatAreBackInTheirPlaceAreGoneOnFrom) {
  Simulation sim(store, clock);
  live_once(sim);
  sim.core->begin_cleaning({SweepId{1}});
  sim.core->begin_moving(SweepId{1});
  sim.core->end_cleaning(SweepId{1}, true);
  sim.turn();
  EXPECT_FALSE(sim.world.is_half_moved(SweepId{1}));
  const Result<SubmitReply> again = sim.submit(plain("first", 3));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->kept, 3);
}

TEST_F(CleanTest, OfAClientThatLeavesEarlyTheSweepIsStillThere) {
  {
    Simulation sim(store, clock);
    live_once(sim);
    sim.core->begin_cleaning({SweepId{1}});
    sim.core->end_cleaning(SweepId{1}, false);
    sim.turn();
    EXPECT_TRUE(sim.world.put_aside().empty());
    EXPECT_TRUE(is_named(sim, "first"));
    EXPECT_EQ(why_not(sim, 1), "");
  }
  Simulation sim(store, clock);
  EXPECT_EQ(sim.world.archived().size(), 2u);
}

TEST_F(CleanTest, WhatAClientLeftIsKnownAfterARestart) {
  {
    Simulation sim(store, clock);
    live_once(sim);
    sim.core->begin_cleaning({SweepId{1}});
    sim.core->forget({SweepId{1}}, true);
    sim.core->end_cleaning(SweepId{1}, false);
    sim.turn();
  }
  {
    Simulation sim(store, clock);
    EXPECT_EQ(sim.world.put_aside().at(SweepId{1}), "/nowhere/runs/first/.cleaned-1");
    EXPECT_FALSE(sim.core->is_cleaning(SweepId{1}));
    sim.core->end_cleaning(SweepId{1}, true);
    sim.turn();
  }
  Simulation sim(store, clock);
  EXPECT_TRUE(sim.world.put_aside().empty());
  EXPECT_FALSE(is_named(sim, "first"));
}

}  // namespace
}  // namespace pergpu::testing
