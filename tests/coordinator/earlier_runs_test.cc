// What was done under an earlier reading of a row is kept; nothing is taken for it that was not.
#include "state/earlier_runs.h"

#include <gtest/gtest.h>

#include "simulation.h"
#include "state/submit.h"

namespace pergpu::testing {
namespace {

struct EarlierRuns : ::testing::Test {
  /// A sweep as an earlier version submitted it; `state` is that of its first run's job.
  void known(std::vector<RunSpec> runs, JobState state = JobState::Done) {
    const Result<SubmitPlan> plan = plan_submit(world, sweep(std::move(runs)), {}, {1, 1});
    ASSERT_TRUE(plan) << plan.error().message;
    for (const Row& row : plan->rows) ASSERT_TRUE(world.absorb(row));
    const row::Event ended{
        .job = JobId{plan->reply.jobs.at(0)}, .event = event::Folded{.state = state}, .at = {1, 1}};
    ASSERT_TRUE(world.absorb(ended));
  }
  static SweepSpec sweep(std::vector<RunSpec> runs) {
    SweepSpec spec = sweep_of("s", 1);
    spec.steps.push_back(step_of("train"));
    spec.runs = std::move(runs);
    return spec;
  }
  SubmitReply submit(std::vector<RunSpec> runs) const {
    SweepSpec file = sweep(std::move(runs));
    recognize_earlier_runs(world, {}, file);
    const Result<SubmitPlan> plan = plan_submit(world, file, {}, {2, 2});
    return plan ? plan->reply : SubmitReply();
  }

  const RunSpec kOld{.json = R"({"x":1})", .texts = R"({"x":"1.0"})"};
  const RunSpec kNew{.json = R"({"x":1.0})"};
  World world;
};

TEST_F(EarlierRuns, AreKeptWhereTheyAreDone) {
  known({kOld});
  const SubmitReply reply = submit({kNew});
  EXPECT_EQ(reply.kept, 1);
  EXPECT_EQ(reply.fresh, 0);
}

TEST_F(EarlierRuns, ThatFailedAreReadAnew) {
  known({kOld}, JobState::Failed);
  EXPECT_EQ(submit({kNew}).fresh, 1);
}

TEST_F(EarlierRuns, AreNotThoseOfAnotherText) {
  known({{.json = R"({"x":1})"}});
  EXPECT_EQ(submit({kNew}).fresh, 1) << "1 was written, not 1.0";
}

TEST_F(EarlierRuns, BelongToTheRowThatSaysTheSameNow) {
  known({kOld});
  const SubmitReply reply = submit({kNew, {.json = R"({"x":1})"}});
  EXPECT_EQ(reply.kept, 1);
  EXPECT_EQ(reply.fresh, 1);
}

TEST_F(EarlierRuns, OfADamagedRowAreNone) {
  known({kOld});
  EXPECT_EQ(submit({{.json = "{"}}).fresh, 1);
}

TEST_F(EarlierRuns, OfASweepThatNobodyKnowsAreNew) { EXPECT_EQ(submit({kNew}).fresh, 1); }

}  // namespace
}  // namespace pergpu::testing
