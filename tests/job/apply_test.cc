// The state diagram, edge by edge: what is allowed leads where it should, everything else is
// refused and leaves the job as it was.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "job/builders.h"
#include "job/not_started.h"
#include "job/retry.h"

namespace pergpu {
namespace {

using namespace testing_jobs;

using Edges = std::map<JobState, JobState>;

struct Row {
  std::string name;
  JobEvent event;
  Edges edges;  // from -> to; a state that is not here refuses
};

Edges from(std::initializer_list<JobState> states, JobState to) {
  Edges edges;
  for (JobState s : states) edges[s] = to;
  return edges;
}

const std::initializer_list<JobState> kEnded = {JobState::Done,    JobState::Failed,
                                                JobState::Timeout, JobState::Cancelled,
                                                JobState::Skipped, JobState::Lost};
const std::initializer_list<JobState> kLive = {JobState::Starting, JobState::Running,
                                               JobState::Stopping};

std::vector<Row> diagram() {
  using S = JobState;
  std::vector<Row> rows;
  rows.push_back({"submitted twice", event::Submitted{}, {}});
  Edges requeued = from(kEnded, S::Queued);
  requeued[S::Held] = S::Queued;
  requeued[S::Queued] = S::Queued;
  rows.push_back({"requeued", event::Requeued{}, requeued});
  rows.push_back({"held", event::Held{"r"}, from({S::Queued}, S::Held)});
  rows.push_back({"starting", event::Starting{.attempt = 1}, from({S::Queued}, S::Starting)});
  rows.push_back({"starting, wrong number", event::Starting{.attempt = 3}, {}});
  // job_in(Stopping) has been started: a second report is refused there too.
  rows.push_back({"started", event::Started{.pid = 9}, from({S::Starting}, S::Running)});
  rows.push_back({"stopping", event::Stopping{}, from(kLive, S::Stopping)});
  for (S end : kEnded) {
    rows.push_back({"ended as " + std::string(to_string(end)),
                    ended(OutcomeClass::Exit, final_next(end)), from(kLive, end)});
  }
  rows.push_back({"ended, again", ended(OutcomeClass::Exit, {.kind = Next::Kind::Again}),
                  from(kLive, S::Queued)});
  for (S not_an_end : {S::Queued, S::Held, S::Starting, S::Running, S::Stopping}) {
    rows.push_back({"ended as " + std::string(to_string(not_an_end)),
                    ended(OutcomeClass::Exit, final_next(not_an_end)),
                    {}});
  }
  rows.push_back({"cancelled", event::Cancelled{}, from({S::Queued, S::Held}, S::Cancelled)});
  rows.push_back({"skipped", event::Skipped{}, from({S::Queued, S::Held}, S::Skipped)});
  rows.push_back({"folded", fold(job_in(S::Done)), {{S::Queued, S::Done}}});
  return rows;
}

TEST(Apply, EveryStateWithEveryEvent) {
  std::set<std::size_t> alternatives;
  for (const Row& row : diagram()) {
    alternatives.insert(row.event.index());
    for (JobState state : kAllStates) {
      SCOPED_TRACE(fmt::format("{} while {}", row.name, to_string(state)));
      Job job = job_in(state);
      ASSERT_EQ(job.state, state);
      const Job before = copy(job);
      const Result<void> applied = apply(job, row.event, at(9));
      const auto edge = row.edges.find(state);
      if (edge != row.edges.end()) {
        ASSERT_TRUE(applied) << applied.error().message;
        EXPECT_EQ(to_string(job.state), to_string(edge->second));
      } else {
        ASSERT_FALSE(applied);
        EXPECT_EQ(applied.error().kind, ErrorKind::Invalid);
        EXPECT_NE(applied.error().message.find("job 7"), std::string::npos);
        EXPECT_TRUE(job == before);
      }
    }
  }
  EXPECT_EQ(alternatives.size(), std::variant_size_v<JobEvent>) << "an event is not in the table";
}

Job done_job() {
  Job job = running_job();
  must_apply(job, ended(OutcomeClass::Ok, final_next(JobState::Done), ""), at(3));
  return job;
}

std::string edge(JobState before, JobState after) {
  return fmt::format("{} --> {}", to_string(before), to_string(after));
}

/// The edges between states in docs/architecture.md.
std::set<std::string> drawn_edges() {
  std::ifstream page(PERGPU_TEST_DATA "/../../docs/architecture.md");
  std::map<std::string, std::set<JobState>> nodes;
  for (JobState state : kAllStates) nodes[std::string(to_string(state))] = {state};
  std::set<std::string> edges;
  for (std::string line; std::getline(page, line);) {
    const std::size_t name = line.rfind(" as ");
    const std::size_t arrow = line.find(" --> ");
    if (line.starts_with("    state ") && name != std::string::npos) {
      std::string word;
      for (const char c : line.substr(0, name)) {
        if (std::isalpha(static_cast<unsigned char>(c))) {
          word += c;
        } else if (const auto state = job_state_of(std::exchange(word, ""))) {
          nodes[line.substr(name + 4)].insert(*state);
        }
      }
    } else if (arrow != std::string::npos) {
      const std::string to = line.substr(arrow + 5, line.find(": ", arrow) - arrow - 5);
      for (JobState before : nodes[line.substr(4, arrow - 4)]) {
        for (JobState after : nodes[to]) edges.insert(edge(before, after));
      }
    }
  }
  return edges;
}

TEST(Apply, TheDiagramOfTheDocsHasTheSameEdges) {
  std::set<std::string> edges = {edge(JobState::Queued, JobState::Done),  // of a repeat
                                 edge(JobState::Held, JobState::Done)};
  for (const Row& row : diagram()) {
    for (const auto& [before, after] : row.edges) {
      if (before != after) edges.insert(edge(before, after));
    }
  }
  EXPECT_EQ(drawn_edges(), edges);
}

TEST(Apply, RepeatThatNeverStartedLeavesTheJobDone) {
  for (const bool is_held : {false, true}) {
    for (const JobEvent& e : {JobEvent(event::Cancelled{"cancelled by hand"}),
                              JobEvent(event::Skipped{"train ended"})}) {
      Job job = done_job();
      const Attempt attempt = *job.last;
      must_apply(job, event::Requeued{"run again"}, at(5));
      if (is_held) must_apply(job, event::Held{"held"}, at(6));
      must_apply(job, e, at(7));
      EXPECT_EQ(job.state, JobState::Done);
      EXPECT_EQ(*job.last, attempt);
      EXPECT_EQ(job.attempts, 1);
      EXPECT_TRUE(job.reason.starts_with("its repeat was ")) << job.reason;
      EXPECT_EQ(job.repeat_skipped, std::holds_alternative<event::Skipped>(e));
      Job folded{.id = job.id, .sweep = job.sweep, .run = job.run};
      must_apply(folded, event::Submitted{}, at(0));
      must_apply(folded, fold(job), at(9));
      EXPECT_TRUE(folded == job);
      must_apply(job, event::Requeued{"again"}, at(8));
      EXPECT_FALSE(job.repeat_skipped);
      EXPECT_EQ(job.reason, "");
    }
  }
}

TEST(Apply, WhatTheBreakerLetsGoIsAsItWasBefore) {
  Job job = job_in(JobState::Running);
  must_apply(job, ended(OutcomeClass::Exit,
                        Next{.kind = Next::Kind::Again, .charged = true, .delay_ns = 1000}));
  Job before{.id = job.id, .sweep = job.sweep, .run = job.run};
  must_apply(before, event::Submitted{}, at(0));
  must_apply(before, fold(job), at(9));
  must_apply(job, event::Held{"held by the breaker", HoldCause::Breaker}, at(8));
  must_apply(job, event::Requeued{"tried by the circuit breaker", true}, at(9));
  EXPECT_TRUE(job == before);
  EXPECT_EQ(job.retries_used, 1);
  must_apply(job, event::Held{"held by the breaker", HoldCause::Breaker}, at(10));
  must_apply(job, event::Requeued{"released"}, at(11));
  EXPECT_EQ(job.retries_used, 0);
}

TEST(Apply, RepeatOfWhatDidNotEndAsDoneIsCancelled) {
  for (JobState state : {JobState::Failed, JobState::Timeout, JobState::Lost}) {
    Job job = job_in(state);
    must_apply(job, event::Requeued{"retry"});
    must_apply(job, event::Cancelled{"cancelled by hand"});
    EXPECT_EQ(job.state, JobState::Cancelled) << to_string(state);
    EXPECT_EQ(job.reason, "cancelled by hand");
  }
}

TEST(Apply, RepeatThatStartedIsWhatTheJobIs) {
  Job job = done_job();
  must_apply(job, event::Requeued{"run again"});
  must_apply(job, event::Starting{.attempt = 2});
  must_apply(job, event::Started{.pid = 9});
  must_apply(job, event::Stopping{StopCause::Cancel, "cancelled by hand"});
  must_apply(job, ended(OutcomeClass::Cancelled, final_next(JobState::Cancelled)));
  EXPECT_EQ(job.state, JobState::Cancelled);
}

TEST(Apply, MovesCountSinceTheLastThatLedSomewhere) {
  Job job = running_job();
  job.moves = 4;
  const Instant later{.wall_ns = job.last->started_at.wall_ns + kProgressNs, .boot_ns = 9};
  const Next again{.kind = Next::Kind::Again, .charged = false};
  Job other = copy(job);
  must_apply(job, ended(OutcomeClass::Requeue, again), later);
  EXPECT_EQ(job.moves, 0);
  must_apply(other, ended(OutcomeClass::Lost, again), later);
  EXPECT_EQ(other.moves, 5);
}

TEST(Apply, FoldedMakesTheSameJob) {
  for (JobState state : kAllStates) {
    const Job before = job_in(state);
    Job after{.id = before.id, .sweep = before.sweep, .run = before.run};
    must_apply(after, event::Submitted{}, at(5));
    must_apply(after, fold(before), at(9));
    EXPECT_TRUE(after == before) << to_string(state);
  }
}

TEST(Apply, FoldedOfAnImpossibleJobIsRefused) {
  const event::Folded done = fold(job_in(JobState::Done));
  std::vector<event::Folded> wrong(6, done);
  wrong[0].state = JobState::Running;
  wrong[1].attempts = 3;
  wrong[2].last.clear();
  wrong[3].last.push_back(wrong[3].last.front());
  wrong[4].last.front().outcome.reset();
  wrong[5] = fold(job_in(JobState::Running));
  wrong[5].state = JobState::Queued;
  for (const event::Folded& e : wrong) {
    Job job = submitted_job();
    EXPECT_FALSE(apply(job, e, at(9)));
    EXPECT_TRUE(job == submitted_job());
  }
}

TEST(Apply, SubmittedSetsWhenItWasQueued) { EXPECT_EQ(submitted_job().queued_at, at(0)); }

TEST(Apply, StartingMakesTheAttempt) {
  Job job = submitted_job();
  const Placement placement{.lane = {.pool = LaneId::Pool::Gpu, .slot = 2},
                            .gpus = {"GPU-x"},
                            .cpus = 4,
                            .cpu_list = {0, 1, 2, 3}};
  must_apply(job, event::Starting{.attempt = 1, .placement = placement, .keeper = {8}}, at(5));
  ASSERT_TRUE(job.last);
  EXPECT_EQ(job.attempts, 1);
  EXPECT_EQ(job.last->number, 1);
  EXPECT_EQ(job.last->placement, placement);
  EXPECT_EQ(job.last->keeper, KeeperId{8});
  EXPECT_EQ(job.last->starting_at, at(5));
  EXPECT_EQ(job.last->started_at, Instant{});
}

TEST(Apply, AttemptNumbersGoOnAfterRequeue) {
  Job job = job_in(JobState::Failed);
  must_apply(job, event::Requeued{});
  EXPECT_FALSE(apply(job, event::Starting{.attempt = 1}, at(9)));
  must_apply(job, event::Starting{.attempt = 2}, at(9));
  EXPECT_EQ(job.attempts, 2);
}

TEST(Apply, StopAskedBeforeTheStartWasReported) {
  Job job = job_in(JobState::Starting);
  must_apply(job, event::Stopping{StopCause::Cancel, "cancelled by you"}, at(2));
  must_apply(job, event::Started{.pid = 100, .start_ticks = 5}, at(3));
  EXPECT_EQ(job.state, JobState::Stopping);
  EXPECT_EQ(job.last->pid, 100);
  EXPECT_EQ(job.last->started_at, at(3));
  EXPECT_FALSE(apply(job, event::Started{.pid = 101}, at(4)));
}

TEST(Apply, FirstStopCauseStays) {
  Job job = running_job();
  must_apply(job, event::Stopping{StopCause::Timeout, "timeout"}, at(3));
  must_apply(job, event::Stopping{StopCause::Memory, "memory"}, at(4));
  EXPECT_EQ(job.last->stop, StopCause::Timeout);
  EXPECT_EQ(job.last->stop_reason, "timeout");
}

TEST(Apply, CancelOutranksEveryOtherStopCause) {
  for (StopCause first : {StopCause::Timeout, StopCause::Memory, StopCause::Stall}) {
    Job job = running_job();
    must_apply(job, event::Stopping{first, "first"}, at(3));
    must_apply(job, event::Stopping{StopCause::Cancel, "cancelled by you"}, at(4));
    EXPECT_EQ(job.last->stop, StopCause::Cancel);
    EXPECT_EQ(job.last->stop_reason, "cancelled by you");
  }
}

TEST(Apply, SameStopCauseAgainChangesItsReason) {
  Job job = running_job();
  must_apply(job, event::Stopping{StopCause::Cancel, "cancelled"}, at(3));
  must_apply(job, event::Stopping{StopCause::Cancel, "killed"}, at(4));
  EXPECT_EQ(job.last->stop_reason, "killed");
}

TEST(Apply, EndedKeepsTheOutcome) {
  Job job = running_job();
  const Outcome outcome{.cls = OutcomeClass::Exit, .exit_code = 3, .reason = "exit code 3"};
  must_apply(job, event::Ended{outcome, final_next(JobState::Failed)}, at(8));
  EXPECT_EQ(job.last->outcome, outcome);
  EXPECT_EQ(job.last->ended_at, at(8));
  EXPECT_EQ(job.reason, "exit code 3");
}

TEST(Apply, FinalReasonOfTheDecisionSaysMore) {
  Job job = running_job();
  Next next = final_next(JobState::Failed);
  next.reason = "exit code 3; 2 of 2 retries used";
  must_apply(job, ended(OutcomeClass::Exit, next, "exit code 3"), at(8));
  EXPECT_EQ(job.reason, "exit code 3; 2 of 2 retries used");
  EXPECT_EQ(job.last->outcome->reason, "exit code 3");
}

TEST(Apply, ChargedRetryCountsAndWaits) {
  Job job = running_job();
  must_apply(job,
             ended(OutcomeClass::Exit, {.kind = Next::Kind::Again, .delay_ns = 60'000'000'000}),
             at(10));
  EXPECT_EQ(job.retries_used, 1);
  EXPECT_EQ(job.moves, 0);
  EXPECT_EQ(job.not_before_wall_ns, at(70).wall_ns);
  EXPECT_EQ(job.queued_at, at(10));
  EXPECT_EQ(job.reason, "");
}

TEST(Apply, DelayBeyondTheReachOfTheClockIsAsLateAsItReaches) {
  Job job = running_job();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  must_apply(job, ended(OutcomeClass::Exit, {.kind = Next::Kind::Again, .delay_ns = kMost}),
             at(10));
  EXPECT_EQ(job.not_before_wall_ns, kMost);
}

TEST(Apply, UnchargedMoveCostsNoRetry) {
  Job job = running_job();
  must_apply(job, ended(OutcomeClass::Lost, {.kind = Next::Kind::Again, .charged = false}), at(10));
  EXPECT_EQ(job.retries_used, 0);
  EXPECT_EQ(job.moves, 1);
  EXPECT_EQ(job.not_before_wall_ns, 0);
}

TEST(Apply, WaitingForItsFolderIsNoMove) {
  Job job = running_job();
  must_apply(job,
             ended(OutcomeClass::Lost, {.kind = Next::Kind::Again, .charged = false},
                   std::string(kFolderInUseReason) + "job 3"),
             at(10));
  EXPECT_EQ(job.retries_used, 0);
  EXPECT_EQ(job.moves, 0);
  EXPECT_EQ(job.state, JobState::Queued);
}

TEST(Apply, AStartThatTheDiskRefusedIsNoMove) {
  Job job = running_job();
  must_apply(job,
             ended(OutcomeClass::DiskFull, {.kind = Next::Kind::Again, .charged = false},
                   std::string(kStorageReason) + "open log"),
             at(10));
  EXPECT_EQ(job.retries_used, 0);
  EXPECT_EQ(job.moves, 0);
  EXPECT_EQ(job.state, JobState::Queued);
}

TEST(Apply, AStopAtOnceStaysSo) {
  Job job = running_job();
  must_apply(job, event::Stopping{StopCause::Cancel, "killed", true}, at(3));
  must_apply(job, event::Stopping{StopCause::Cancel, "cancelled"}, at(4));
  EXPECT_TRUE(job.last->stop_at_once);
  EXPECT_EQ(job.last->stop_at, at(3));
}

TEST(Apply, RequeueGivesFreshRetries) {
  Job job = running_job();
  must_apply(job, ended(OutcomeClass::Exit, {.kind = Next::Kind::Again, .delay_ns = 1'000}), at(3));
  must_apply(job, event::Starting{.attempt = 2}, at(4));
  must_apply(job, ended(OutcomeClass::Lost, {.kind = Next::Kind::Again, .charged = false}), at(5));
  must_apply(job, event::Held{"held by you"}, at(6));
  must_apply(job, event::Requeued{}, at(7));
  EXPECT_EQ(job.retries_used, 0);
  EXPECT_EQ(job.moves, 0);
  EXPECT_EQ(job.not_before_wall_ns, 0);
  EXPECT_EQ(job.queued_at, at(7));
  EXPECT_EQ(job.reason, "");
  EXPECT_EQ(job.attempts, 2);
}

TEST(Apply, RequeueLiftsAPendingDelay) {
  Job job = running_job();
  must_apply(job, ended(OutcomeClass::Exit, {.kind = Next::Kind::Again, .delay_ns = 1'000}), at(3));
  must_apply(job, event::Requeued{}, at(4));
  EXPECT_EQ(job.not_before_wall_ns, 0);
}

TEST(Job, EqualityLooksAtTheLastAttempt) {
  Job a = running_job();
  Job b = copy(a);
  EXPECT_TRUE(a == b);
  b.last->pid = 101;
  EXPECT_FALSE(a == b);
  b.last.reset();
  EXPECT_FALSE(a == b);
}

TEST(Job, StaysSmall) {
  // A million of them are queued at once (the aim: < 400 B each with everything around).
  EXPECT_LE(sizeof(Job), 112u);
}

}  // namespace
}  // namespace pergpu
