// What Slurm is asked for an array, and what it means when a task ends without a word of its own.
#include "coordinator/array_call.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "coordinator/array_preview.h"
#include "job/classify.h"
#include "os/file.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

TaskEnd ends(const std::string& state, const std::string& reason = "None", int exit_code = 0) {
  return task_end(slurm::QueueRecord{.state = state, .reason = reason, .exit_code = exit_code},
                  "Slurm job 12_3", "/out/task-3.txt");
}

TEST(TaskEnd, MeansWhatSlurmSays) {
  EXPECT_EQ(classify(ends("OUT_OF_MEMORY").evidence).cls, OutcomeClass::OomHost);
  EXPECT_EQ(classify(ends("TIMEOUT").evidence).cls, OutcomeClass::Timeout);
  EXPECT_EQ(classify(ends("CANCELLED").evidence).cls, OutcomeClass::Cancelled);
  EXPECT_EQ(classify(ends("DEADLINE").evidence).cls, OutcomeClass::Cancelled);
  for (const char* state : {"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED", "FAILED"}) {
    EXPECT_TRUE(ends(state).evidence.lost) << state;
  }
}

TEST(TaskEnd, WhatWaitedInItIsCancelledByAPersonAndNotByAFailedNeed) {
  EXPECT_TRUE(ends("CANCELLED").cancels);
  EXPECT_FALSE(ends("CANCELLED", "DependencyNeverSatisfied").cancels);
  EXPECT_FALSE(ends("NODE_FAIL").cancels);
}

TEST(TaskEnd, ATaskThatFailedByItselfHoldsItsJobsAndNamesItsOutput) {
  const TaskEnd end = ends("FAILED", "NonZeroExitCode", 127);
  EXPECT_TRUE(end.holds);
  EXPECT_NE(end.words.find("exit 127"), std::string::npos) << end.words;
  EXPECT_NE(end.words.find("/out/task-3.txt"), std::string::npos) << end.words;
  EXPECT_FALSE(ends("NODE_FAIL").holds);
}

TEST(TaskEnd, ForgottenItIsLost) {
  EXPECT_TRUE(task_end(std::nullopt, "Slurm job 12_3", "").evidence.lost);
}

std::string script_of(StepSpec step) {
  SweepSpec sweep = sweep_of("s", 2);
  sweep.steps = {std::move(step)};
  const Result<std::vector<ArraySnapshot>> arrays = preview_arrays(
      sweep, {.engine = kSlurm}, [](std::size_t, std::size_t) { return JobState::Queued; },
      kUsualArraySize, "/bin/pergpu");
  return arrays && arrays->size() == 1 ? arrays->front().script : std::string();
}

TEST(ArrayCall, AnAllocationHasTimeForItsRoundsAndSomeToSpare) {
  using std::chrono_literals::operator""min;
  StepSpec step = step_of("train");
  step.timeout = 10min;
  // Ten minutes, a minute and a half of warning (grace 30 s), two to spare.
  EXPECT_NE(script_of(step).find("#SBATCH --time=14\n"), std::string::npos) << script_of(step);
  step.slurm.jobs_per_allocation = 2;
  EXPECT_NE(script_of(step).find("#SBATCH --time=24\n"), std::string::npos) << script_of(step);
  step.slurm.lanes = 2;
  EXPECT_NE(script_of(step).find("#SBATCH --time=14\n"), std::string::npos) << script_of(step);
  step.slurm.time = 5min;
  EXPECT_NE(script_of(step).find("#SBATCH --time=5\n"), std::string::npos) << script_of(step);
}

TEST(ArrayCall, ItAsksForAllOfItsLanes) {
  StepSpec step = step_of("train");
  step.gpus = 2;
  step.cpus = 3;
  step.memory_bytes = std::uint64_t{1} << 30;
  step.slurm.lanes = 2;
  const std::string script = script_of(step);
  for (const char* line : {"--gres=gpu:4\n", "--cpus-per-task=6\n", "--mem=2048M\n"}) {
    EXPECT_NE(script.find(line), std::string::npos) << line << script;
  }
}

TEST(Owner, IsReadAsItWasWritten) {
  std::string folder = ::testing::TempDir() + "owner.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(owner_of(folder), std::nullopt) << "sbatch was not asked yet";
  for (const Owner& owner : {Owner{"login1:/x", false}, Owner{"login2:/a b", true}}) {
    ASSERT_TRUE(os::write_file_atomic(folder + "/" + kOwner, to_text(owner), 0644, false));
    EXPECT_EQ(owner_of(folder), owner);
  }
  ASSERT_TRUE(os::remove_tree(folder));
}

TEST(ClosedTasks, AreToldByNamesOfFiles) {
  const ClosedTasks some = closed_tasks({closed_name(3), "closed.x", "3.1.jsonl", "owner"});
  EXPECT_TRUE(some.has(3));
  EXPECT_FALSE(some.has(0) || some.has(1));
  EXPECT_TRUE(closed_tasks({kClosed}).has(1));
}

TEST(ArrayPreview, LeavesOutWhatIsNotQueued) {
  SweepSpec sweep = sweep_of("s", 3);
  sweep.steps = {step_of("train")};
  const Result<std::vector<ArraySnapshot>> arrays = preview_arrays(
      sweep, {.engine = kSlurm},
      [](std::size_t, std::size_t row) { return row == 1 ? JobState::Done : JobState::Queued; },
      kUsualArraySize, "/bin/pergpu");
  ASSERT_TRUE(arrays);
  ASSERT_EQ(arrays->size(), 1u);
  EXPECT_EQ((*arrays)[0].jobs, 2);
  EXPECT_NE((*arrays)[0].script.find("--array=0,2\n"), std::string::npos);
}

}  // namespace
}  // namespace pergpu::testing
