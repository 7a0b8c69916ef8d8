// The circuit breaker alone: over a world, a clock and timers, with a handful of lanes for a queue.
#include "coordinator/circuit_breaker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>

#include "sim_clock.h"
#include "state/earlier_success.h"
#include "state/submit.h"

namespace pergpu::testing {
namespace {

constexpr std::int64_t kMinute = 60 * kSecond;

/// How a job ends, and after how long.
struct End {
  OutcomeClass cls = OutcomeClass::Ok;
  std::string reason = {};
  std::int64_t after_ns = kSecond;
  int retries = 0;
};
const End kMistake{OutcomeClass::UserError, "exit code 1: KeyError: 'lr'", kSecond / 10};

/// One sweep of one step on `lanes` lanes, in the file's order; every job ends as `ends` says.
class Bench {
 public:
  Bench(SweepSpec sweep, int lanes, std::function<End(const RunSpec&)> ends)
      : lanes_(lanes), ends_(std::move(ends)) {
    begin();
    submit(std::move(sweep));
  }
  /// Another coordinator over the same history; what ran, runs on.
  void restart() {
    breaker.reset();
    sim_timers = {};
    pauses_ = false;
    begin();
    breaker->recover();
    for (const auto& [id, end_ns] : running_) arm(id, end_ns);
    turn();
  }
  void submit(SweepSpec sweep, SubmitContext context = {}, JobId first_new = {}) {
    Result<SubmitPlan> plan = plan_submit(world, sweep, context, clock.now());
    ASSERT_TRUE(plan) << plan.error().message;
    for (const Row& row : plan->rows) ASSERT_TRUE(world.absorb(row));
    if (first_new) {
      std::vector<JobId> added;
      for (const Job& job : world.jobs()) {
        if (job.id >= first_new) added.push_back(job.id);
      }
      breaker->on_added(added);
    } else if (!plan->is_new) {
      breaker->reset(plan->sweep);
    }
    turn();
  }
  void record(JobId id, JobEvent e) {
    const auto* ended = std::get_if<event::Ended>(&e);
    const auto change = ended == nullptr ? CircuitBreaker::Change::Other
                        : ended->next.kind == Next::Kind::Again && !ended->next.charged
                            ? CircuitBreaker::Change::Moved
                            : CircuitBreaker::Change::Ended;
    ASSERT_TRUE(world.absorb(row::Event{id, std::move(e), clock.now()}));
    breaker->on_event(*world.job(id), change);
  }
  void turn() {
    breaker->settle();
    for (const Job& job : world.jobs()) {
      if (pauses_ || static_cast<int>(running_.size()) >= lanes_) break;
      if (job.state == JobState::Queued && job.not_before_wall_ns <= clock.now().wall_ns &&
          !waits_for_folder.contains(job.id)) {
        start(job);
      }
    }
    check();
  }
  /// Until nothing is left to happen, or `stop` says so.
  void run(const std::function<bool()>& stop = [] { return false; }) {
    while (!sim_timers.empty() && !stop()) {
      sim_timers.step(clock);
      turn();
    }
  }
  void run_for(std::int64_t ns) {
    bool is_over = false;
    sim_timers.add(clock.now().boot_ns + ns, [&] { is_over = true; });
    run([&] { return is_over; });
  }
  int count(JobState state) const {
    return static_cast<int>(std::count_if(world.jobs().begin(), world.jobs().end(),
                                          [&](const Job& job) { return job.state == state; }));
  }
  std::string row() const {
    const auto found = world.meta().find("breaker.1.0");
    return found == world.meta().end() ? "" : found->second;
  }
  const Job& job(std::int64_t id) const { return *world.job(JobId{id}); }

  World world;
  SimClock clock;
  SimTimers sim_timers;
  Timers timers;
  std::unique_ptr<CircuitBreaker> breaker;
  bool probes = true;
  std::vector<JobId> started;
  std::set<JobId> waits_for_folder;
  int scans = 0;  // how often the step was paused

 private:
  void begin() {
    timers = sim_timers.timers();
    breaker = std::make_unique<CircuitBreaker>(CircuitBreaker::Parts{
        .world = &world,
        .clock = &clock,
        .timers = &timers,
        .record = [this](JobId id, JobEvent e) { record(id, std::move(e)); },
        .note = [this](row::Meta fact) { ASSERT_TRUE(world.absorb(fact)); },
        .refresh = [](JobId) {},
        .pause =
            [this](StepKey, bool pauses) {
              pauses_ = pauses;
              scans += pauses ? 1 : 0;
            },
        .starting = [](StepKey) { return 0; },
        .waits_for_folder = [this](JobId id) { return waits_for_folder.contains(id); },
        .is_frozen = [](SweepId) { return false; }});
  }
  void start(const Job& job) {
    started.push_back(job.id);
    record(job.id, event::Starting{.attempt = job.attempts + 1});
    record(job.id, event::Started{.pid = 9});
    breaker->on_start({job.sweep, job.step});
    running_[job.id] = clock.now().boot_ns + ends_(*world.parameters_of(job)).after_ns;
    arm(job.id, running_[job.id]);
  }
  void arm(JobId id, std::int64_t end_ns) {
    sim_timers.add(end_ns, [this, id] {
      running_.erase(id);
      const End end = ends_(*world.parameters_of(*world.job(id)));
      const bool is_moved = end.cls == OutcomeClass::Hardware && world.job(id)->moves < 2;
      const bool is_again = is_moved || world.job(id)->retries_used < end.retries;
      record(id, event::Ended{{.cls = end.cls, .reason = end.reason},
                              is_again
                                  ? Next{.kind = Next::Kind::Again, .charged = !is_moved}
                                  : Next{.state = end.cls == OutcomeClass::Ok ? JobState::Done
                                                                              : JobState::Failed}});
    });
  }
  /// Where the breaker has nothing to do, nothing is held by it.
  void check() const {
    if (!breaker->idle()) return;
    for (const Job& job : world.jobs()) EXPECT_FALSE(is_held_by_breaker(job)) << job.id.value;
  }

  int lanes_;
  std::function<End(const RunSpec&)> ends_;
  bool pauses_ = false;
  std::map<JobId, std::int64_t> running_;
};

bool has(const RunSpec& run, const std::string& text) {
  return run.json.find(text) != std::string::npos;
}

SweepSpec sweep_with(std::vector<std::string> rows, int breaker = 3) {
  SweepSpec sweep{.name = "s", .folder = "/nowhere"};
  for (std::string& row : rows) sweep.runs.push_back({.json = std::move(row)});
  sweep.steps.push_back(step_of("train"));
  sweep.steps[0].breaker = breaker;
  return sweep;
}

/// 60 runs, the first 20 of which have lr = 0.
std::vector<std::string> three_rates() {
  std::vector<std::string> rows;
  for (int i = 0; i < 60; ++i) {
    rows.push_back(fmt::format(R"({{"fixed":1,"lr":{},"seed":{}}})", i / 20, i % 20));
  }
  return rows;
}
bool is_bad(const RunSpec& run) { return has(run, R"("lr":0)"); }
End bad_fails(const RunSpec& run) { return is_bad(run) ? kMistake : End{}; }

/// Starts of runs that fail until the last of the others was done.
int attempts_before_others_were_done(const Bench& bench,
                                     const std::function<bool(const RunSpec&)>& fails) {
  std::int64_t last_done = 0;
  for (const Job& job : bench.world.jobs()) {
    if (job.state == JobState::Done) last_done = std::max(last_done, job.last->ended_at.boot_ns);
  }
  return static_cast<int>(
      std::count_if(bench.world.jobs().begin(), bench.world.jobs().end(), [&](const Job& job) {
        return fails(*bench.world.parameters_of(job)) && job.last &&
               job.last->starting_at.boot_ns < last_done;
      }));
}

class Lanes : public ::testing::TestWithParam<int> {};

TEST_P(Lanes, OneValueThatFailsCostsFewAttemptsAndTheOthersAreDone) {
  Bench bench(sweep_with(three_rates()), GetParam(), bad_fails);
  bench.run();
  EXPECT_EQ(bench.count(JobState::Done), 40);
  EXPECT_EQ(bench.count(JobState::Failed), 20) << "each of them was tried";
  EXPECT_LE(attempts_before_others_were_done(bench, is_bad), 6);
  EXPECT_TRUE(bench.breaker->idle());
  EXPECT_EQ(bench.row(), "");
}

INSTANTIATE_TEST_SUITE_P(CircuitBreaker, Lanes, ::testing::Values(1, 2, 3, 4, 6, 8, 64));

TEST(CircuitBreaker, OnlyAFewStartUntilTheFirstHaveRunForAMoment) {
  Bench bench(sweep_with(three_rates()), 8,
              [](const RunSpec&) { return End{.after_ns = 60 * kMinute}; });
  EXPECT_EQ(bench.count(JobState::Running), 6);
  const std::string why = bench.breaker->words_of_queued(bench.job(7));
  EXPECT_NE(why.find("watches the first jobs for 2 s"), std::string::npos) << why;
  bench.run_for(3 * kSecond);
  EXPECT_EQ(bench.count(JobState::Running), 8) << "no lane is idle";
  EXPECT_EQ(bench.breaker->words_of_queued(bench.job(9)), "");
}

TEST(CircuitBreaker, TheFirstSuccessLetsAllStart) {
  Bench bench(sweep_with(three_rates()), 8, [](const RunSpec& run) {
    return End{.after_ns = has(run, R"("lr":0,"seed":0)") ? kSecond / 10 : 60 * kMinute};
  });
  bench.run([&] { return bench.count(JobState::Done) == 1; });
  EXPECT_EQ(bench.count(JobState::Running), 8);
  EXPECT_LT(bench.clock.now().boot_ns, bench.job(1).last->started_at.boot_ns + kSecond);
}

TEST(CircuitBreaker, WithoutABreakerAllStartAtOnce) {
  Bench bench(sweep_with(three_rates(), 0), 8, [](const RunSpec&) { return End{}; });
  EXPECT_EQ(bench.count(JobState::Running), 8);
}

TEST(CircuitBreaker, ThreeParametersOfWhichOneIsToBlame) {
  std::vector<std::string> rows;
  for (int i = 0; i < 60; ++i) {
    rows.push_back(fmt::format(R"({{"lr":{},"method":{},"seed":{}}})", i / 10 % 2, i / 20, i % 10));
  }
  const auto fails = [](const RunSpec& run) { return has(run, R"("method":0)"); };
  Bench bench(sweep_with(rows), 4,
              [&](const RunSpec& run) { return fails(run) ? kMistake : End{}; });
  bench.run();
  EXPECT_EQ(bench.count(JobState::Done), 40);
  EXPECT_LE(attempts_before_others_were_done(bench, fails), 6);
}

TEST(CircuitBreaker, TwoValuesThatFailTheSameWayComeLast) {
  std::vector<std::string> rows;
  for (int i = 0; i < 80; ++i) {
    rows.push_back(fmt::format(R"({{"fixed":1,"lr":{},"seed":{}}})", i / 20, i % 20));
  }
  const auto fails = [](const RunSpec& run) {
    return has(run, R"("lr":0)") || has(run, R"("lr":1)");
  };
  Bench bench(sweep_with(rows), 4,
              [&](const RunSpec& run) { return fails(run) ? kMistake : End{}; });
  bench.run();
  EXPECT_EQ(bench.count(JobState::Done), 40);
  EXPECT_EQ(bench.count(JobState::Failed), 40);
  EXPECT_LE(attempts_before_others_were_done(bench, fails), 12);
}

TEST(CircuitBreaker, RetriesRunOutAlsoOneAtATime) {
  for (const int lanes : {1, 2, 4}) {
    Bench bench(sweep_with(three_rates()), lanes, [](const RunSpec& run) {
      const bool is_mistake = has(run, R"("lr":0)") && !has(run, R"("seed":1)");
      return is_mistake ? kMistake : End{OutcomeClass::Exit, "exit code 1", kSecond / 10, 3};
    });
    bench.run();
    EXPECT_EQ(bench.count(JobState::Failed), 60);
    for (const Job& job : bench.world.jobs()) EXPECT_LE(job.attempts, 4) << job.id.value;
  }
}

TEST(CircuitBreaker, WhatIsAddedWhileItIsOpenIsHeldToo) {
  Bench bench(sweep_with(three_rates()), 4, [](const RunSpec&) { return kMistake; });
  bench.run_for(10 * kSecond);
  const std::size_t before = bench.started.size();
  std::vector<std::string> rows;
  for (int i = 20; i < 80; ++i) rows.push_back(fmt::format(R"({{"lr":0,"seed":{}}})", i));
  const JobId first = bench.world.next_job_id();
  bench.submit(sweep_with(rows), {.add = true}, first);
  bench.run_for(10 * kSecond);
  EXPECT_LE(bench.started.size(), before + 4);
  EXPECT_EQ(bench.count(JobState::Queued), 0);
}

TEST(CircuitBreaker, RowsThatAreAddedWhileOthersAreLetGoKeepNoneOfThem) {
  std::vector<std::string> rows;
  for (int i = 0; i < 4000; ++i) {
    rows.push_back(fmt::format(R"({{"lr":{},"seed":{}}})", i < 2000 ? 0 : 1, i % 2000));
  }
  Bench bench(sweep_with(rows), 2,
              [](const RunSpec& run) { return is_bad(run) ? kMistake : End{.after_ns = kMinute}; });
  bench.run([&] { return bench.count(JobState::Done) == 1; });
  bench.submit(sweep_with({R"({"lr":0,"seed":9001})", R"({"lr":1,"seed":9002})"}), {.add = true},
               bench.world.next_job_id());
  bench.run_for(kSecond);
  EXPECT_EQ(
      bench.count(JobState::Queued) + bench.count(JobState::Running) + bench.count(JobState::Done),
      2001);
  EXPECT_TRUE(is_held_by_breaker(bench.job(4001)));
}

TEST(CircuitBreaker, AReleaseOfOneJobKeepsTheSuspectsHeldOverARestart) {
  Bench bench(sweep_with(three_rates()), 2,
              [](const RunSpec& run) { return is_bad(run) ? kMistake : End{.after_ns = kMinute}; });
  bench.run([&] { return bench.count(JobState::Held) > 0; });
  bench.run_for(kSecond);
  bench.breaker->reset(SweepId{1});
  bench.run([&] { return bench.count(JobState::Done) == 1; });
  bench.run_for(kSecond);
  const int held = bench.count(JobState::Held);
  ASSERT_GT(held, 10);
  bench.restart();
  bench.run_for(kSecond);
  EXPECT_EQ(bench.count(JobState::Held), held);
}

TEST(CircuitBreaker, TheFirstJobsAreWatchedOnce) {
  Bench bench(sweep_with(three_rates()), 30, [](const RunSpec&) {
    return End{OutcomeClass::Exit, "exit code 3", kSecond / 3};
  });
  bench.run_for(3 * kSecond);
  EXPECT_EQ(bench.count(JobState::Failed), 60) << "they are no mistakes";
}

TEST(CircuitBreaker, AProbeWhoseFolderIsInUseLetsAnotherOneGo) {
  Bench bench(sweep_with(three_rates()), 1, bad_fails);
  const JobId chosen{21};  // differs most from those that failed
  bench.waits_for_folder.insert(chosen);
  bench.run_for(60 * kSecond);
  EXPECT_GT(bench.count(JobState::Done), 10);
  EXPECT_NE(bench.job(chosen.value).state, JobState::Done);
  bench.waits_for_folder.clear();
  bench.turn();  // its folder is free
  bench.run();
  EXPECT_EQ(bench.count(JobState::Done), 40);
}

TEST(CircuitBreaker, ASuccessThatTellsNothingNewCostsNoLookAtTheStep) {
  Bench bench(sweep_with(three_rates()), 1, bad_fails);
  bench.run();
  EXPECT_EQ(bench.count(JobState::Done), 40);
  EXPECT_LE(bench.scans, 12);
}

TEST(CircuitBreaker, WhatAPersonReleasedIsNotHeldByTheNextCoordinator) {
  Bench bench(sweep_with(three_rates()), 1, [](const RunSpec&) { return kMistake; });
  bench.run([&] { return bench.count(JobState::Failed) == 4; });
  bench.breaker->reset(SweepId{1});
  std::vector<JobId> held;
  for (const Job& job : bench.world.jobs()) {
    if (job.state == JobState::Held) held.push_back(job.id);
  }
  for (const JobId id : held) bench.record(id, event::Requeued{"released"});
  bench.restart();
  EXPECT_EQ(bench.count(JobState::Held), 0);
  bench.run([&] { return bench.count(JobState::Held) > 0; });
  EXPECT_EQ(bench.count(JobState::Failed), 7) << "three more trip it again";
}

TEST(CircuitBreaker, WhatRunsForLongerThanTheFailedOnesFreesTheOthers) {
  Bench bench(sweep_with(three_rates()), 4, [](const RunSpec& run) {
    return is_bad(run) ? kMistake : End{.after_ns = 600 * kMinute};
  });
  bench.run_for(3 * kMinute);
  EXPECT_EQ(bench.count(JobState::Running), 4) << "no lane is idle";
  EXPECT_EQ(bench.count(JobState::Done), 0);
  EXPECT_LE(bench.count(JobState::Failed), 6);
}

TEST(CircuitBreaker, WhereAllFailTheProbesWaitLongerAndLonger) {
  Bench bench(sweep_with(three_rates()), 4, [](const RunSpec&) { return kMistake; });
  bench.run_for(kMinute);
  EXPECT_GE(bench.count(JobState::Failed), 7);
  EXPECT_LE(bench.count(JobState::Failed), 12);
  bench.run_for(60 * kMinute);
  EXPECT_LE(bench.count(JobState::Failed), 30);
  EXPECT_EQ(bench.count(JobState::Queued), 0);
  bench.run();
  EXPECT_EQ(bench.count(JobState::Failed), 60) << "each of them was tried in the end";
}

TEST(CircuitBreaker, OneProbeAtATime) {
  Bench bench(sweep_with(three_rates()), 8, [](const RunSpec& run) {
    return is_bad(run) ? kMistake : End{.after_ns = 20 * kSecond};
  });
  bench.run_for(10 * kSecond);
  EXPECT_EQ(bench.count(JobState::Running), 1);
  const std::string why = bench.breaker->words_of(bench.job(59));
  EXPECT_NE(why.find("held since"), std::string::npos) << why;
  EXPECT_NE(why.find("is tried now"), std::string::npos) << why;
}

TEST(CircuitBreaker, TellsWhatIsTriedNextAndWhen) {
  Bench bench(sweep_with(three_rates()), 1, [](const RunSpec&) { return kMistake; });
  bench.run([&] { return bench.row().find("\"failed\":5") != std::string::npos; });
  const std::string why = bench.breaker->words_of(bench.job(60));
  EXPECT_NE(why.find("is tried in 16s"), std::string::npos) << why;
  EXPECT_NE(why.find("pergpu release 60"), std::string::npos) << why;
  const std::string all = bench.breaker->words_of(*bench.world.sweep(SweepId{1}));
  EXPECT_NE(all.find("52 jobs of step train held since"), std::string::npos) << all;
}

TEST(CircuitBreaker, TheFirstProbeSharesNoValueWithAllThatFailed) {
  Bench bench(sweep_with(three_rates()), 1, bad_fails);
  bench.run([&] { return bench.started.size() == 4; });
  EXPECT_FALSE(is_bad(*bench.world.parameters_of(*bench.world.job(bench.started[3]))));
}

TEST(CircuitBreaker, TwoValuesThatFailInTwoWays) {
  const auto ends = [](const RunSpec& run) {
    if (has(run, R"("lr":0)")) return kMistake;
    if (!has(run, R"("lr":1)")) return End{};
    return End{OutcomeClass::UserError, "exit code 1: TypeError", kSecond / 10};
  };
  Bench bench(sweep_with(three_rates()), 4, ends);
  bench.run();
  EXPECT_EQ(bench.count(JobState::Done), 20);
  EXPECT_EQ(bench.count(JobState::Failed), 40);
}

TEST(CircuitBreaker, AFailureOfAnotherKindCostsNoWait) {
  int failed = 0;
  Bench bench(sweep_with(three_rates()), 1, [&](const RunSpec& run) {
    if (is_bad(run)) return kMistake;
    return ++failed < 9 ? End{OutcomeClass::Exit, "exit code 1"} : End{};
  });
  bench.run_for(30 * kSecond);
  EXPECT_GT(bench.count(JobState::Done), 5);
}

TEST(CircuitBreaker, FaultsOfTheMachineNeverTripIt) {
  for (const OutcomeClass cls :
       {OutcomeClass::Hardware, OutcomeClass::Driver, OutcomeClass::DiskFull, OutcomeClass::Lost,
        OutcomeClass::OomHost, OutcomeClass::OomGpu, OutcomeClass::Neighbour, OutcomeClass::Exit,
        OutcomeClass::Signal, OutcomeClass::OutputMissing, OutcomeClass::Unknown}) {
    Bench bench(sweep_with(three_rates()), 4, [&](const RunSpec&) {
      return End{cls, "no disk", kSecond / 10};
    });
    bench.run([&] { return bench.count(JobState::Held) > 0; });
    EXPECT_EQ(bench.count(JobState::Held), 0) << to_string(cls);
    EXPECT_EQ(bench.count(JobState::Failed), 60);
  }
}

TEST(CircuitBreaker, AProbeThatTheMachineFailedStaysTheProbe) {
  Bench bench(sweep_with(three_rates()), 1, [](const RunSpec& run) {
    return is_bad(run) ? kMistake : End{OutcomeClass::Hardware, "Xid 79"};
  });
  bench.run([&] { return bench.started.size() == 6; });
  EXPECT_EQ(bench.started[3], bench.started[4]);
  EXPECT_EQ(bench.started[4], bench.started[5]);
}

TEST(CircuitBreaker, ASuccessBeforeANewSubmitCounts) {
  bool works = true;
  Bench bench(sweep_with(three_rates()), 4,
              [&](const RunSpec&) { return works ? End{} : kMistake; });
  bench.run();
  works = false;
  bench.submit(sweep_with(three_rates()), {.rerun = true});
  bench.run();
  EXPECT_EQ(bench.count(JobState::Failed), 60) << "none was held";
  EXPECT_EQ(bench.clock.ns < 30 * kSecond, true);
}

TEST(CircuitBreaker, ASuccessOfAnotherCommandDoesNot) {
  bool works = true;
  Bench bench(sweep_with(three_rates()), 4,
              [&](const RunSpec&) { return works ? End{} : kMistake; });
  bench.run();
  bench.submit(sweep_with(three_rates()), {.rerun = true});  // it is remembered
  bench.run();
  works = false;
  SweepSpec other = sweep_with(three_rates());
  other.steps[0].command = {"false"};
  bench.submit(other);
  bench.run([&] { return bench.count(JobState::Held) > 0; });
  EXPECT_GT(bench.count(JobState::Held), 50);
  EXPECT_FALSE(has_succeeded(bench.world, {SweepId{1}, 0}));
}

TEST(CircuitBreaker, BreakerZeroHoldsNothing) {
  Bench bench(sweep_with(three_rates(), 0), 4, [](const RunSpec&) { return kMistake; });
  bench.run();
  EXPECT_EQ(bench.count(JobState::Failed), 60);
  EXPECT_LT(bench.clock.ns, 10 * kSecond);
}

TEST(CircuitBreaker, OnANodeOfAClusterItHoldsAndTriesNothing) {
  Bench bench(sweep_with(three_rates()), 1, bad_fails);
  bench.run([&] { return bench.count(JobState::Held) > 0; });
  EXPECT_FALSE(bench.breaker->idle());
  // What a node holds is tried by the coordinator that is told of it.
  Bench home(sweep_with({R"({"a":1})", R"({"a":2})", R"({"a":3})"}), 0, bad_fails);
  home.record(JobId{2}, event::Held{"held by the breaker: 3 jobs", HoldCause::Breaker});
  home.turn();
  EXPECT_EQ(home.count(JobState::Held), 2) << "the others are, too";
  EXPECT_EQ(home.count(JobState::Queued), 1) << "and one is tried";
}

TEST(CircuitBreaker, WhatAPersonReleasesOrCancelsIsNoMatterOfProbes) {
  Bench bench(sweep_with(three_rates()), 1, bad_fails);
  bench.run([&] { return bench.started.size() == 4; });
  const JobId probe = bench.started[3];
  bench.record(JobId{60}, event::Requeued{"released"});
  bench.breaker->reset(StepKey{SweepId{1}, 0});
  bench.record(JobId{59}, event::Cancelled{"cancelled by hand"});
  bench.record(JobId{58}, event::Requeued{"held by hand"});
  bench.record(JobId{58}, event::Held{"held by hand"});
  bench.run();
  EXPECT_EQ(bench.world.job(probe)->state, JobState::Done);
  EXPECT_EQ(bench.job(60).state, JobState::Done);
  EXPECT_EQ(bench.job(58).state, JobState::Held);
  EXPECT_EQ(bench.count(JobState::Done), 38);
  EXPECT_EQ(bench.count(JobState::Failed), 20);
  EXPECT_TRUE(bench.breaker->idle());
}

TEST(CircuitBreaker, TheNextProbeComesWhenTheOneBeforeIsTakenAway) {
  Bench bench(sweep_with(three_rates()), 1, [](const RunSpec&) { return kMistake; });
  bench.run([&] { return bench.count(JobState::Held) > 0; });
  const JobId probe = bench.started.back();
  ASSERT_EQ(bench.world.job(probe)->state, JobState::Running);
  bench.record(probe, event::Stopping{StopCause::Cancel, "cancelled by hand"});
  bench.record(probe,
               event::Ended{{.cls = OutcomeClass::Cancelled}, {.state = JobState::Cancelled}});
  bench.turn();
  EXPECT_EQ(bench.count(JobState::Queued), 1);
}

RC_GTEST_PROP(CircuitBreaker, AnyOneValueThatFailsLeavesTheOthersDoneAlsoOverRestarts, ()) {
  const int lanes = *rc::gen::inRange(1, 7);
  const int breaker = *rc::gen::inRange(1, 5);
  const std::vector<int> sizes{*rc::gen::inRange(2, 4), *rc::gen::inRange(1, 4),
                               *rc::gen::inRange(1, 8)};
  std::vector<std::string> rows;
  for (int a = 0; a < sizes[0]; ++a) {
    for (int b = 0; b < sizes[1]; ++b) {
      for (int c = 0; c < sizes[2]; ++c) {
        rows.push_back(fmt::format(R"({{"a":{},"b":{},"c":{}}})", a, b, c));
      }
    }
  }
  for (std::size_t i = rows.size(); i > 1 && *rc::gen::arbitrary<bool>(); --i) {
    std::swap(rows[i - 1],
              rows[static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(i)))]);
  }
  const std::string bad =
      *rc::gen::element<std::string>(R"("a":0)", R"("a":1)", R"("b":0)", R"("c":0)");
  const auto fails = [&](const RunSpec& run) { return has(run, bad); };
  const auto total = static_cast<int>(rows.size());
  const auto failing = static_cast<int>(std::count_if(
      rows.begin(), rows.end(), [&](const std::string& row) { return row.find(bad) != row.npos; }));
  const bool is_quick = *rc::gen::arbitrary<bool>();
  Bench bench(sweep_with(rows, breaker), lanes, [&](const RunSpec& run) {
    return fails(run) ? kMistake : End{.after_ns = is_quick ? kSecond : 10 * kMinute};
  });
  bool tripped = false;
  int at_trip = 0;
  const auto attempts = [&] {
    return static_cast<int>(std::count_if(
        bench.started.begin(), bench.started.end(),
        [&](JobId id) { return fails(*bench.world.parameters_of(*bench.world.job(id))); }));
  };
  const int restart_at = *rc::gen::inRange(0, 40);
  int turns = 0;
  bench.run([&] {
    if (!tripped && bench.count(JobState::Held) > 0) {
      tripped = true;
      at_trip = attempts();
    }
    if (++turns == restart_at) bench.restart();
    return false;
  });
  RC_ASSERT(bench.count(JobState::Done) == total - failing);
  RC_ASSERT(bench.count(JobState::Failed) == failing);
  RC_ASSERT(bench.breaker->idle());
  RC_ASSERT(attempts() == failing);
  if (!tripped) return;
  RC_ASSERT(at_trip <= std::max(lanes, breaker) + 1);
  RC_ASSERT(attempts_before_others_were_done(bench, fails) <= at_trip + 3);
}

}  // namespace
}  // namespace pergpu::testing
