// What Slurm is asked for an array, and what it means when a task ends without a word of its own.
#include "slurm/array_call.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "job/classify.h"
#include "os/fs/file.h"
#include "simulation.h"
#include "slurm/array_preview.h"

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

TEST(ArrayCall, ItsTasksTimesTheirLanesAreNeverMoreThanMaxParallel) {
  struct Case {
    int max_parallel;
    int lanes;
    const char* option;
  };
  for (const auto& [max_parallel, lanes, option] : std::initializer_list<Case>{
           {8, 1, "--array=0-1%8\n"},
           {8, 2, "--array=0-1%4\n"},
           {5, 2, "--array=0-1%2\n"},
           {4, 4, "--array=0-1%1\n"},
           {3, 4, "--array=0-1%1\n"},  // of whose lanes three are used: max_parallel holds there
           {1, 4, "--array=0-1%1\n"}}) {
    StepSpec step = step_of("train");
    step.max_parallel = max_parallel;
    step.slurm.lanes = lanes;
    EXPECT_NE(script_of(step).find(option), std::string::npos)
        << max_parallel << " with " << lanes << " lanes\n"
        << script_of(step);
  }
}

TEST(ArrayCall, TheTypeOfItsGpusIsAskedFor) {
  StepSpec step = step_of("train");
  step.gpus = 2;
  step.gpu = "a100";
  EXPECT_NE(script_of(step).find("#SBATCH --gres=gpu:a100:2\n"), std::string::npos);
  step.slurm.lanes = 2;
  EXPECT_NE(script_of(step).find("#SBATCH --gres=gpu:a100:4\n"), std::string::npos);
}

TEST(ClosedTasks, AreToldByNamesOfFiles) {
  const ClosedTasks some = closed_tasks({closed_name(3), "closed.x", "3.1.jsonl", "owner"});
  EXPECT_TRUE(some.has(3));
  EXPECT_FALSE(some.has(0) || some.has(1));
  EXPECT_TRUE(closed_tasks({kClosed}).has(1));
}

TEST(ArrayPreview, ArraysAreAsLongAsTheSiteAllowsAndALaterStepWaitsForItsOwn) {
  SweepSpec sweep = sweep_of("s", 5);
  StepSpec evaluate = step_of("evaluate");
  evaluate.needs = {{0, Need::Scope::SameRun}};
  sweep.steps = {step_of("train"), evaluate};
  const Result<std::vector<ArraySnapshot>> arrays = preview_arrays(
      sweep, {.engine = kSlurm}, [](std::size_t, std::size_t) { return JobState::Queued; }, 2,
      "/bin/pergpu");
  ASSERT_TRUE(arrays);
  ASSERT_EQ(arrays->size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const ArraySnapshot& array = (*arrays)[i];
    EXPECT_EQ(array.step, i < 3 ? "train" : "evaluate");
    EXPECT_EQ(array.tasks, i % 3 == 2 ? 1 : 2);
    const std::string indices = i % 3 == 2 ? "--array=0\n" : "--array=0-1\n";
    EXPECT_NE(array.script.find(indices), std::string::npos) << array.script;
    const std::string needs = "--dependency=aftercorr:ARRAY_" + std::to_string(i - 2) + "\n";
    EXPECT_EQ(array.script.find(needs) != std::string::npos, i >= 3) << array.script;
  }
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
