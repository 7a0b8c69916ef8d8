// Which jobs go to a cluster in one array, and behind what they wait there.
#include "slurm/handover_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <set>

#include "simulation.h"
#include "spec/sweep/wire.h"
#include "state/submit.h"

namespace pergpu::testing {
namespace {

using Tasks = std::vector<int>;

/// A sweep of train -> evaluate, or what the test makes of it, and a cluster that takes it.
struct HandoverPlan : ::testing::Test {
  void submit(int runs, std::vector<StepSpec> steps) {
    SweepSpec sweep = sweep_of("s", runs);
    sweep.steps = std::move(steps);
    Result<SubmitPlan> plan = plan_submit(world, sweep, {.engine = kSlurm}, {1, 1});
    ASSERT_TRUE(plan) << plan.error().message;
    for (const Row& row : plan->rows) ASSERT_TRUE(world.absorb(row));
    for (const std::int64_t job : plan->reply.jobs) wanted.insert(JobId{job});
  }
  static StepSpec train() { return step_of("train"); }
  /// The file with these steps is submitted once more.
  void submit_again(int runs, std::vector<StepSpec> steps) {
    submit(runs, std::move(steps));
    std::erase_if(wanted, [&](JobId job) { return world.job(job)->state == JobState::Cancelled; });
  }
  static StepSpec running(StepSpec step, const std::string& command) {
    step.command = {command};
    return step;
  }
  static StepSpec evaluate(Need::Scope scope = Need::Scope::SameRun) {
    StepSpec step = step_of("evaluate");
    step.needs = {{0, scope}};
    return step;
  }

  ClusterSite site() {
    return {
        .array_size = array_size,
        .most_tasks = most_tasks,
        .place = [this](JobId id) -> std::optional<HandedPlace> {
          const auto it = places.find(id);
          if (it == places.end()) return std::nullopt;
          return it->second;
        },
        .arrays = [this](StepKey step) { return arrays[step]; },
        .is_handed = [this](JobId job) { return places.contains(job) || nameless.contains(job); }};
  }
  std::optional<ArrayPlan> plan() {
    return next_array(world, sweep(), {wanted.begin(), wanted.end()}, site());
  }
  /// The cluster takes the next one and calls it `number`.
  ArrayPlan take(std::int64_t number) {
    std::optional<ArrayPlan> taken = plan();
    EXPECT_TRUE(taken);
    if (!taken) return {};
    arrays[taken->step].push_back(number);
    for (const store::HandedJob& job : taken->handover.jobs) {
      places[job.job.id] = {number, job.task, taken->handover.jobs_each};
      wanted.erase(job.job.id);
    }
    return *std::move(taken);
  }
  void happens(std::int64_t job, JobEvent e) {
    ASSERT_TRUE(world.absorb(row::Event{{job}, std::move(e), {2, 2}}));
  }
  void end(std::int64_t job, OutcomeClass cls, JobState state) {
    happens(job, event::Starting{.attempt = 1});
    happens(job, event::Ended{{.cls = cls}, {.state = state}});
    wanted.erase(JobId{job});
    places.erase(JobId{job});
  }
  std::vector<JobId> ready() {
    return ready_jobs(world, sweep(), {wanted.begin(), wanted.end()}, site().is_handed);
  }
  const Sweep& sweep() const { return world.sweeps().begin()->second; }

  World world;
  std::set<JobId> wanted;
  std::map<JobId, HandedPlace> places;
  std::set<JobId> nameless;  // are being handed over: their array has no number yet
  std::map<StepKey, std::vector<std::int64_t>> arrays;
  int most_tasks = 0;
  std::int32_t array_size = 1001;
};

TEST_F(HandoverPlan, ALaterStepWaitsTaskByTask) {
  submit(3, {train(), evaluate()});
  const ArrayPlan first = take(12);
  EXPECT_EQ(first.tasks, (Tasks{0, 1, 2}));
  EXPECT_EQ(first.dependency, "");
  EXPECT_EQ(first.handover.jobs.size(), 3u);
  EXPECT_EQ(first.handover.jobs[0].job.step_name, "train");
  const ArrayPlan second = take(13);
  EXPECT_EQ(second.tasks, (Tasks{0, 1, 2}));
  EXPECT_EQ(second.dependency, "aftercorr:12");
  ASSERT_EQ(second.handover.jobs[1].needs.size(), 1u);
  EXPECT_EQ(second.handover.jobs[1].needs[0].job, JobId{2});
  EXPECT_EQ(second.handover.jobs[1].needs[0].out, world.out_of(*world.job(JobId{2})));
  EXPECT_FALSE(plan());
}

TEST_F(HandoverPlan, WhatIsDoneIsNotWaitedFor) {
  submit(3, {train(), evaluate()});
  end(1, OutcomeClass::Ok, JobState::Done);
  EXPECT_EQ(take(12).tasks, (Tasks{1, 2}));
  // Those that can run now, and those that wait, are two arrays.
  std::set<std::string> dependencies = {take(13).dependency, take(14).dependency};
  EXPECT_EQ(dependencies, (std::set<std::string>{"", "aftercorr:12"}));
  EXPECT_EQ(places.at({4}).task, 0);
  EXPECT_EQ(places.at({6}).task, 2);
}

TEST_F(HandoverPlan, WhatHasNoPlaceKeepsItsDependentsHere) {
  submit(2, {train(), evaluate()});
  wanted.erase(JobId{1});  // held, say
  EXPECT_EQ(take(12).tasks, Tasks{1});
  const ArrayPlan second = take(13);
  EXPECT_EQ(second.tasks, Tasks{1});
  EXPECT_FALSE(plan()) << "the job of run 0 has to stay";
}

TEST_F(HandoverPlan, ABarrierWaitsForAllArrays) {
  array_size = 2;
  submit(3, {train(), evaluate(Need::Scope::All)});
  EXPECT_EQ(take(12).tasks, (Tasks{0, 1}));
  EXPECT_EQ(take(13).tasks, Tasks{0});
  EXPECT_EQ(take(14).dependency, "afterok:12:13");
}

TEST_F(HandoverPlan, ABarrierForTheEndOnlyWaitsForTheEnd) {
  submit(2, {train(), evaluate(Need::Scope::Ended)});
  take(12);
  const ArrayPlan second = take(13);
  EXPECT_EQ(second.dependency, "afterany:12");
  EXPECT_TRUE(second.handover.jobs[0].needs.empty()) << "it runs however they ended";
}

TEST_F(HandoverPlan, AnArrayIsAsLongAsTheSiteAllows) {
  array_size = 4;
  submit(10, {train(), evaluate()});
  EXPECT_EQ(take(1).tasks, (Tasks{0, 1, 2, 3}));
  EXPECT_EQ(take(2).tasks, (Tasks{0, 1, 2, 3}));
  EXPECT_EQ(take(3).tasks, (Tasks{0, 1}));
  EXPECT_EQ(take(4).dependency, "aftercorr:1");
  EXPECT_EQ(take(5).dependency, "aftercorr:2");
  EXPECT_EQ(take(6).dependency, "aftercorr:3");
  EXPECT_FALSE(plan());
}

TEST_F(HandoverPlan, MaxParallelHoldsOverSeveralArrays) {
  array_size = 2;
  StepSpec step = train();
  step.max_parallel = 2;
  submit(4, {step});
  const ArrayPlan first = take(12);
  EXPECT_EQ(first.most_at_once, 2);
  EXPECT_EQ(first.dependency, "");
  EXPECT_EQ(take(13).dependency, "afterany:12");
}

TEST_F(HandoverPlan, SeveralJobsFillAnAllocation) {
  StepSpec first = train();
  first.slurm.jobs_per_allocation = 3;
  StepSpec same = evaluate();
  same.slurm.jobs_per_allocation = 3;
  StepSpec alone = step_of("report");
  alone.needs = {{1, Need::Scope::SameRun}};
  submit(7, {first, same, alone});
  const ArrayPlan one = take(12);
  EXPECT_EQ(one.tasks, (Tasks{0, 1, 2}));
  EXPECT_EQ(one.handover.jobs_each, 3);
  EXPECT_EQ(one.handover.jobs[3].task, 1);
  EXPECT_EQ(take(13).dependency, "aftercorr:12");
  // A task of several jobs says nothing of one of them: whoever waits looks at the records.
  const ArrayPlan last = take(14);
  EXPECT_EQ(last.dependency, "afterany:13");
  EXPECT_EQ(last.tasks, (Tasks{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(last.handover.jobs[0].needs.size(), 1u);
}

TEST_F(HandoverPlan, WhatABarrierHasToCheckIsToldOnceForAllBehindIt) {
  constexpr int kRuns = 300;
  submit(kRuns, {train(), evaluate(Need::Scope::All)});
  take(12);
  end(7, OutcomeClass::Ok, JobState::Done);
  const ArrayPlan second = take(13);
  EXPECT_EQ(second.tasks.size(), 300u);
  EXPECT_EQ(second.dependency, "afterok:12");
  EXPECT_EQ(second.handover.needs.size(), 299u);
  for (const store::HandedJob& job : second.handover.jobs) EXPECT_TRUE(job.needs.empty());
}

/// Each of them would look at each of those.
TEST_F(HandoverPlan, ThousandsStayHereWhileABarrierIsBehindThousands) {
  constexpr int kRuns = 1200;
  submit(kRuns, {train(), evaluate(Need::Scope::All)});
  while (!wanted.empty()) {
    const std::optional<ArrayPlan> next = plan();
    if (!next || next->handover.jobs[0].job.step_name != "train") break;
    take(12);
  }
  EXPECT_FALSE(plan());
  const int few = 1'000'000 / kRuns;
  for (int job = 1; job < kRuns - few; ++job) end(job, OutcomeClass::Ok, JobState::Done);
  EXPECT_FALSE(plan());
  end(kRuns - few, OutcomeClass::Ok, JobState::Done);
  EXPECT_TRUE(plan());
}

TEST_F(HandoverPlan, OneThatWaitsForManyChecksEachOfThem) {
  constexpr int kRuns = 300;
  StepSpec report = evaluate(Need::Scope::All);
  report.once = true;
  submit(kRuns, {train(), report});
  take(12);
  end(7, OutcomeClass::Ok, JobState::Done);
  const ArrayPlan last = take(13);
  EXPECT_EQ(last.dependency, "afterok:12");
  ASSERT_EQ(last.handover.jobs.size(), 1u);
  EXPECT_EQ(last.handover.needs.size(), 299u);
}

TEST_F(HandoverPlan, WhoWaitsForTheEndOfAStepIsNotTakenForWhoWaitsForItsSuccess) {
  StepSpec last = step_of("last");
  last.needs = {{0, Need::Scope::All}, {1, Need::Scope::SameRun}};
  StepSpec report = step_of("report");
  report.needs = {{0, Need::Scope::Ended}};
  submit(2, {train(), evaluate(), last, report});
  take(12);
  take(13);
  const ArrayPlan third = take(14);
  EXPECT_EQ(third.handover.jobs[0].job.step_name, "report");
  EXPECT_EQ(third.dependency, "afterany:12");
  EXPECT_TRUE(third.handover.needs.empty() && third.handover.jobs[0].needs.empty());
  const ArrayPlan fourth = take(15);
  EXPECT_EQ(fourth.dependency, "aftercorr:13,afterok:12");
  EXPECT_EQ(fourth.handover.needs.size(), 2u);
  EXPECT_EQ(fourth.handover.jobs[0].needs.size(), 1u);
}

/// Slurm lifts a dependency on an array that it has forgotten, however that one ended.
TEST_F(HandoverPlan, ABarrierIsCheckedOnTheNodesWhateverSlurmSays) {
  submit(16, {train(), evaluate(Need::Scope::All)});
  take(12);
  EXPECT_EQ(take(13).handover.needs.size(), 16u);
}

TEST_F(HandoverPlan, TheEndOfATaskOfSeveralJobsOpensNoBarrierUnchecked) {
  StepSpec first = train();
  first.slurm.jobs_per_allocation = 2;
  submit(4, {first, evaluate(Need::Scope::All)});
  take(12);
  const ArrayPlan second = take(13);
  EXPECT_EQ(second.dependency, "afterany:12");
  EXPECT_EQ(second.handover.needs.size(), 4u);
}

TEST_F(HandoverPlan, ABarrierWithAJobThatIsNotHandedOverKeepsAllBehindItHere) {
  submit(3, {train(), evaluate(Need::Scope::All)});
  wanted.erase(JobId{2});  // held, say
  take(12);
  EXPECT_FALSE(plan());
}

TEST_F(HandoverPlan, ABarrierForTheEndOfManyIsHandedOverWithoutChecks) {
  submit(300, {train(), evaluate(Need::Scope::Ended)});
  take(12);
  const ArrayPlan second = take(13);
  EXPECT_EQ(second.tasks.size(), 300u);
  EXPECT_EQ(second.dependency, "afterany:12");
  EXPECT_TRUE(second.handover.needs.empty());
}

TEST_F(HandoverPlan, AnArrayHasNoMoreTasksThanAreTakenAtOnce) {
  StepSpec step = train();
  step.slurm.jobs_per_allocation = 2;
  most_tasks = 2;
  submit(9, {step});
  const ArrayPlan first = take(12);
  EXPECT_EQ(first.tasks, (Tasks{0, 1}));
  EXPECT_EQ(first.handover.jobs.size(), 4u);
  EXPECT_EQ(take(13).tasks, (Tasks{2, 3}));
  EXPECT_EQ(take(14).tasks, Tasks{4});
  EXPECT_FALSE(plan());
}

// ---- two versions of a job ----------------------------------------------------------------------

TEST_F(HandoverPlan, ANewVersionWaitsUntilTheOldOneHasLeftTheCluster) {
  submit(2, {train()});
  take(12);
  submit_again(2, {running(train(), "false")});
  ASSERT_EQ(world.job(JobId{1})->state, JobState::Cancelled);
  EXPECT_EQ(wanted, (std::set<JobId>{{3}, {4}}));
  EXPECT_FALSE(plan()) << "a task that waits in the queue may begin at any moment";
  EXPECT_TRUE(ready().empty());
  places.erase(JobId{1});
  EXPECT_EQ(ready(), std::vector<JobId>{{3}});
  EXPECT_EQ(take(13).tasks, Tasks{0});
  places.erase(JobId{2});
  EXPECT_EQ(take(14).tasks, Tasks{1});
}

TEST_F(HandoverPlan, ANewVersionWaitsForAnOldOneThatIsBeingHandedOver) {
  submit(1, {train()});
  nameless.insert(JobId{1});
  wanted.clear();
  submit_again(1, {running(train(), "false")});
  EXPECT_FALSE(plan());
  EXPECT_TRUE(ready().empty());
  nameless.clear();
  EXPECT_EQ(take(12).handover.jobs[0].job.id, JobId{2});
}

TEST_F(HandoverPlan, ANewVersionWaitsForAllThatWereBeforeIt) {
  submit(1, {train()});
  take(12);
  submit_again(1, {running(train(), "false")});
  submit_again(1, {running(train(), "sync")});
  EXPECT_EQ(wanted, std::set<JobId>{{3}});
  EXPECT_FALSE(plan()) << "the one in between was never handed over, the first was";
  places.clear();
  EXPECT_EQ(take(13).handover.jobs[0].job.id, JobId{3});
}

TEST_F(HandoverPlan, ALiveOldVersionIsWaitedForAndNotHandedOverOnceMore) {
  submit(1, {train()});
  take(12);
  happens(1, event::Starting{.attempt = 1});
  submit_again(1, {running(train(), "false")});
  EXPECT_FALSE(plan());
  places.clear();
  EXPECT_FALSE(plan()) << "how it ended is not known yet";
  happens(1, event::Ended{{.cls = OutcomeClass::Exit}, {.kind = Next::Kind::Again}});
  ASSERT_EQ(world.job(JobId{1})->state, JobState::Queued);
  wanted.insert(JobId{1});
  const ArrayPlan next = take(13);
  ASSERT_EQ(next.handover.jobs.size(), 1u);
  EXPECT_EQ(next.handover.jobs[0].job.id, JobId{2});
  EXPECT_FALSE(plan());
  EXPECT_TRUE(ready().empty());
}

TEST_F(HandoverPlan, WhatNeedsAJobWaitsForItsNewVersion) {
  submit(2, {train(), evaluate()});
  take(12);
  submit_again(2, {running(train(), "false"), evaluate()});
  EXPECT_FALSE(plan()) << "what stays here keeps its dependents here";
  places.clear();
  take(13);
  EXPECT_EQ(take(14).dependency, "aftercorr:13");
}

TEST_F(HandoverPlan, TheNodeIsToldOfOneStepAndNoConditions) {
  submit(2, {train(), evaluate()});
  take(12);
  const ArrayPlan plan = take(13);
  const Result<SweepSpec> spec = sweep_from_wire(plan.handover.sweep.spec);
  ASSERT_TRUE(spec);
  EXPECT_TRUE(spec->steps[1].needs.empty());
  EXPECT_TRUE(spec->steps[1].overcommit);
  EXPECT_FALSE(spec->steps[0].overcommit);
  World node;
  ASSERT_TRUE(node.absorb(plan.handover.sweep));
  for (const row::Run& run : plan.handover.runs) ASSERT_TRUE(node.absorb(run));
  for (const store::HandedJob& job : plan.handover.jobs) {
    ASSERT_TRUE(node.absorb(job.job));
    ASSERT_TRUE(node.absorb(row::Event{job.job.id, job.state, job.job.at}));
    EXPECT_EQ(node.path_of(*node.job(job.job.id)), world.path_of(*world.job(job.job.id)));
  }
}

/// Whatever has ended already: all that can be handed over is, once, and nothing before its need.
RC_GTEST_FIXTURE_PROP(HandoverPlan, EveryJobGetsOnePlaceBehindItsNeed, ()) {
  array_size = *rc::gen::inRange(1, 5);
  StepSpec first = train();
  StepSpec second = evaluate();
  first.slurm.jobs_per_allocation = *rc::gen::inRange(1, 4);
  second.slurm.jobs_per_allocation = *rc::gen::inRange(1, 4);
  const int runs = *rc::gen::inRange(1, 12);
  submit(runs, {first, second});
  for (int run = 0; run < runs; ++run) {
    if (*rc::gen::inRange(0, 3) == 0) end(run + 1, OutcomeClass::Ok, JobState::Done);
  }
  std::int64_t number = 100;
  std::map<JobId, std::int64_t> array_of;
  while (std::optional<ArrayPlan> next = plan()) {
    RC_ASSERT(number < 200);
    for (const int task : next->tasks) RC_ASSERT(task >= 0 && task < array_size);
    std::map<int, int> jobs_of;
    for (const store::HandedJob& job : next->handover.jobs) {
      RC_ASSERT(array_of.emplace(job.job.id, number).second);
      RC_ASSERT(++jobs_of[job.task] <= next->handover.jobs_each);
      if (job.job.step != 1) continue;
      const auto need = array_of.find(JobId{job.job.run + 1});
      if (need == array_of.end()) continue;
      RC_ASSERT(next->dependency.find(":" + std::to_string(need->second)) != std::string::npos);
    }
    take(number++);
  }
  RC_ASSERT(wanted.empty());
}

TEST_F(HandoverPlan, ByItselfGoesOnlyWhatNeedsNothingAnyMore) {
  StepSpec urgent = evaluate();
  urgent.priority = 1;
  submit(3, {train(), urgent});
  EXPECT_EQ(ready(), (std::vector<JobId>{{1}, {2}, {3}}));
  end(2, OutcomeClass::Ok, JobState::Done);
  EXPECT_EQ(ready(), (std::vector<JobId>{{5}, {1}, {3}})) << "by priority first";
  const ArrayPlan plan = plan_of_one(world, sweep(), JobId{5}, "n1");
  EXPECT_EQ(plan.tasks, Tasks{0});
  EXPECT_EQ(plan.handover.node, "n1");
  ASSERT_EQ(plan.handover.jobs.size(), 1u);
  EXPECT_EQ(plan.handover.jobs[0].job.run, 1);
  ASSERT_EQ(plan.handover.runs.size(), 1u);
  EXPECT_EQ(plan.handover.runs[0].index, 1);
}

}  // namespace
}  // namespace pergpu::testing
