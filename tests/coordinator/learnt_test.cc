// What was learnt of steps comes back after a restart, and is bounded (forecast/learnt.h).
#include "forecast/learnt.h"

#include "forecast/expectation.h"
#include "gpu/pool/lane_use.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

struct LearntTest : ::testing::Test {
  Learnt make() {
    return Learnt(meta, clock, [this](const row::Meta& fact) {
      ++writes;
      meta[fact.key] = fact.value;
    });
  }
  static StepSpec step(const std::string& command) {
    return {.name = "train", .command = {command}};
  }
  static RunSpec run(int x) { return {.json = "{\"x\":" + std::to_string(x) + "}"}; }

  SimClock clock;
  std::map<std::string, std::string> meta;
  int writes = 0;
};

TEST_F(LearntTest, IsOfTheCommandAndComesBackAfterARestart) {
  {
    Learnt learnt = make();
    for (const int x : {1, 1, 2, 2}) {
      learnt.add(step("a"),
                 {.duration_s = 10.0 * x, .memory_bytes = 7, .parameters = marks_of(run(x))});
      clock.ns += 60 * kSecond;
    }
    EXPECT_FALSE(learnt.estimate(step("b"), nullptr));
  }
  const Learnt learnt = make();
  const RunSpec two = run(2);
  const std::optional<Estimate> seen = learnt.estimate(step("a"), &two);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->jobs, 2u);
  EXPECT_DOUBLE_EQ(seen->duration_s, 20);
  EXPECT_EQ(seen->memory_bytes, 7u);
  EXPECT_FALSE(seen->gpu_memory_bytes);
  EXPECT_DOUBLE_EQ(learnt.estimate_of_step(step("a"))->duration_s, 15);
}

TEST_F(LearntTest, CoresComeBackWhereTheyAreKnown) {
  make().add(step("a"), {.duration_s = 40, .cores = 1.5, .alone_s = 10});
  const Learnt learnt = make();
  EXPECT_DOUBLE_EQ(learnt.estimate_of_step(step("a"))->cores, 1.5);
  EXPECT_DOUBLE_EQ(learnt.estimate_of_step(step("a"))->alone_s, 10);
  for (auto& [key, text] : meta) text.replace(text.find(",1.5,10.0]"), 10, ",1.5,40.1]");
  EXPECT_DOUBLE_EQ(make().estimate_of_step(step("a"))->duration_s, 40);
  EXPECT_EQ(make().estimate_of_step(step("a"))->cores, 0) << "alone it would take longer";
}

TEST_F(LearntTest, WhatShapesNeedOfAGpuComesBack) {
  StepSpec automatic = step("a");
  automatic.gpu_auto = true;
  const auto run_of = [](int x, int seed) {
    return RunSpec{.json =
                       "{\"x\":" + std::to_string(x) + ",\"seed\":" + std::to_string(seed) + "}"};
  };
  {
    Learnt learnt = make();
    for (const int seed : {1, 2, 3}) {
      for (const int x : {1, 5}) {
        const RunSpec run = run_of(x, seed);
        const GpuNeed need{
            .bytes = static_cast<std::uint64_t>(x) << 30, .busy = 0.5, .measured = 1};
        EXPECT_NE(learnt.add(automatic, &run, need), GpuShapes::News::None);
        EXPECT_EQ(learnt.add(automatic, &run, {.bytes = need.bytes}), GpuShapes::News::None);
      }
    }
  }
  EXPECT_EQ(writes, 6) << "a promise hangs on each";
  const Learnt learnt = make();
  const RunSpec small = run_of(1, 9);
  const RunSpec other = run_of(2, 1);
  const GpuShape shape = learnt.gpu_shape(automatic, &small);
  ASSERT_NE(shape, 0u);
  EXPECT_EQ(learnt.gpu_shapes(automatic)->needs().at(shape).bytes, 1u << 30);
  EXPECT_EQ(learnt.gpu_shapes(automatic)->all().bytes, 5ull << 30);
  EXPECT_EQ(learnt.gpu_shape(automatic, &other), 0u);
  EXPECT_EQ(learnt.gpu_shape(automatic, nullptr), 0u);
  EXPECT_EQ(learnt.gpu_shape(step("a"), &small), 0u) << "it does not ask";
  for (auto& [key, text] : meta) text.replace(text.find("gpu_seen\":["), 11, "gpu_seen\":[3,");
  EXPECT_EQ(make().gpu_shape(automatic, &small), shape) << "what makes no sense is left out";
}

TEST_F(LearntTest, ShortAttemptsTeachNothing) {
  Learnt learnt = make();
  learnt.add(step("a"), {.duration_s = 0.9});
  EXPECT_FALSE(learnt.estimate(step("a"), nullptr));
  EXPECT_EQ(writes, 0);
}

TEST_F(LearntTest, IsWrittenEveryFiveSecondsAndWhenTheProcessLeaves) {
  Learnt learnt = make();
  for (int i = 0; i < 100; ++i) learnt.add(step("a"), {.duration_s = 2});
  EXPECT_EQ(writes, 1);
  learnt.save();
  EXPECT_EQ(writes, 2);
  learnt.save();
  EXPECT_EQ(writes, 2);
  EXPECT_EQ(make().estimate(step("a"), nullptr)->jobs, Learnt::kMostRecords);
}

TEST_F(LearntTest, TheStepThatWasUsedLongestAgoMakesRoom) {
  Learnt learnt = make();
  for (std::size_t i = 0; i <= Learnt::kMostSteps; ++i) {
    learnt.add(step("command " + std::to_string(i)), {.duration_s = 2});
    clock.ns += kSecond;
  }
  EXPECT_EQ(meta.size(), Learnt::kMostSteps);
  const Learnt again = make();
  EXPECT_FALSE(again.estimate(step("command 0"), nullptr));
  EXPECT_TRUE(again.estimate(step("command 1"), nullptr));
  EXPECT_TRUE(again.estimate(step("command 64"), nullptr));
}

TEST_F(LearntTest, WhatMakesNoSenseIsForgotten) {
  const char* texts[] = {"",
                         "x",
                         "[]",
                         "{}",
                         R"({"key":1,"used":1,"records":[]})",
                         R"({"key":"a","used":1,"records":[[1],[1,2,3,[1]],"x",[1,-2,3,[]]]})"};
  for (std::size_t i = 0; i < std::size(texts); ++i) meta["learnt " + std::to_string(i)] = texts[i];
  meta["learnt 64"] = R"({"key":"b","used":1,"records":[[5,null,null,[]]]})";  // no such slot
  Learnt learnt = make();
  EXPECT_FALSE(learnt.estimate(step("a"), nullptr));
  learnt.add(step("a"), {.duration_s = 2});
  EXPECT_TRUE(learnt.estimate(step("a"), nullptr));
}

TEST_F(LearntTest, WhatTheFileExpectsStandsAboveWhatWasLearnt) {
  Learnt learnt = make();
  StepSpec its = step("a");
  learnt.add(its, {.duration_s = 100});
  EXPECT_EQ(expected_ns(its, nullptr, 0, nullptr, &learnt), 100 * kSecond);
  EXPECT_EQ(expected_ns(its, nullptr, 0, nullptr), 0);
  its.expect = "5s";
  EXPECT_EQ(expected_ns(its, nullptr, 0, nullptr, &learnt), 5 * kSecond);
}

TEST(LaneUseTest, AddsUpHowLongALaneHadNoAttempt) {
  LaneUse use(100);
  const LaneId lane{.pool = LaneId::Pool::Cpu, .slot = 3};
  EXPECT_EQ(use.of(lane, 150).all_ns, 50);
  EXPECT_EQ(use.of(lane, 150).now_ns, 50);
  use.occupy(lane, 200);
  EXPECT_EQ(use.of(lane, 250).all_ns, 100);
  EXPECT_FALSE(use.of(lane, 250).now_ns);
  use.vacate(lane, 300);
  EXPECT_EQ(use.of(lane, 310).all_ns, 110);
  EXPECT_EQ(use.of(lane, 310).now_ns, 10);
  use.occupy(lane, 320);
  use.vacate(lane, 330);
  use.vacate(lane, 340);
  EXPECT_EQ(use.of(lane, 340).all_ns, 130);
}

TEST(LaneUseTest, LanesOfASweepThatRestsAreForgotten) {
  LaneUse use(0);
  const LaneId own{.pool = LaneId::Pool::Sweep, .sweep = {7}, .slot = 0};
  use.occupy(own, 10);
  use.forget({7});
  EXPECT_FALSE(use.of(own, 20).now_ns) << "it has an attempt";
  use.vacate(own, 20);
  use.forget({7});
  EXPECT_EQ(use.of(own, 30).all_ns, 30);
}

}  // namespace
}  // namespace pergpu::testing
