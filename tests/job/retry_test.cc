// The retry table: what follows each class of outcome, and who pays.
#include "job/retry.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "job/builders.h"
#include "job/classify.h"
#include "job/folder_in_use.h"
#include "job/gpu_parts.h"

namespace pergpu {
namespace {

using namespace testing_jobs;
using Kind = Next::Kind;

constexpr std::int64_t kSecond = 1'000'000'000;

Next next_of(OutcomeClass cls, const StepSpec& step, int retries_used = 0, int moves = 0,
             std::optional<StopCause> stop = std::nullopt) {
  Job job = running_job();
  job.retries_used = static_cast<std::int16_t>(retries_used);
  job.moves = static_cast<std::int16_t>(moves);
  job.last->stop = stop;
  return decide_next(job, step, Outcome{.cls = cls, .reason = "why"});
}

StepSpec with_retries(int max) {
  StepSpec step;
  step.retries.max = max;
  return step;
}

TEST(EndState, OfEachClass) {
  EXPECT_EQ(end_state(OutcomeClass::Ok), JobState::Done);
  EXPECT_EQ(end_state(OutcomeClass::Timeout), JobState::Timeout);
  EXPECT_EQ(end_state(OutcomeClass::Lost), JobState::Lost);
  EXPECT_EQ(end_state(OutcomeClass::Unknown), JobState::Lost);
  EXPECT_EQ(end_state(OutcomeClass::Cancelled), JobState::Cancelled);
  for (OutcomeClass cls :
       {OutcomeClass::UserError, OutcomeClass::Exit, OutcomeClass::Signal, OutcomeClass::OomHost,
        OutcomeClass::OomGpu, OutcomeClass::GpuMemory, OutcomeClass::Hardware, OutcomeClass::Driver,
        OutcomeClass::Neighbour, OutcomeClass::DiskFull, OutcomeClass::OutputMissing,
        OutcomeClass::Stall, OutcomeClass::Requeue}) {
    EXPECT_EQ(end_state(cls), JobState::Failed) << to_string(cls);
  }
}

TEST(DecideNext, WhatWaitsForItsFolderIsStartedAgainHoweverOften) {
  StepSpec step;
  step.rerun = false;
  Job job;
  job.moves = 1000;
  const Evidence evidence{
      .spawn_failure = SpawnFailure{std::string(kFolderInUsePhase), EAGAIN, "job 3 of sweep s"}};
  const Outcome outcome = classify(evidence);
  EXPECT_EQ(outcome.reason, "its folder is in use by job 3 of sweep s");
  const Next next = decide_next(job, step, outcome);
  EXPECT_EQ(next.kind, Kind::Again);
  EXPECT_FALSE(next.charged);
  EXPECT_GT(next.delay_ns, 0);
}

TEST(DecideNext, AFailingDiskDelaysAStartAndCostsNothing) {
  StepSpec step;
  step.rerun = false;
  Job job;
  job.moves = 1000;
  for (const int code : {ENOSPC, EIO}) {
    const Outcome outcome =
        classify({.spawn_failure = SpawnFailure{"open log", code, "/o/log.txt"}});
    const Next next = decide_next(job, step, outcome);
    EXPECT_EQ(next.kind, Kind::Again);
    EXPECT_FALSE(next.charged);
  }
}

TEST(DecideNext, WithoutRetriesAFailureIsFinal) {
  for (OutcomeClass cls :
       {OutcomeClass::Ok, OutcomeClass::UserError, OutcomeClass::Exit, OutcomeClass::Signal,
        OutcomeClass::OomHost, OutcomeClass::OomGpu, OutcomeClass::GpuMemory,
        OutcomeClass::DiskFull, OutcomeClass::OutputMissing, OutcomeClass::Stall,
        OutcomeClass::Timeout, OutcomeClass::Unknown, OutcomeClass::Cancelled}) {
    const Next next = next_of(cls, StepSpec{});
    EXPECT_EQ(next.kind, Kind::Final) << to_string(cls);
    EXPECT_EQ(next.state, end_state(cls)) << to_string(cls);
  }
}

TEST(DecideNext, DefaultPolicyRetriesWhatMayPass) {
  for (OutcomeClass cls :
       {OutcomeClass::Exit, OutcomeClass::Signal, OutcomeClass::Timeout, OutcomeClass::OomHost,
        OutcomeClass::OutputMissing, OutcomeClass::Stall}) {
    const Next next = next_of(cls, with_retries(1));
    EXPECT_EQ(next.kind, Kind::Again) << to_string(cls);
    EXPECT_TRUE(next.charged) << to_string(cls);
  }
  for (OutcomeClass cls : {OutcomeClass::UserError, OutcomeClass::DiskFull, OutcomeClass::Unknown,
                           OutcomeClass::OomGpu}) {
    EXPECT_EQ(next_of(cls, with_retries(1)).kind, Kind::Final) << to_string(cls);
  }
}

TEST(DecideNext, ExplicitPolicyCoversOnlyWhatItNames) {
  StepSpec step = with_retries(2);
  step.retries.on = {OutcomeClass::Unknown};
  EXPECT_EQ(next_of(OutcomeClass::Unknown, step).kind, Kind::Again);
  EXPECT_EQ(next_of(OutcomeClass::Exit, step).kind, Kind::Final);
}

TEST(DecideNext, UserErrorsAndCancelsAreNeverRetried) {
  StepSpec step = with_retries(9);
  step.retries.on = {OutcomeClass::UserError, OutcomeClass::Cancelled, OutcomeClass::Ok};
  EXPECT_EQ(next_of(OutcomeClass::UserError, step).kind, Kind::Final);
  EXPECT_EQ(next_of(OutcomeClass::Cancelled, step).kind, Kind::Final);
  EXPECT_EQ(next_of(OutcomeClass::Ok, step).state, JobState::Done);
}

TEST(DecideNext, RetriesAreUsedUp) {
  EXPECT_EQ(next_of(OutcomeClass::Exit, with_retries(2), 1).kind, Kind::Again);
  const Next next = next_of(OutcomeClass::Exit, with_retries(2), 2);
  EXPECT_EQ(next.kind, Kind::Final);
  EXPECT_EQ(next.state, JobState::Failed);
  EXPECT_EQ(next.reason, "why; 2 of 2 retries used");
}

TEST(DecideNext, EachChargedRetryWaitsTwiceAsLongAndALittleMore) {
  StepSpec step = with_retries(20);
  step.retries.delay = std::chrono::seconds(60);
  for (int used = 0; used < 20; ++used) {
    const std::int64_t least = std::min(60 * kSecond << std::min(used, 10), 3600 * kSecond);
    const std::int64_t delay = next_of(OutcomeClass::Exit, step, used).delay_ns;
    EXPECT_GE(delay, least) << used;
    EXPECT_LE(delay, least + least / 4) << used;
  }
  step.retries.delay = std::chrono::hours(5);
  EXPECT_GE(next_of(OutcomeClass::Exit, step, 3).delay_ns, 5 * 3600 * kSecond);
  step.retries.delay = std::chrono::seconds(0);
  EXPECT_EQ(next_of(OutcomeClass::Exit, step, 3).delay_ns, 0);
}

TEST(DecideNext, FaultsOfTheMachineMoveTheJobUncharged) {
  for (OutcomeClass cls : {OutcomeClass::Lost, OutcomeClass::Hardware, OutcomeClass::Driver,
                           OutcomeClass::Neighbour, OutcomeClass::Requeue}) {
    const Next next = next_of(cls, StepSpec{});
    EXPECT_EQ(next.kind, Kind::Again) << to_string(cls);
    EXPECT_FALSE(next.charged) << to_string(cls);
  }
}

TEST(DecideNext, UnchargedMovesWaitLongerEachTime) {
  EXPECT_EQ(next_of(OutcomeClass::Lost, StepSpec{}, 0, 0).delay_ns, 1 * kSecond);
  EXPECT_EQ(next_of(OutcomeClass::Lost, StepSpec{}, 0, 1).delay_ns, 2 * kSecond);
  EXPECT_EQ(next_of(OutcomeClass::Lost, StepSpec{}, 0, 4).delay_ns, 16 * kSecond);
}

TEST(DecideNext, UnchargedMovesAreCapped) {
  for (OutcomeClass cls : {OutcomeClass::Lost, OutcomeClass::Hardware, OutcomeClass::Driver,
                           OutcomeClass::Neighbour, OutcomeClass::Requeue}) {
    EXPECT_EQ(next_of(cls, StepSpec{}, 0, kMaxUnchargedMoves - 1).kind, Kind::Again);
    const Next next = next_of(cls, StepSpec{}, 0, kMaxUnchargedMoves);
    EXPECT_EQ(next.kind, Kind::Final);
    EXPECT_EQ(next.state, JobState::Failed);
    EXPECT_NE(next.reason.find("6 starts"), std::string::npos) << next.reason;
  }
}

TEST(DecideNext, WhoAsksForAnotherStartAfterAWhileMayDoSoForEver) {
  Job job = running_job();
  job.moves = kMaxUnchargedMoves;
  const Outcome asks{.cls = OutcomeClass::Requeue, .reason = "exit code 75"};
  EXPECT_EQ(decide_next(job, {}, asks, kProgressNs - 1).kind, Kind::Final);
  const Next next = decide_next(job, {}, asks, kProgressNs);
  EXPECT_EQ(next.kind, Kind::Again);
  EXPECT_FALSE(next.charged);
  EXPECT_EQ(next.delay_ns, 1 * kSecond);
  const Outcome lost{.cls = OutcomeClass::Lost, .reason = "lost"};
  EXPECT_EQ(decide_next(job, {}, lost, kProgressNs).kind, Kind::Final);
}

TEST(DecideNext, TooLittleMemoryBesideOthersIsTriedAgainWithMoreAtNoCharge) {
  Job job = running_job();
  const Outcome oom{.cls = OutcomeClass::OomGpu, .reason = "why"};
  EXPECT_EQ(decide_next(job, {}, oom).kind, Kind::Final);
  job.last->placement.share = 500;
  const Next next = decide_next(job, {}, oom);
  EXPECT_EQ(next.kind, Kind::Again);
  EXPECT_FALSE(next.charged);
  EXPECT_TRUE(next.more_gpu_memory);
  StepSpec once;
  once.rerun = false;
  EXPECT_EQ(decide_next(job, once, oom).kind, Kind::Final);
  job.last->placement.share = kWholeGpu;
  EXPECT_EQ(decide_next(job, {}, oom).kind, Kind::Final) << "nobody was beside it";
  job.last->placement.share = 500;
  const Outcome own{.cls = OutcomeClass::GpuMemory, .reason = "why"};
  EXPECT_EQ(decide_next(job, {}, own).kind, Kind::Final) << "it passed its own limit";
}

TEST(DecideNext, RerunFalseEndsAtAFaultOfTheMachine) {
  StepSpec step = with_retries(3);
  step.rerun = false;
  EXPECT_EQ(next_of(OutcomeClass::Lost, step).state, JobState::Lost);
  EXPECT_EQ(next_of(OutcomeClass::Lost, step).kind, Kind::Final);
  EXPECT_EQ(next_of(OutcomeClass::Hardware, step).state, JobState::Failed);
  EXPECT_EQ(next_of(OutcomeClass::Requeue, step).kind, Kind::Again) << "the job asked for it";
}

TEST(DecideNext, WhatWasCancelledStaysSo) {
  for (OutcomeClass cls : {OutcomeClass::Cancelled, OutcomeClass::Lost, OutcomeClass::Exit}) {
    const Next next = next_of(cls, with_retries(1), 0, 0, StopCause::Cancel);
    EXPECT_EQ(next.kind, Kind::Final);
    EXPECT_EQ(next.state, JobState::Cancelled);
  }
}

TEST(DecideNext, StoppedByTimeoutOrMemoryFollowsThePolicy) {
  EXPECT_EQ(next_of(OutcomeClass::Timeout, with_retries(1), 0, 0, StopCause::Timeout).kind,
            Kind::Again);
  EXPECT_EQ(next_of(OutcomeClass::OomHost, with_retries(1), 0, 0, StopCause::Memory).kind,
            Kind::Again);
  EXPECT_EQ(next_of(OutcomeClass::Timeout, StepSpec{}, 0, 0, StopCause::Timeout).state,
            JobState::Timeout);
}

}  // namespace
}  // namespace pergpu
