// What a submit does with options: -p adds or is refused, and what is not given is as before.
#include <gtest/gtest.h>

#include "coordinator/simulation.h"
#include "state/submit.h"

namespace pergpu::testing {
namespace {

class SubmitOptionsTest : public ::testing::Test {
 protected:
  static SweepSpec rows(std::initializer_list<int> values) {
    SweepSpec sweep = sweep_of("opts", 0);
    for (const int x : values) sweep.runs.push_back({.json = "{\"x\":" + std::to_string(x) + "}"});
    sweep.steps = {step_of("main", "10s")};
    return sweep;
  }
  /// A step that looks at all runs: rows cannot be added to its sweep.
  static SweepSpec with_table(SweepSpec sweep) {
    sweep.steps.push_back(step_of("table"));
    sweep.steps.back().once = true;
    sweep.steps.back().needs = {{.step = 0, .scope = Need::Scope::All}};
    return sweep;
  }
  MemoryStore store;
  SimClock clock;
  Simulation sim{store, clock};
};

TEST_F(SubmitOptionsTest, AnotherValueIsAddedAndNothingIsDropped) {
  ASSERT_TRUE(sim.submit(rows({0, 1, 2}), {.lanes = 1}));
  const Result<SubmitReply> more = sim.submit(rows({9}), {.lanes = 1, .overrides = true});
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->fresh, 1);
  EXPECT_EQ(more->dropped, 0);
  EXPECT_EQ(more->others, 3);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 4);
  // A value that is there is kept; the others stay.
  const Result<SubmitReply> same = sim.submit(rows({1}), {.lanes = 1, .overrides = true});
  EXPECT_EQ(same->kept, 1);
  EXPECT_EQ(same->others, 3);
  for (const pergpu::Run& run : sim.world.sweep(SweepId{1})->runs) EXPECT_TRUE(run.listed);
  // The whole file without -p is the whole sweep, as ever.
  ASSERT_TRUE(sim.submit(rows({0, 1, 2}), {.lanes = 1}));
  EXPECT_FALSE(sim.world.sweep(SweepId{1})->runs[3].listed);
}

TEST_F(SubmitOptionsTest, ThatWouldDropQueuedRowsIsRefusedAndSaysWhich) {
  ASSERT_TRUE(sim.submit(with_table(rows({0, 1, 2})), {.lanes = 1}));
  const Result<SubmitReply> more =
      sim.submit(with_table(rows({9})), {.lanes = 1, .overrides = true});
  ASSERT_FALSE(more);
  const std::string& said = more.error().message;
  EXPECT_NE(said.find("3 other runs with 2 jobs queued or held and 1 running"), std::string::npos)
      << said;
  EXPECT_NE(said.find("step table"), std::string::npos) << said;
  EXPECT_EQ(sim.count(JobState::Cancelled), 0);
  SweepSpec changed = rows({9});
  changed.steps[0].command = {"false"};
  EXPECT_FALSE(sim.submit(changed, {.lanes = 1, .overrides = true}));
  // When the others have ended nothing is lost.
  sim.run();
  const Result<SubmitReply> later =
      sim.submit(with_table(rows({9})), {.lanes = 1, .overrides = true});
  ASSERT_TRUE(later) << later.error().message;
  ASSERT_EQ(later->warnings.size(), 1u);
  EXPECT_NE(later->warnings[0].find("3 other runs"), std::string::npos) << later->warnings[0];
}

TEST_F(SubmitOptionsTest, OfAllRowsAtOnceIsASubmitOfTheWholeFile) {
  ASSERT_TRUE(sim.submit(with_table(rows({9})), {.overrides = true}));
  sim.run();
  SweepSpec changed = with_table(rows({9}));
  changed.steps[0].command = {"false"};
  const Result<SubmitReply> again = sim.submit(changed, {.overrides = true});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->fresh, 2);
}

TEST_F(SubmitOptionsTest, WhatIsNotGivenIsThatOfTheLastSubmit) {
  ASSERT_TRUE(sim.submit(rows({0}), {.lanes = 4}));
  const SubmitContext plain{.inherit = {"lanes", "devices", "on"}};
  Remembered again = with_remembered(sim.world, rows({0}), plain);
  EXPECT_EQ(again.context.lanes, 4);
  EXPECT_EQ(again.said, std::vector<std::string>{"--lanes 4"});
  const Result<SubmitReply> reply = sim.submit(rows({0}), plain);
  EXPECT_EQ(reply->remembered, std::vector<std::string>{"--lanes 4"});
  EXPECT_EQ(sim.world.sweep(SweepId{1})->context.lanes, 4);
  // A client of before gives everything; another sweep remembers nothing.
  EXPECT_EQ(with_remembered(sim.world, rows({0}), {}).context.lanes, 0);
  SweepSpec other = rows({0});
  other.out = "/elsewhere";
  EXPECT_EQ(with_remembered(sim.world, other, plain).context.lanes, 0);
  ASSERT_TRUE(sim.submit(rows({0}), {}));  // --lanes 0
  EXPECT_EQ(with_remembered(sim.world, rows({0}), plain).said.size(), 0u);
}

TEST_F(SubmitOptionsTest, DevicesAreRememberedWhereTheyWereAnOption) {
  const SubmitContext plain{.inherit = {"lanes", "devices", "on"}};
  ASSERT_TRUE(sim.submit(rows({0}), {.devices = "0,2"}));  // CUDA_VISIBLE_DEVICES of that shell
  EXPECT_EQ(with_remembered(sim.world, rows({0}), plain).context.devices, "");
  ASSERT_TRUE(sim.submit(rows({0}), {.devices = "0,2", .devices_given = true}));
  const Remembered again = with_remembered(sim.world, rows({0}), plain);
  EXPECT_EQ(again.context.devices, "0,2");
  EXPECT_TRUE(again.context.devices_given) << "and the next time, too";
  SubmitContext of_shell = plain;
  of_shell.devices = "1";
  EXPECT_EQ(with_remembered(sim.world, rows({0}), of_shell).context.devices, "1");
}

TEST_F(SubmitOptionsTest, TheSameFileUnderAnotherRootIsSaid) {
  SweepSpec file = rows({0});
  file.file = "/nowhere/opts.toml";
  ASSERT_TRUE(sim.submit(file));
  file.out = "/elsewhere";
  const Result<SubmitReply> other = sim.submit(file);
  ASSERT_TRUE(other);
  ASSERT_EQ(other->warnings.size(), 1u);
  EXPECT_NE(other->warnings[0].find("opts@1"), std::string::npos) << other->warnings[0];
  EXPECT_EQ(sim.submit(file)->warnings.size(), 0u);
}

}  // namespace
}  // namespace pergpu::testing
