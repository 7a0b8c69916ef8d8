// What a watcher of everything is shown, however long the queue is.
#include "server/overview.h"

#include <algorithm>

#include "simulation.h"

namespace pergpu::testing {
namespace {

struct OverviewTest : ::testing::Test {
  SweepSpec plain(const std::string& name, int runs, const std::string& exit = "0") {
    SweepSpec sweep = sweep_of(name, runs);
    sweep.steps.push_back(step_of("train", "1s", exit));
    return sweep;
  }
  int shown(JobState state) {
    int n = 0;
    for (const JobId id : overview.window()) n += sim.world.job(id)->state == state ? 1 : 0;
    return n;
  }
  bool shows(std::int64_t id) {
    const std::vector<JobId> window = overview.window();
    return std::find(window.begin(), window.end(), JobId{id}) != window.end();
  }

  MemoryStore store;
  SimClock clock;
  Simulation sim{store, clock};
  Overview overview{*sim.core};

  void SetUp() override {
    sim.on_change = [this](const std::vector<JobId>& jobs) { overview.changed(jobs); };
  }
};

TEST_F(OverviewTest, ShowsWhatIsLiveTheFirstThatWaitAndTheLastThatEnded) {
  EXPECT_TRUE(overview.window().empty());
  ASSERT_TRUE(sim.submit(plain("long", 500), {.lanes = 4}));
  EXPECT_EQ(shown(JobState::Queued), 200);
  EXPECT_EQ(overview.window().size(), 204u);
  EXPECT_TRUE(shows(204));
  EXPECT_FALSE(shows(205));
  sim.run([this] { return sim.count(JobState::Done) >= 250; });
  EXPECT_EQ(shown(JobState::Done), 200);
  EXPECT_EQ(shown(JobState::Queued), 200);
  EXPECT_FALSE(shows(1));
  EXPECT_TRUE(shows(250));
  sim.core->hold({JobId{490}, JobId{491}}, "held by hand");
  sim.turn();
  EXPECT_TRUE(shows(490) && shows(491));
  sim.run();
  EXPECT_TRUE(shows(500) && shows(499));
  EXPECT_EQ(overview.window().size(), 202u);
}

TEST_F(OverviewTest, AJobThatIsRepeatedIsShownOnce) {
  ASSERT_TRUE(sim.submit(plain("s", 3, "{x}"), {.lanes = 1}));
  overview.window();
  sim.run();
  EXPECT_EQ(shown(JobState::Failed), 2);
  sim.core->retry({JobId{2}});
  sim.turn();
  EXPECT_EQ(overview.window().size(), 3u);
  EXPECT_EQ(shown(JobState::Failed), 1);
  sim.run();
  EXPECT_EQ(overview.window().size(), 3u);
}

TEST_F(OverviewTest, WhatEndedBeforeTheFirstLookIsFound) {
  ASSERT_TRUE(sim.submit(plain("s", 300), {.lanes = 2}));
  sim.run();
  EXPECT_EQ(overview.window().size(), 200u);
  EXPECT_TRUE(shows(300));
  EXPECT_FALSE(shows(100));
}

TEST_F(OverviewTest, CountsAreThoseOfTheJobs) {
  ASSERT_TRUE(sim.submit(plain("first", 3, "{x}"), {.lanes = 1}));
  sim.run();
  ASSERT_TRUE(sim.submit(plain("second", 5), {.lanes = 2}));
  const Overview::Sweeps sweeps = overview.sweeps();
  ASSERT_EQ(sweeps.shown.size(), 2u);
  EXPECT_EQ(sweeps.shown[0].name, "second");
  EXPECT_EQ(sweeps.shown[0].lanes, 2);
  EXPECT_EQ(sweeps.shown[1].counts,
            (std::map<std::string, std::int64_t>{{"done", 1}, {"failed", 2}}));
  std::map<std::string, std::int64_t> counted;
  for (const Job& job : sim.world.jobs()) ++counted[std::string(to_string(job.state))];
  EXPECT_EQ(sweeps.counts, counted);
}

TEST_F(OverviewTest, OfManyEndedSweepsTheNewestAreShownAndOpenOnesFirst) {
  ASSERT_TRUE(sim.submit(plain("open", 2), {.lanes = 1}));
  sim.core->hold({JobId{2}}, "held by hand");
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(sim.submit(plain("s" + std::to_string(i), 1), {.lanes = 1}));
  }
  sim.run();
  const std::vector<SweepSummary> shown = overview.sweeps().shown;
  ASSERT_EQ(shown.size(), 1 + kMostEndedSweepsShown);
  EXPECT_EQ(shown[0].name, "open");
  EXPECT_EQ(shown[1].name, "s29");
}

}  // namespace
}  // namespace pergpu::testing
