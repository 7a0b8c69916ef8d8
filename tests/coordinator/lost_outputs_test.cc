// How long a submit waits for the look at the outputs of done jobs.
#include "state/lost_outputs.h"

#include <gtest/gtest.h>

#include "coordinator/simulation.h"

namespace pergpu::testing {
namespace {

constexpr int kRuns = 800;  // several batches

/// A sweep whose jobs are done: made once, since nothing of it changes.
struct DoneSweep {
  DoneSweep() {
    file = sweep_of("done", kRuns);
    file.steps = {step_of("train")};
    file.steps[0].outputs = {"model.pt"};
    EXPECT_TRUE(sim.submit(file, {.lanes = kRuns}));
    sim.run();
    EXPECT_EQ(sim.count(JobState::Done), kRuns);
  }
  MemoryStore store;
  SimClock clock;
  Simulation sim{store, clock};
  SweepSpec file;
};

class OutputSurveyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { done_ = std::make_unique<DoneSweep>(); }
  static void TearDownTestSuite() { done_.reset(); }
  /// Each batch takes so long, and shows what its first job has lost.  0: none is answered.
  LostOutputs survey(std::int64_t batch_ns) {
    Simulation& sim = done_->sim;
    SimClock& clock = done_->clock;
    const OutputSurvey survey({.world = &sim.world,
                               .timers = sim.timers.get(),
                               .clock = &clock,
                               .look = [&](std::vector<OutputsOfJob> jobs, auto done) {
                                 ++batches;
                                 if (batch_ns == 0) return;
                                 sim.sim_timers.add(clock.now().boot_ns + batch_ns, [jobs, done] {
                                   done({{.job = jobs.front().job, .what = "it is gone"}});
                                 });
                               }});
    std::optional<LostOutputs> found;
    begun_ns = clock.now().boot_ns;
    survey.begin(done_->file, {}, [&](LostOutputs lost) {
      EXPECT_FALSE(found) << "answered twice";
      found = std::move(lost);
      took_ns = clock.now().boot_ns - begun_ns;
    });
    while (!sim.sim_timers.empty()) sim.sim_timers.step(clock);  // late answers, too
    EXPECT_TRUE(found);
    return found.value_or(LostOutputs{});
  }

  static inline std::unique_ptr<DoneSweep> done_;
  int batches = 0;
  std::int64_t begun_ns = 0;
  std::int64_t took_ns = 0;
};

TEST_F(OutputSurveyTest, ADiskThatAnswersIsLookedAtWhole) {
  const LostOutputs lost = survey(kSecond);
  EXPECT_EQ(lost.unseen, "");
  EXPECT_EQ(lost.jobs.size(), static_cast<std::size_t>(batches));
  EXPECT_GE(batches, 4);
}

TEST_F(OutputSurveyTest, ADiskThatDoesNotAnswerIsWaitedForTenSeconds) {
  EXPECT_EQ(survey(0).unseen, "the file system didn't respond within 10 s");
  EXPECT_EQ(took_ns, 10 * kSecond);
  EXPECT_EQ(batches, 1);
}

TEST_F(OutputSurveyTest, ManyOutputsOnASlowDiskAreWaitedForThirtySecondsInAll) {
  const LostOutputs lost = survey(9 * kSecond);
  EXPECT_EQ(took_ns, 30 * kSecond);
  EXPECT_EQ(lost.unseen, "only 768 of 800 jobs could be checked within 30 s");
  EXPECT_EQ(lost.jobs.size(), 3u) << "what was seen counts";
}

}  // namespace
}  // namespace pergpu::testing
