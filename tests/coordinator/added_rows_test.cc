// Rows that are added to a sweep (`submit --add`), over fakes (simulation.h).
#include "state/added_rows.h"

#include <algorithm>
#include <set>

#include "simulation.h"

namespace pergpu::testing {
namespace {

const SubmitContext kAdd = {.lanes = 2, .add = true};

/// Runs x = first … last of one step.
SweepSpec rows(int first, int last, const std::string& duration = "10s") {
  SweepSpec sweep = sweep_of("grows", last + 1);
  sweep.runs.erase(sweep.runs.begin(), sweep.runs.begin() + first);
  sweep.steps.push_back(step_of("main", duration));
  return sweep;
}

struct AddedRows : ::testing::Test {
  std::string refusal(Simulation& sim, const SweepSpec& sweep, SubmitContext context = kAdd) {
    const std::size_t before = store.rows.size();
    const Result<SubmitReply> reply = sim.submit(sweep, std::move(context));
    EXPECT_FALSE(reply);
    EXPECT_EQ(store.rows.size(), before);
    return reply ? std::string() : reply.error().message;
  }
  MemoryStore store;
  SimClock clock;
};

TEST_F(AddedRows, JoinTheOthersWhichStayAsTheyAre) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(rows(0, 3), kAdd));  // a sweep that is not there yet is made
  Result<SubmitReply> reply = sim.submit(rows(3, 5), kAdd);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->jobs, (std::vector<std::int64_t>{4, 5, 6}));
  EXPECT_EQ(reply->fresh, 2);
  EXPECT_EQ(reply->kept, 1);
  EXPECT_EQ(reply->dropped, 0);
  EXPECT_EQ(sim.count(JobState::Cancelled), 0);
  EXPECT_EQ(sim.world.sweeps().begin()->second.steps[0].total, 6);
  for (const Job& job : sim.world.jobs()) EXPECT_TRUE(sim.world.is_listed(job.id));
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 6);
}

TEST_F(AddedRows, LeaveOutWhatWasTakenOutBeforeUnlessTheyNameIt) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(rows(0, 3), {.lanes = 1}));
  ASSERT_TRUE(sim.submit(rows(0, 1), {.lanes = 1}));  // 2 and 3 are gone
  Result<SubmitReply> reply = sim.submit(rows(3, 4), {.lanes = 1, .add = true});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->fresh, 1);
  EXPECT_EQ(reply->requeued, 1);
  EXPECT_FALSE(sim.world.is_listed(JobId{3}));
  EXPECT_TRUE(sim.world.is_listed(JobId{4}));
  EXPECT_EQ(sim.job(3).state, JobState::Cancelled);
  EXPECT_EQ(sim.job(4).state, JobState::Queued);
  EXPECT_EQ(sim.world.sweeps().begin()->second.steps[0].total, 4);
  World replayed;
  load_whole(store, replayed);
  EXPECT_FALSE(replayed.is_listed(JobId{3}));
  EXPECT_EQ(replayed.sweeps().begin()->second.steps[0].total, 4);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 4);
}

TEST_F(AddedRows, CostNothingForTheOthers) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(rows(0, 999), {.lanes = 1}));
  const std::size_t before = store.rows.size();
  std::set<JobId> told;
  sim.on_change = [&](const std::vector<JobId>& jobs) { told.insert(jobs.begin(), jobs.end()); };
  ASSERT_TRUE(sim.submit(rows(1000, 1001), {.lanes = 1, .add = true}));
  EXPECT_EQ(told, (std::set<JobId>{{1001}, {1002}}));
  EXPECT_EQ(store.rows.size() - before, 6u);  // the sweep, its environment, two runs and two jobs
}

TEST_F(AddedRows, GiveTheSameAnswerToTheSameRequest) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(rows(0, 2), kAdd));
  SubmitContext context = kAdd;
  context.key = "k1";
  Result<SubmitReply> first = sim.submit(rows(2, 4), context);
  const std::size_t before = store.rows.size();
  Result<SubmitReply> again = sim.submit(rows(2, 4), context);
  ASSERT_TRUE(first);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->jobs, first->jobs);
  EXPECT_EQ(again->jobs, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(store.rows.size(), before);
  // Without `add` it is another request.
  context.add = false;
  Result<SubmitReply> whole = sim.submit(rows(2, 4), context);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->kept, 3);
  EXPECT_EQ(whole->dropped, 0);  // 0 and 1 run
  EXPECT_FALSE(sim.world.is_listed(JobId{1}));
}

TEST_F(AddedRows, ARetryThatIsDueWhileTheyAreStoredIsMadeUpFor) {
  SweepSpec first = rows(0, 0, "1s");
  first.steps[0].fake.exit = "1";
  first.steps[0].retries = {.max = 1};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(first, kAdd));
  sim.run_for(3 * kSecond / 2);
  ASSERT_EQ(sim.job(1).state, JobState::Queued);  // until its second is over
  SweepSpec more = first;
  more.runs = rows(1, 1).runs;
  SubmitContext context = kAdd;
  context.engine = "fake";
  bool is_added = false;
  sim.core->submit(more, context, [&](const Result<SubmitReply>& reply) { is_added = !!reply; });
  sim.core->settle();
  ASSERT_TRUE(sim.core->frozen());
  while (clock.ns < 3 * kSecond && !sim.sim_timers.empty()) sim.sim_timers.step(clock);
  ASSERT_FALSE(is_added);
  sim.run();
  EXPECT_TRUE(is_added);
  EXPECT_EQ(sim.job(1).attempts, 2);
  EXPECT_TRUE(sim.core->idle());
}

TEST_F(AddedRows, AreRefusedWhereAStepLooksAtAllRuns) {
  Simulation sim(store, clock);
  SweepSpec sweep = rows(0, 1);
  StepSpec best = step_of("best");
  best.once = true;
  best.needs = {{.step = 0}};
  sweep.steps.push_back(best);
  EXPECT_EQ(refusal(sim, sweep),
            "--add: step best needs main of all runs of the sweep, so runs can't be added; submit "
            "the whole file without --add");
  sweep.steps[1].needs[0].scope = Need::Scope::Ended;
  EXPECT_NE(refusal(sim, sweep), "");
  sweep.steps[1].needs = {};
  sweep.steps[1].command = {"echo", "{runs}"};
  EXPECT_EQ(refusal(sim, sweep),
            "--add: step best uses all runs of the sweep ({runs}), so runs can't be added; "
            "submit the whole file without --add");
  ASSERT_TRUE(sim.submit(sweep));
  EXPECT_NE(refusal(sim, rows(2, 3)), "");  // nor to a sweep that has such a step
}

TEST_F(AddedRows, AreRefusedWhereTheStepsAreOthers) {
  Simulation sim(store, clock);
  SweepSpec two = rows(0, 1);
  two.steps.push_back(step_of("after"));
  two.steps[1].needs = {{.step = 0}};
  ASSERT_TRUE(sim.submit(two, kAdd));
  EXPECT_EQ(refusal(sim, rows(2, 3)),
            "--add: the file lacks step after, which sweep grows has: --add can't change the "
            "steps");
  SweepSpec more = two;
  more.runs = rows(2, 3).runs;
  more.steps.push_back(step_of("third"));
  EXPECT_NE(refusal(sim, more).find("sweep grows has no step third"), std::string::npos);
  more.steps.pop_back();
  more.steps[0].command = {"false"};
  EXPECT_EQ(refusal(sim, more),
            "--add: `command` of step main is not what sweep grows has, and --add can't change "
            "existing rows; submit the whole file without --add, or give the sweep another "
            "name");
  more.steps[0].command = two.steps[0].command;
  more.steps[1].needs = {};
  EXPECT_NE(refusal(sim, more).find("`needs` of step after"), std::string::npos);
  // Their order is no difference, and neither is what is no part of a job's identity.
  more.steps[1] = two.steps[1];
  more.steps[1].needs[0].step = 1;
  std::swap(more.steps[0], more.steps[1]);
  more.steps[1].priority = 3;
  Result<SubmitReply> reply = sim.submit(more, kAdd);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->fresh, 4);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 8);
}

TEST_F(AddedRows, OfAOnceStepThatIsRunAgainTheOthersWait) {
  SweepSpec sweep = rows(0, 3);
  sweep.steps.insert(sweep.steps.begin(), step_of("once", "5s"));
  sweep.steps[0].once = true;
  sweep.steps[1].needs = {{.step = 0}};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, kAdd));
  sim.run_for(6 * kSecond);
  EXPECT_EQ(sim.count(JobState::Running), 2);
  SweepSpec more = sweep;
  more.runs = rows(4, 4).runs;
  SubmitContext again = kAdd;
  again.rerun = true;
  ASSERT_TRUE(sim.submit(more, again));
  EXPECT_EQ(sim.job(1).state, JobState::Queued);  // no lane is free
  sim.run();
  EXPECT_EQ(sim.job(1).attempts, 2);
  EXPECT_EQ(sim.count(JobState::Done), 6);
  for (const std::int64_t id : {4, 5, 6}) {
    EXPECT_GE(sim.job(id).last->started_at.boot_ns, sim.job(1).last->ended_at.boot_ns);
  }
}

TEST_F(AddedRows, ABreakerThatHoldsOthersHoldsThemToo) {
  SweepSpec sweep = rows(0, 7, "1s");
  sweep.steps[0].fake.exit = "2";
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(sweep, kAdd));
  sim.run([&] { return sim.count(JobState::Held) > 0; });
  const int held = sim.count(JobState::Held);
  ASSERT_GT(held, 0);
  SweepSpec more = sweep;
  more.runs = rows(8, 9).runs;
  ASSERT_TRUE(sim.submit(more, kAdd));
  EXPECT_EQ(sim.count(JobState::Held), held + 2);
}

TEST_F(AddedRows, ShowInTheirFoldersByWhatTheyDiffer) {
  const auto run = [](const std::string& json) { return RunSpec{.json = json}; };
  SweepSpec file{.name = "grows", .folder = "/nowhere"};
  file.steps.push_back(step_of("main"));
  file.runs = {run(R"({"lr":1,"seed":0})")};
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(file, kAdd));
  file.runs = {run(R"({"lr":2,"seed":0})")};
  ASSERT_TRUE(sim.submit(file, kAdd));
  file.runs = {run(R"({"lr":2,"seed":1})"), run(R"({"lr":2,"seed":2})")};
  file.columns = {"seed"};
  ASSERT_TRUE(sim.submit(file, kAdd));
  file.runs = {run(R"({"seed":1,"wide":true})")};
  file.columns = {};
  ASSERT_TRUE(sim.submit(file, kAdd));
  const Sweep& sweep = sim.world.sweeps().begin()->second;
  EXPECT_EQ(sweep.spec.columns, (std::vector<std::string>{"lr", "seed", "wide"}));
  std::vector<std::string> folders;
  for (const pergpu::Run& one : sweep.runs) folders.emplace_back(one.folder());
  EXPECT_EQ(folders, (std::vector<std::string>{"00", "01-lr=2", "02-lr=2,seed=1", "03-lr=2,seed=2",
                                               "04-seed=1,wide=true"}));
}

TEST_F(AddedRows, APreviewTellsTheirFoldersAndLetsTheOthersCompete) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(rows(0, 3), {.lanes = 3}));
  SubmitContext context{.lanes = 5, .engine = "fake", .add = true};
  Result<SubmitPreview> preview = sim.core->preview(rows(3, 6), context);
  ASSERT_TRUE(preview) << preview.error().message;
  EXPECT_EQ(preview->reply.fresh, 3);
  EXPECT_EQ(preview->reply.kept, 1);
  EXPECT_EQ(preview->reply.dropped, 0);
  EXPECT_EQ(preview->runs, (std::vector<std::string>{"03-x=3", "04-x=4", "05-x=5", "06-x=6"}));
  std::set<std::string> starts;
  for (const StartSnapshot& start : preview->starts) starts.insert(start.run);
  EXPECT_EQ(starts, (std::set<std::string>{"03-x=3", "04-x=4"}));
  ASSERT_TRUE(sim.submit(rows(3, 6), context));
  EXPECT_EQ(sim.count(JobState::Running) + sim.count(JobState::Starting), 5);
  EXPECT_TRUE(is_live(sim.job(5).state));
  EXPECT_EQ(sim.job(6).state, JobState::Queued);
  // Of those that wait, others come first.
  preview = sim.core->preview(rows(7, 7), {.lanes = 6, .engine = "fake", .add = true});
  ASSERT_TRUE(preview);
  EXPECT_TRUE(preview->starts.empty());
  EXPECT_EQ(preview->runs, std::vector<std::string>{"07-x=7"});
  SweepSpec other = rows(8, 8);
  other.steps[0].command = {"false"};
  EXPECT_FALSE(sim.core->preview(other, context));
}

}  // namespace
}  // namespace pergpu::testing
