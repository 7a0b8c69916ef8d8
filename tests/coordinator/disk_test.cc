// Sweeps whose disk is full or failing: what that costs, and that they go on.
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "simulation.h"

namespace pergpu::testing {
namespace {

SweepSpec work(const std::string& name, int runs) {
  SweepSpec sweep = sweep_of(name, runs);
  sweep.steps.push_back(step_of("main", "1s", "0"));
  sweep.steps[0].retries.max = 2;
  return sweep;
}

struct DiskTest : ::testing::Test {
  MemoryStore store;
  SimClock clock;
};

TEST_F(DiskTest, FailsForAWhileAndNoJobPaysForIt) {
  for (const int code : {ENOSPC, EDQUOT, EROFS, EIO, ESTALE}) {
    store.clear();
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(work("a", 300)));
    sim.run([&] { return sim.count(JobState::Done) >= 20; });
    sim.disk_errno = code;
    sim.run_for(3600 * kSecond);
    EXPECT_EQ(sim.count(JobState::Failed) + sim.count(JobState::Lost), 0) << code;
    EXPECT_LT(sim.refusals, 40) << code << ": the pauses between starts grow";
    EXPECT_GT(sim.refusals, 4) << code;
    sim.disk_errno = 0;
    sim.run_for(600 * kSecond);
    EXPECT_EQ(sim.count(JobState::Done), 300) << code;
    for (const Job& job : sim.world.jobs()) {
      EXPECT_EQ(job.retries_used + job.moves, 0) << job.id.value;
    }
  }
}

TEST_F(DiskTest, OneStartAtATimeTries) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(work("a", 50)));
  sim.disk_errno = ENOSPC;
  sim.run_for(kSecond / 10);
  const int at_first = sim.refusals;
  EXPECT_LE(at_first, 4) << "one for each lane";
  for (int i = 0; i < 5; ++i) {
    const int before = sim.refusals;
    sim.run([&] { return sim.refusals > before; });
    EXPECT_EQ(sim.refusals, before + 1);
    EXPECT_EQ(sim.core->live_count(), 0u);
  }
}

TEST_F(DiskTest, AFolderOfOneJobKeepsThatJobOnly) {
  const SpawnFailure of_reading{"chdir", ENOTCONN, "/net/dead"};
  const SpawnFailure of_writing{"mkdir", EUCLEAN, "/data/out/a/runs/2"};
  for (const SpawnFailure& failure : {of_reading, of_writing}) {
    store.clear();
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(work("a", 40)));
    for (const std::int64_t job : {1, 3, 20}) sim.bad[{job}] = failure;
    sim.run_for(120 * kSecond);
    EXPECT_EQ(sim.count(JobState::Done), 37) << failure.phase;
    EXPECT_LT(sim.refusals, 20) << failure.phase << ": they are tried less and less often";
    EXPECT_NE(sim.core->why(sim.job(3)).find("this job can't start: " + failure.phase),
              std::string::npos)
        << sim.core->why(sim.job(3));
    sim.bad.erase({20});
    sim.run_for(1800 * kSecond);
    EXPECT_EQ(sim.count(JobState::Done), 38) << "each has its own trial";
    sim.bad.clear();
    sim.run();
    EXPECT_EQ(sim.count(JobState::Done), 40);
    EXPECT_TRUE(sim.core->storage_waits().empty());
    for (const Job& job : sim.world.jobs()) EXPECT_EQ(job.retries_used + job.moves, 0);
  }
}

TEST_F(DiskTest, AStepWhoseProgramFailsKeepsNoOtherStep) {
  Simulation sim(store, clock);
  SweepSpec sweep = work("a", 20);
  sweep.steps.push_back(step_of("other", "1s", "0"));
  ASSERT_TRUE(sim.submit(std::move(sweep)));
  for (const Job& job : sim.world.jobs()) {
    if (job.step == 0) sim.bad[job.id] = {"exec", EIO, "/net/train"};
  }
  sim.run_for(300 * kSecond);
  EXPECT_EQ(sim.count(JobState::Done), 20);
  EXPECT_LT(sim.refusals, 20);
  sim.bad.clear();
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 40);
}

TEST_F(DiskTest, ASweepOnABadDiskKeepsNoOtherSweep) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(work("a", 20)));
  ASSERT_TRUE(sim.submit(work("b", 20)));
  for (std::int64_t job = 1; job <= 20; ++job) sim.bad[{job}] = {"mkdir", EROFS, "/data/out/a"};
  sim.run_for(60 * kSecond);
  EXPECT_EQ(sim.count(JobState::Done), 20);
  EXPECT_EQ(sim.core->why(sim.job(40)).find("/data/out/a"), std::string::npos);
}

TEST_F(DiskTest, JobsThatWaitForADiskCanBeHeldAndReleased) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(work("a", 6)));
  for (const std::int64_t job : {1, 2, 3}) sim.bad[{job}] = {"chdir", EIO, "/net/dead"};
  sim.run_for(20 * kSecond);
  sim.core->hold({{1}}, "");
  sim.core->cancel({{2}}, false, "enough");
  sim.bad.clear();
  sim.run_for(600 * kSecond);
  EXPECT_EQ(sim.count(JobState::Done), 4);
  sim.core->release({{1}});
  sim.core->retry({{2}});
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 6);
}

TEST_F(DiskTest, SaysWhichFolderSinceWhenAndWhatToDo) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(work("a", 9)));
  sim.disk_errno = ENOSPC;
  sim.run_for(kSecond);
  const std::string why = sim.core->why(sim.job(7));
  for (const char* words : {"since ", "mkdir /data/out/a: No space left on device",
                            "df -h /data/out/a", "pergpu keeps trying"}) {
    EXPECT_NE(why.find(words), std::string::npos) << why;
  }
  sim.disk_errno = 0;
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 9);
}

TEST_F(DiskTest, ChannelsAreToldOfOneThatLasts) {
  Simulation sim(store, clock);
  SweepSpec sweep = work("a", 9);
  NotifySpec notify;
  notify.slack = "$SLACK";
  sweep.notify.push_back(notify);
  ASSERT_TRUE(sim.submit(std::move(sweep)));
  sim.disk_errno = EROFS;
  sim.run_for(8 * kSecond);
  EXPECT_TRUE(sim.deliveries.empty());
  sim.run_for(8 * kSecond);
  ASSERT_EQ(sim.deliveries.size(), 1u);
  const auto notice = nlohmann::json::parse(sim.deliveries[0].request.text).at("notice");
  EXPECT_EQ(notice.at("events"), nlohmann::json::array({"outage"}));
  EXPECT_NE(notice.at("outage").get<std::string>().find("Read-only file system"),
            std::string::npos);
}

TEST_F(DiskTest, CancelledJobsOfAnOutageLeaveNothingPaused) {
  Simulation sim(store, clock);
  ASSERT_TRUE(sim.submit(work("a", 9)));
  sim.disk_errno = EIO;
  sim.run_for(kSecond);
  std::vector<JobId> all;
  for (const Job& job : sim.world.jobs()) all.push_back(job.id);
  sim.core->cancel(all, false, "enough");
  sim.run_for(kSecond);
  sim.disk_errno = 0;
  EXPECT_TRUE(sim.core->storage_waits().empty());
  sim.core->retry(all);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 9);
}

TEST_F(DiskTest, ARestartMeanwhileChangesNothing) {
  {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(work("a", 30)));
    sim.disk_errno = EIO;
    sim.run_for(60 * kSecond);
  }
  Simulation sim(store, clock);
  sim.run();
  EXPECT_EQ(sim.count(JobState::Done), 30);
  for (const Job& job : sim.world.jobs()) EXPECT_EQ(job.retries_used + job.moves, 0);
}

}  // namespace
}  // namespace pergpu::testing
