// What is to end although its keeper does not see to it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "run/local_rig.h"

namespace pergpu {
namespace {

class LocalStopTest : public LocalEngineTest {
 protected:
  /// As when the run folder goes for good: sockets and records move to another.
  void move_run_folder(KeeperId keeper) {
    run_name_ = "moved";
    make_run_dir();
    engine_->restore_files(run_dir());
    EXPECT_TRUE(until(
        [&] { return std::filesystem::exists(keeper::record_path(run_dir(), keeper.value)); }));
  }
  /// It writes its pid to `name` when it is there.
  std::string marked(const std::string& name, const std::string& command) const {
    return "echo $$ > " + name + ".new; mv " + name + ".new " + name + "; " + command;
  }
  pid_t pid_in(const std::string& name) {
    EXPECT_TRUE(until([&] { return !slurp(folder_ + "/" + name).empty(); }));
    return std::stoi("0" + slurp(folder_ + "/" + name));
  }
};

TEST_F(LocalStopTest, StoppedKeeperGoesOnWhenItsAttemptIsStopped) {
  run_on(kLane, shell(kFirst, "trap 'exit 3' TERM; : > ready; while :; do sleep 0.01; done"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  ASSERT_TRUE(until([&] { return ::access((folder_ + "/ready").c_str(), F_OK) == 0; }));
  ASSERT_EQ(::kill(keeper_of(started), SIGSTOP), 0);
  engine_->stop(kFirst, StopHow::TermThenKill);
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 3) << "it had its SIGTERM";
}

TEST_F(LocalStopTest, StoppedKeeperTellsOfAnEndThatNobodyAskedFor) {
  run_on(kLane, shell(kFirst, "kill -STOP $PPID; exit 7"));
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
}

TEST_F(LocalStopTest, KeeperThatDoesNotAnswerIsEndedWithAllThatIsBelowIt) {
  // The child has no mark of its attempt: no environment, another session, no log.
  const std::string child = marked("child", "exec env -i sleep 1000");
  AttemptPlan job =
      shell(kFirst, "setsid env -i PATH=$PATH sh -c '" + child + "' </dev/null >/dev/null 2>&1 & " +
                        marked("first", "exec sleep 1000"));
  const std::string leased = folder_ + "/lease";
  os::UniqueFd lease(::open(leased.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lease.get(), LOCK_EX), 0);
  job.lease_fds = {lease.get()};
  run_on(kLane, job);
  const auto started = wait_for<engine_event::Started>(kFirst);
  const pid_t below = pid_in("child");
  const pid_t keeper = keeper_of(started);
  seize(keeper);
  const std::int64_t asked = clock_.now().boot_ns;
  engine_->stop(kFirst, StopHow::Kill);
  const auto lost = wait_for<engine_event::Lost>(kFirst);
  EXPECT_TRUE(lost.proven_gone);
  EXPECT_EQ(lost.why, "its keeper didn't respond, so pergpu ended it and the job");
  EXPECT_LT(clock_.now().boot_ns - asked, 5'000'000'000);
  EXPECT_TRUE(gone(started.pid));
  EXPECT_TRUE(gone(below));
  EXPECT_TRUE(gone(keeper));
  lease.reset();
  const os::UniqueFd again(::open(leased.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(::flock(again.get(), LOCK_EX | LOCK_NB), 0) << "the lease is free";
  engine_->acknowledge(kFirst, "", "");
  const AttemptId next = {kFirst.job, 2};  // in the same folder
  run_on(kLane, shell(next, "exit 0"));
  EXPECT_EQ(wait_for<engine_event::Exited>(next).exit_code, 0);
}

TEST_F(LocalStopTest, AttemptThatDoesNotGoWhileItsGraceLastsIsLeftToItsKeeper) {
  AttemptPlan job = shell(kFirst, "trap '' TERM; : > ready; while :; do sleep 0.01; done");
  job.grace = std::chrono::milliseconds(1500);
  run_on(kLane, job);
  wait_for<engine_event::Started>(kFirst);
  ASSERT_TRUE(until([&] { return ::access((folder_ + "/ready").c_str(), F_OK) == 0; }));
  const std::int64_t asked = clock_.now().boot_ns;
  engine_->stop(kFirst, StopHow::TermThenKill);
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).signal, SIGKILL);
  EXPECT_GE(clock_.now().boot_ns - asked, 1'500'000'000);
}

TEST_F(LocalStopTest, KeeperThatNeverAnsweredTheNextCoordinatorIsEndedByItsStop) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  const pid_t pid = keeper_of(started);
  kill_coordinator();
  seize(pid);
  open_engine();
  engine_->adopt({expected(kFirst, keeper, started)});
  engine_->stop(kFirst, StopHow::Kill);
  const auto lost = wait_for<engine_event::Lost>(kFirst);
  EXPECT_EQ(lost.why, "its keeper didn't respond, so pergpu ended it and the job");
  EXPECT_TRUE(gone(started.pid));
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
}

TEST_F(LocalStopTest, StoppedKeeperOfACoordinatorBeforeGoesOnAndIsAdopted) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  ASSERT_EQ(::kill(keeper_of(started), SIGSTOP), 0);
  open_engine();
  engine_->adopt({expected(kFirst, keeper, started)});
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, started.pid);
}

TEST_F(LocalStopTest, KeeperThatDoesNotAnswerIsEndedWhereverItsFilesAre) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  move_run_folder(keeper);
  seize(keeper_of(started));
  engine_->stop(kFirst, StopHow::Kill);
  EXPECT_EQ(wait_for<engine_event::Lost>(kFirst).why,
            "its keeper didn't respond, so pergpu ended it and the job");
  EXPECT_TRUE(gone(started.pid));
}

TEST_F(LocalStopTest, StoppedKeeperGoesOnWhereverItsFilesAre) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  move_run_folder(keeper);
  kill_coordinator();
  ASSERT_EQ(::kill(keeper_of(started), SIGSTOP), 0);
  open_engine();
  engine_->adopt({expected(kFirst, keeper, started)});
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, started.pid);
}

TEST_F(LocalStopTest, StoppedKeeperWithoutASocketGoesOnAndMakesIt) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  ASSERT_EQ(::kill(keeper_of(started), SIGSTOP), 0);
  kill_coordinator();
  std::filesystem::remove(keeper::socket_path(run_dir(), keeper.value));
  open_engine();
  engine_->adopt({expected(kFirst, keeper, started)});
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, started.pid);
}

TEST_F(LocalStopTest, KeeperThatAHelperDidNotFindIsEndedByTheNext) {
  keeper_program_ = folder_ + "/keeper";
  std::ofstream(keeper_program_) << "#!/bin/sh\n"
                                 << "if [ \"$1\" = --end-keeper ] && mkdir " << folder_
                                 << "/once 2>/dev/null; then exit 0; fi\n"
                                 << "exec " PERGPU_BINARY_DIR "/pergpu-keeper \"$@\"\n";
  std::filesystem::permissions(keeper_program_, std::filesystem::perms::owner_all);
  engine_.reset();
  open_engine();
  run_on(kLane, shell(kFirst, "exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  seize(keeper_of(started));
  engine_->stop(kFirst, StopHow::Kill);
  EXPECT_EQ(wait_for<engine_event::Lost>(kFirst).why,
            "its keeper didn't respond, so pergpu ended it and the job");
  EXPECT_TRUE(gone(started.pid));
}

TEST_F(LocalStopTest, KeeperThatAnswersAndCannotEndItsAttemptStays) {
  // Its first process is traced by us: killed, it stays for its keeper to wait for.
  run_on(kLane, shell(kFirst, "exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  const pid_t keeper = keeper_of(started);
  seize(started.pid);
  engine_->stop(kFirst, StopHow::Kill);
  const auto resists = wait_for<engine_event::Notified>(kFirst);
  EXPECT_NE(resists.line.find("is tracing it"), std::string::npos) << resists.line;
  EXPECT_FALSE(gone(keeper));
  (void)::waitpid(started.pid, nullptr, __WALL);
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).signal, SIGKILL);
}

}  // namespace
}  // namespace pergpu
