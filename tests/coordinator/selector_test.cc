// What selectors name: the current jobs, what still runs of an older version of the file, and one
// of several sweeps of a name.
#include "state/selector.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "coordinator/describe.h"
#include "coordinator/simulation.h"
#include "server/overview.h"

namespace pergpu::testing {
namespace {

using Ids = std::vector<JobId>;

class SelectorTest : public ::testing::Test {
 protected:
  SweepSpec sweep(int runs) {
    SweepSpec made = sweep_of("edit", runs);
    made.steps = {step_of("main", "100s")};
    return made;
  }
  Selection select(const std::string& selector) {
    Result<Selection> found = select_jobs(sim.world, selector);
    EXPECT_TRUE(found) << found.error().message;
    return found ? *std::move(found) : Selection{};
  }
  static std::int64_t live_in(const std::map<std::string, std::int64_t>& counts) {
    std::int64_t live = 0;
    for (const auto& [state, count] : counts) {
      if (is_live(job_state_of(state).value())) live += count;
    }
    return live;
  }
  std::string refusal(const std::string& selector) {
    const Result<Selection> found = select_jobs(sim.world, selector);
    return found ? "selected" : found.error().message;
  }

  MemoryStore store;
  SimClock clock;
  Simulation sim{store, clock};
};

TEST_F(SelectorTest, RunningJobsOfAnOlderVersionAreNamedToo) {
  SweepSpec file = sweep(4);
  ASSERT_TRUE(sim.submit(file, {.lanes = 2}));
  sim.turn();
  ASSERT_EQ(sim.core->live_count(), 2u);
  for (const char* command : {"false", "yes"}) {  // edited twice: the versions before the last, too
    file.steps[0].command = {command};
    const Result<SubmitReply> reply = sim.submit(file, {.lanes = 2});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->old_running, (std::vector<std::int64_t>{1, 2}));
    ASSERT_EQ(reply->warnings.size(), 1u);
    EXPECT_NE(reply->warnings[0].find("pergpu cancel 1 2"), std::string::npos)
        << reply->warnings[0];
  }
  EXPECT_EQ(sim.submit(file, {.lanes = 2})->old_running, (std::vector<std::int64_t>{1, 2}));
  for (const char* name : {"edit", "*", "@", "edit/*", "edit/*/main"}) {
    EXPECT_EQ(select(name).older, (Ids{{1}, {2}})) << name;
    EXPECT_EQ(select(name).jobs, (Ids{{9}, {10}, {11}, {12}})) << name;
  }
  EXPECT_EQ(select("edit/1").all(), (Ids{{2}, {10}}));
  EXPECT_EQ(select("edit/2").older, Ids{});
  // Named by its number as well, a job is there once.
  EXPECT_EQ(select_jobs(sim.world, std::vector<std::string>{"edit", "1"})->all().size(), 6u);
  EXPECT_EQ(live_in(describe(*sim.core, *sim.world.sweep(SweepId{1})).counts), 2);
  EXPECT_EQ(live_in(Overview(*sim.core).sweeps().counts), 2);

  sim.core->cancel(select("edit").all(), true, "by hand");
  sim.run();
  EXPECT_EQ(sim.core->live_count(), 0u);
  EXPECT_EQ(sim.count(JobState::Cancelled), 12);
  EXPECT_EQ(select("edit").older, Ids{}) << "what has ended is no part of it any more";
}

TEST_F(SelectorTest, CtrlCStopsWhatRunsOfAnOlderVersion) {
  SweepSpec file = sweep(2);
  ASSERT_TRUE(sim.submit(file, {.lanes = 1}));
  sim.turn();
  file.steps[0].command = {"false"};
  ASSERT_TRUE(sim.submit(file, {.lanes = 1}));
  sim.core->interrupt(SweepId{1}, 3);
  sim.run();
  EXPECT_EQ(sim.core->live_count(), 0u);
}

TEST_F(SelectorTest, OfTwoSweepsOfANameEachCanBeNamed) {
  SweepSpec file = sweep(2);
  ASSERT_TRUE(sim.submit(file, {.lanes = 1}));
  file.out = "/elsewhere";
  ASSERT_TRUE(sim.submit(file, {.lanes = 1}));
  const std::string said = refusal("edit");
  EXPECT_NE(said.find("\n  edit@1, submitted "), std::string::npos) << said;
  EXPECT_NE(said.find("\n  edit@2, submitted "), std::string::npos) << said;
  EXPECT_NE(said.find("results in /elsewhere"), std::string::npos) << said;
  EXPECT_EQ(select("edit@1").jobs, (Ids{{1}, {2}}));
  EXPECT_EQ(select("edit@2/1/main").jobs, (Ids{{4}}));
  EXPECT_EQ(select("@").jobs, (Ids{{3}, {4}}));
  EXPECT_EQ(select("@2/1").jobs, (Ids{{2}}));
  for (const char* name : {"edit@3", "edit@0", "edit@", "edit@1x", "other@1"}) {
    EXPECT_NE(refusal(name), "selected") << name;
  }
  EXPECT_EQ(selector_of(sim.world, *sim.world.sweep(SweepId{1})), "edit@1");
  EXPECT_EQ(selector_of(sim.world, sim.job(4)), "edit@2/1");
  EXPECT_EQ(sweep_called(sim.world, "edit@2"), sim.world.sweep(SweepId{2}));
}

TEST_F(SelectorTest, ANameThatHoldsAnAtIsItself) {
  SweepSpec file = sweep(1);
  ASSERT_TRUE(sim.submit(file));
  file.name = "edit@1";
  ASSERT_TRUE(sim.submit(file));
  EXPECT_EQ(select("edit@1").jobs, (Ids{{2}}));
  EXPECT_EQ(select("edit").jobs, (Ids{{1}}));
}

TEST_F(SelectorTest, AJobIsNamedByWhatSelectsIt) {
  SweepSpec file = sweep(2);
  file.steps.push_back(step_of("last"));
  file.steps.back().once = true;
  ASSERT_TRUE(sim.submit(file));
  EXPECT_EQ(selector_of(sim.world, sim.job(2)), "edit/1");
  file.steps.push_back(step_of("check"));
  ASSERT_TRUE(sim.submit(file));
  for (const Job& job : sim.world.jobs()) {
    EXPECT_EQ(select(selector_of(sim.world, job)).jobs, Ids{job.id});
  }
}

TEST_F(SelectorTest, AMistypedRunOrStepNamesTheNearest) {
  SweepSpec file = sweep(3);
  file.steps[0].name = "train";
  file.steps.push_back(step_of("summary"));
  file.steps.back().once = true;
  ASSERT_TRUE(sim.submit(file));
  const std::string folder(sim.world.sweep(SweepId{1})->runs[1].folder());
  for (const auto& [typed, meant] : std::vector<std::pair<std::string, std::string>>{
           {"edit/2/tran", "edit/2/train"},
           {"edit/*/tra", "edit/*/train"},
           {"edit@1/2/tran", "edit@1/2/train"},
           {"@/2/tran", "@/2/train"},
           {"edit/train", "edit/*/train"},
           {"edit/summ", "edit/summary"},
           {"edit/_once/sumary", "edit/summary"},
           {"edit/" + folder + "x", "edit/" + folder},
           {"edit/" + folder + "x/trian", "edit/" + folder + "/train"}}) {
    EXPECT_NE(refusal(typed).find("; did you mean `" + meant + "`?"), std::string::npos)
        << refusal(typed);
    EXPECT_NE(refusal(meant).find("selected"), std::string::npos) << meant;
  }
  for (const char* typed : {"edit/9", "edit/9/train", "edit/x*", "edit/1/x*", "edit/other"}) {
    const std::string said = refusal(typed);
    EXPECT_TRUE(
        said.ends_with(": edit has no such run or step, only the runs 0 to 2 and the steps train "
                       "and summary; `pergpu ps -a edit` lists them"))
        << said;
  }
}

TEST_F(SelectorTest, ARunOrStepThatIsNotThereIsAnsweredWithThoseThatAre) {
  SweepSpec file = sweep(1);
  file.steps[0].name = "compute";
  ASSERT_TRUE(sim.submit(file));
  EXPECT_NE(refusal("edit/9").find("only run 0 and the step compute;"), std::string::npos);
  EXPECT_NE(refusal("edit/0/train").find("only run 0 and the step compute;"), std::string::npos);
  file.name = "once";
  file.runs.clear();
  file.steps[0].once = true;
  ASSERT_TRUE(sim.submit(file));
  EXPECT_NE(refusal("once/9").find("step, only the step compute;"), std::string::npos);
}

TEST_F(SelectorTest, OneThatRestsIsNamedByItsNumberToo) {
  for (const char* out : {"/a", "/b"}) {
    SweepSpec file = sweep_of("rest", 1);
    file.out = out;
    file.steps = {step_of("main")};
    ASSERT_TRUE(sim.submit(file));
  }
  sim.run();
  Simulation after(store, clock);
  ASSERT_EQ(after.world.archived().size(), 2u);
  EXPECT_EQ(archived_by(after.world, {"rest@2/0"}), std::vector<SweepId>{{2}});
  EXPECT_EQ(archived_by(after.world, {"rest"}).size(), 2u);
  EXPECT_EQ(archived_by(after.world, {"test@2"}).size(), 0u);
}

}  // namespace
}  // namespace pergpu::testing
