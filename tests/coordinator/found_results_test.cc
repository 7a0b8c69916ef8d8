// What becomes of a sweep in whose folder results lie (coordinator/found_results.h).
#include "coordinator/found_results.h"

#include <gtest/gtest.h>

#include "spec/sweep/wire.h"

namespace pergpu {
namespace {

class FoundResultsTest : public testing::Test {
 protected:
  /// Sweep 1 "s" below /old, with one job.
  FoundResultsTest() {
    const SweepSpec spec{.name = "s", .steps = {StepSpec{.name = "train", .once = true}}};
    take(row::Sweep{.id = {1},
                    .root = "/old",
                    .name = "s",
                    .spec = to_wire(spec),
                    .submit = to_text(SubmitRecord{}),
                    .at = {}});
    take(row::NewJob{.id = {1}, .sweep = {1}, .run = -1, .step = 0, .step_name = "train"});
  }
  void take(const Row& row) {
    const Result<void> taken = world_.absorb(row);
    ASSERT_TRUE(taken) << taken.error().message;
  }
  static FoundResult result(std::string state, std::string home = "/home", std::int64_t job = 1) {
    return {.folder = "/new/s/_once/train",
            .id = {{job}, 1},
            .home = std::move(home),
            .sweep = "s",
            .state = std::move(state)};
  }
  FoundVerdict judge(const std::vector<FoundResult>& results, bool old_is_there) const {
    std::vector<KnownRoot> roots;
    for (const SweepId id : sweeps_of(world_, "/home", results))
      roots.push_back({id, old_is_there});
    return judge_results(world_, results, roots, "/new/s", "s");
  }
  World world_;
};

TEST_F(FoundResultsTest, ResultsWhoseOldFolderIsGoneWereMoved) {
  const FoundVerdict verdict = judge({result("done")}, false);
  EXPECT_EQ(verdict.moved, SweepId{1});
  EXPECT_EQ(verdict.note, "sweep s was moved from /old/s to /new/s and continues there");
  EXPECT_EQ(verdict.why, "");
}

TEST_F(FoundResultsTest, WhatRunsInTheOldPlaceIsWaitedFor) {
  take(row::Event{.job = {1}, .event = event::Starting{.attempt = 1}, .at = {}});
  const FoundVerdict verdict = judge({result("running")}, false);
  EXPECT_FALSE(verdict.moved);
  EXPECT_NE(verdict.why.find("while its jobs are running"), std::string::npos);
}

TEST_F(FoundResultsTest, AnOlderVersionThatRunsInTheOldPlaceIsWaitedFor) {
  take(row::Event{.job = {1}, .event = event::Starting{.attempt = 1}, .at = {}});
  take(row::NewJob{
      .id = {2}, .sweep = {1}, .run = -1, .step = 0, .step_name = "train", .replaces = {1}});
  ASSERT_EQ(world_.sweep(SweepId{1})->steps[0].live, 0) << "no current job is live";
  const FoundVerdict verdict = judge({result("running")}, false);
  EXPECT_FALSE(verdict.moved);
  EXPECT_NE(verdict.why.find("while its jobs are running"), std::string::npos) << verdict.why;
}

TEST_F(FoundResultsTest, FinishedOnesOfACopyAreRefused) {
  const FoundVerdict verdict = judge({result("done"), result("failed", "/home", 2)}, true);
  EXPECT_FALSE(verdict.moved);
  EXPECT_NE(verdict.why.find("/new/s contains results of another sweep (of home /home): 1 of "
                             "the 2 jobs there have finished"),
            std::string::npos)
      << verdict.why;
}

TEST_F(FoundResultsTest, AnotherHomesJobOfThatNumberIsNotOurs) {
  const FoundVerdict verdict = judge({result("done", "/other")}, false);
  EXPECT_FALSE(verdict.moved);
  EXPECT_NE(verdict.why.find("(of home /other)"), std::string::npos);
}

TEST_F(FoundResultsTest, UnfinishedOnesAreSaid) {
  const FoundVerdict verdict = judge({result("failed", "")}, true);
  EXPECT_EQ(verdict.why, "");
  EXPECT_EQ(verdict.note.find("/new/s contains unfinished results of another sweep"), 0u);
}

TEST_F(FoundResultsTest, AMovedSweepIsKnownByItsNewRootOnly) {
  const Sweep& sweep = *world_.sweep(SweepId{1});
  row::Sweep moved = World::row_of(sweep, World::declared(sweep), sweep.context);
  moved.root = "/new";
  take(moved);
  EXPECT_EQ(world_.sweep_at("/new", "s"), SweepId{1});
  EXPECT_EQ(world_.sweep_at("/old", "s"), SweepId{});
  EXPECT_EQ(world_.sweeps_named("s").size(), 1u);
}

}  // namespace
}  // namespace pergpu
