// The local engine with real keepers and real processes.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "run/local_rig.h"
#include "sanitizer.h"

namespace pergpu {
namespace {

TEST_F(LocalEngineTest, AttemptRunsToItsEnd) {
  AttemptPlan job = shell(kFirst, "echo hello; exit 7");
  job.folder.files = {
      {.path = out(kFirst) + "/config.json", .content = "{}", .keep_if_same = true}};
  run_on(kLane, job);
  EXPECT_GT(wait_for<engine_event::Started>(kFirst).pid, 0);
  const auto exited = wait_for<engine_event::Exited>(kFirst);
  EXPECT_EQ(exited.exit_code, 7);
  EXPECT_GT(exited.exited_at.boot_ns, 0);
  EXPECT_EQ(slurp(out(kFirst) + "/log.txt"), "hello\n");
  EXPECT_EQ(slurp(out(kFirst) + "/config.json"), "{}");
  EXPECT_EQ(events_.size(), 2u);
}

TEST_F(LocalEngineTest, AcknowledgeWritesTheFinalRecord) {
  run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, out(kFirst) + "/attempt.json", "the end");
  EXPECT_TRUE(until([&] { return slurp(out(kFirst) + "/attempt.json") == "the end"; }));
}

TEST_F(LocalEngineTest, NextAttemptOfALaneUsesTheSameKeeper) {
  const KeeperId first = run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, "", "");
  const KeeperId second = run_on(kLane, shell(kSecond, "exit 0"));
  wait_for<engine_event::Exited>(kSecond);
  EXPECT_EQ(first, second);
  EXPECT_EQ(engine_->keeper_pids().size(), 1u);
}

TEST_F(LocalEngineTest, LanesRunBesideEachOther) {
  const KeeperId first = run_on(kLane, shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done"));
  const KeeperId second = run_on(kOtherLane, shell(kSecond, "touch go"));
  EXPECT_NE(first, second);
  wait_for<engine_event::Exited>(kFirst);
  wait_for<engine_event::Exited>(kSecond);
}

TEST_F(LocalEngineTest, StartThatFailsIsReportedWithItsPhase) {
  run_on(kLane, plan(kFirst, {"no-such-program"}));
  const auto failed = wait_for<engine_event::SpawnFailed>(kFirst);
  EXPECT_EQ(failed.phase, "program");
  EXPECT_EQ(failed.os_errno, ENOENT);
  EXPECT_EQ(failed.object,
            "command not found: no-such-program (not in the PATH you submitted with)");
  engine_->acknowledge(kFirst, "", "");
  run_on(kLane, shell(kSecond, "exit 0"));  // the lane is usable
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 0);
}

TEST_F(LocalEngineTest, StopEndsIt) {
  run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  wait_for<engine_event::Started>(kFirst);
  engine_->stop(kFirst, StopHow::TermThenKill);
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).signal, SIGTERM);
}

TEST_F(LocalEngineTest, KeeperThatCannotBeConnectedToIsNotLeftBehind) {
#ifdef HAS_SANITIZER
  GTEST_SKIP() << "it opens pipes of its own to look at objects, and takes one that it cannot look "
                  "at for a broken one";
#endif
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  std::int32_t slot = 10;
  for (rlim_t spare = 0; spare < 12; ++spare) {
    const int next = ::dup(0);
    ::close(next);
    const rlimit few = {.rlim_cur = static_cast<rlim_t>(next) + spare, .rlim_max = limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    (void)engine_->assign({.slot = ++slot});
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  std::vector<pid_t> keepers;
  for (const pid_t child : os::children_of(::getpid())) {
    if (os::link_of(child, "exe").find("pergpu-keeper") != std::string::npos)
      keepers.push_back(child);
  }
  std::vector<std::int32_t> known = engine_->keeper_pids();
  std::sort(known.begin(), known.end());
  std::sort(keepers.begin(), keepers.end());
  EXPECT_EQ(keepers, known);
  EXPECT_TRUE(engine_->assign(kLane));
}

TEST_F(LocalEngineTest, WhatAKeeperRefusesIsAnUnchargedLoss) {
  AttemptId last = {};
  for (std::int64_t job = 1; job <= 16; ++job) {  // it keeps so many outcomes
    last = {{job}, 1};
    run_on(kLane, shell(last, "exit 0"));
    wait_for<engine_event::Exited>(last);
  }
  last = {{17}, 1};
  run_on(kLane, shell(last, "exit 0"));
  EXPECT_TRUE(wait_for<engine_event::Lost>(last).proven_gone);
}

TEST_F(LocalEngineTest, KeeperOfAStartThatDoesNotComeIsFreeAgain) {
  const KeeperId keeper = engine_->assign(kLane);
  EXPECT_NE(engine_->assign(kOtherLane), keeper);
  engine_->unassign(kLane);
  EXPECT_EQ(engine_->assign({.slot = 7}), keeper);
}

TEST_F(LocalEngineTest, OneKeeperIsThereWithoutAnyAttempt) {
  engine_->adopt({});  // it is what starts the next coordinator when this one is killed
  EXPECT_TRUE(until([&] { return engine_->keeper_pids().size() == 1; }));
}

TEST_F(LocalEngineTest, ReleaseEndsKeepersThatHoldNothing) {
  run_on(kLane, shell(kFirst, "exit 0"));
  run_on(kOtherLane, plan(kSecond, {"sleep", "1000"}));
  wait_for<engine_event::Exited>(kFirst);
  wait_for<engine_event::Started>(kSecond);
  engine_->acknowledge(kFirst, "", "");
  remember_keepers();
  const std::vector<std::int32_t> keepers = engine_->keeper_pids();
  ASSERT_EQ(keepers.size(), 2u);
  engine_->release(false);
  EXPECT_TRUE(until([&] { return gone(keepers[0]); }));
  EXPECT_FALSE(gone(keepers[1]));
}

TEST_F(LocalEngineTest, MissingKeeperProgramIsAFailedStart) {
  engine_ = std::make_unique<LocalEngine>(
      *loop_, clock_,
      LocalEngine::Config{.run_dir = run_dir(),
                          .keeper_program = folder_ + "/no-keeper",
                          .pergpu_program = "",
                          .home = folder_,
                          .boot_id = "",
                          .on_event = [this](const EngineEvent& e) { events_.push_back(e); }});
  EXPECT_FALSE(engine_->assign(kLane));
  engine_->start(kLane, shell(kFirst, "exit 0"));
  EXPECT_EQ(wait_for<engine_event::SpawnFailed>(kFirst).phase, "keeper");
}

TEST_F(LocalEngineTest, HundredAttemptsOnEightLanesEachEndOnce) {
  std::vector<LaneId> free;
  for (std::int32_t slot = 0; slot < 8; ++slot) free.push_back({.slot = slot});
  std::map<AttemptId, LaneId> lane_of;
  std::int64_t started = 0;
  std::size_t seen = 0;
  const auto fill = [&] {
    for (; seen < events_.size(); ++seen) {
      const auto* exited = std::get_if<engine_event::Exited>(&events_[seen]);
      if (exited == nullptr) continue;
      free.push_back(lane_of.at(exited->id));
      engine_->acknowledge(exited->id, "", "");
    }
    for (; started < 100 && !free.empty(); free.pop_back()) {
      const AttemptId id = {{++started}, 1};
      lane_of[id] = free.back();
      run_on(free.back(), shell(id, "exit " + std::to_string(id.job.value)));
    }
    return count<engine_event::Exited>() == 100;
  };
  EXPECT_TRUE(until(fill));
  EXPECT_EQ(engine_->keeper_pids().size(), 8u);
  for (const auto& [id, lane] : lane_of)
    EXPECT_EQ(find<engine_event::Exited>(id)->exit_code, id.job.value);
}

}  // namespace
}  // namespace pergpu
