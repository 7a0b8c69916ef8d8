#include "os/process/process_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "os/process/child.h"
#include "os/process/proc.h"
#include "os/process/spawn.h"

namespace pergpu::os {
namespace {

/// This program becomes the sub-reaper of what a test starts, as a keeper is.
class ProcessTree : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0, 0, 0), 0);
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
  }
  void TearDown() override {
    end_all();
    ::prctl(PR_SET_CHILD_SUBREAPER, 0UL, 0, 0, 0);
    std::filesystem::remove_all(folder_);
  }

  /// Starts `script`; its processes say "x" on descriptor 5 when they are ready.  `log_fd`: where
  /// both outputs go, as a job's do: while a shell's own printf writes to 5, only one of them does.
  Spawned start(const std::string& script, const std::string& marker, int log_fd = -1,
                const std::vector<std::string>& words = {}) {
    SpawnPlan plan;
    plan.argv = {"/bin/sh", "-c", script};
    plan.argv.insert(plan.argv.end(), words.begin(), words.end());
    plan.env = {"PATH=/usr/bin:/bin", "PERGPU_ATTEMPT_ID=" + marker};
    plan.fds = {{.fd = writer_.get(), .as = 5}};
    plan.stdout_fd = log_fd;
    plan.stderr_fd = log_fd;
    plan.new_session = true;
    SpawnResult result = spawn(plan);
    EXPECT_TRUE(std::holds_alternative<Spawned>(result));
    return std::get<Spawned>(std::move(result));
  }
  void wait_ready(int processes) const {
    char byte = 0;
    for (int i = 0; i < processes; ++i) ASSERT_EQ(::read(reader_.get(), &byte, 1), 1);
  }
  /// Kills what is left and waits for all of it.
  static int end_all() {
    int ended = 0;
    for (;;) {
      kill_descendants();
      ReapResult reaped = reap_any();
      while (reaped.child) {
        ++ended;
        reaped = reap_any();
      }
      if (!reaped.any_left) return ended;
      ::usleep(1000);
    }
  }
  static std::uint64_t ticks_of(pid_t pid) {
    return read_stat(pid).value_or(ProcStat{}).start_ticks;
  }

  std::string folder_;
  UniqueFd reader_;
  UniqueFd writer_;
};

// Three processes that ignore TERM: one in the session, one in a session of its own, one
// double-forked.
constexpr char kAwkward[] =
    "trap '' TERM; (trap '' TERM; printf x >&5; while :; do sleep 1000; done) & "
    "(setsid sh -c 'trap \"\" TERM; printf x >&5; while :; do sleep 1000; done' &); "
    "printf x >&5; while :; do sleep 1000; done";

TEST_F(ProcessTree, DescendantsAreFoundWhateverTheirSession) {
  start(kAwkward, "m");
  wait_ready(3);
  EXPECT_GE(descendants_of(::getpid()).size(), 3u);
}

TEST_F(ProcessTree, NothingSurvivesKillDescendants) {
  start(kAwkward, "m");
  wait_ready(3);
  EXPECT_GE(end_all(), 3);
  EXPECT_TRUE(descendants_of(::getpid()).empty());
}

TEST_F(ProcessTree, StoppedProcessesAreEndedToo) {
  const Spawned child = start("printf x >&5; kill -STOP $$", "m");
  wait_ready(1);
  while (read_stat(child.pid).value_or(ProcStat{}).state != 'T') ::usleep(1000);
  EXPECT_EQ(end_all(), 1);
}

/// Tests run side by side: each looks for processes of its own.
std::string own_marker() { return "test" + std::to_string(::getpid()) + "/1.1"; }
std::string other_marker() { return "test" + std::to_string(::getpid()) + "/2.1"; }

TEST_F(ProcessTree, MarkedProcessesAreFoundWithoutTheirFirstOne) {
  const Spawned child = start(
      "(setsid sh -c 'printf x >&5; exec sleep 1000' &); (sh -c 'printf x >&5; exec sleep 1000' "
      "&); "
      "printf x >&5",
      own_marker());
  const std::uint64_t ticks = ticks_of(child.pid);
  wait_ready(3);
  ASSERT_TRUE(wait_for(child.pid));
  EXPECT_EQ(find_tree({.marker = own_marker()}).size(), 2u);
  EXPECT_EQ(find_tree({.pid = child.pid, .start_ticks = ticks, .marker = own_marker()}).size(), 2u);
  EXPECT_TRUE(find_tree({.marker = own_marker() + "1"}).empty());
  EXPECT_EQ(kill_tree({.marker = own_marker()}).size(), 2u);
}

TEST_F(ProcessTree, ProcessThatClearedItsEnvironmentIsFoundByItsLog) {
  const std::string log = folder_ + "/log.txt";
  const UniqueFd fd(::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Spawned child = start("(setsid env -i /bin/sh -c 'printf x >&5; exec /bin/sleep 1000' &)",
                              own_marker(), fd.get());
  wait_ready(1);
  ASSERT_TRUE(wait_for(child.pid));
  EXPECT_TRUE(find_tree({.marker = own_marker()}).empty());
  EXPECT_EQ(find_tree({.marker = own_marker(), .log_path = log}).size(), 1u);
}

TEST_F(ProcessTree, ReusedPidIsNotTheTree) {
  const Spawned child = start("printf x >&5; exec sleep 1000", own_marker());
  wait_ready(1);
  const std::uint64_t ticks = ticks_of(child.pid);
  EXPECT_EQ(find_tree({.pid = child.pid, .start_ticks = ticks}).size(), 1u);
  EXPECT_TRUE(find_tree({.pid = child.pid, .start_ticks = ticks - 1}).empty());
}

TEST_F(ProcessTree, SessionMemberOfAnotherAttemptIsSpared) {
  // A job that starts pergpu jobs of its own hands its session on; the mark decides.
  const Spawned child = start("PERGPU_ATTEMPT_ID=" + other_marker() +
                                  " /bin/sh -c 'printf x >&5; exec sleep 1000' & printf x >&5",
                              own_marker());
  const std::uint64_t ticks = ticks_of(child.pid);
  wait_ready(2);
  ASSERT_TRUE(wait_for(child.pid));
  EXPECT_TRUE(find_tree({.pid = child.pid, .start_ticks = ticks, .marker = own_marker()}).empty());
  EXPECT_EQ(find_tree({.marker = other_marker()}).size(), 1u);
}

/// What the command line of a keeper of this home looks like.
std::vector<std::string> keeper_of(const std::string& home) {
  return {"pergpu-keeper", "--listen-fd", "3", "--home", home};
}
std::string own_home() { return "test" + std::to_string(::getpid()); }

// The next attempt of a job writes the same log.  It may have no readable mark: its environment is
// cleared, or is still its keeper's.
TEST_F(ProcessTree, WriterOfTheLogBelowALivingKeeperIsSpared) {
  const std::string log = folder_ + "/log.txt";
  const UniqueFd fd(::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Spawned keeper =
      start("env -i /bin/sh -c 'printf x >&5; exec /bin/sleep 1000' & printf x >&5; wait",
            other_marker(), fd.get(), keeper_of(own_home()));
  wait_ready(2);
  EXPECT_TRUE(find_tree({.marker = own_marker(), .log_path = log}).empty());
  EXPECT_TRUE(kill_tree({.marker = own_marker(), .log_path = log}).empty());
  EXPECT_FALSE(has_ended(keeper.pidfd));
  // The keeper of another home vouches for nothing here.
  EXPECT_EQ(find_tree({.marker = "elsewhere/1.1", .log_path = log}).size(), 1u);
}

TEST_F(ProcessTree, AttemptWhoseKeeperLivesIsThereAndNotHit) {
  const Spawned keeper =
      start("PERGPU_ATTEMPT_ID=" + own_marker() +
                " /bin/sh -c 'printf x >&5; exec /bin/sleep 1000' & printf x >&5; wait",
            other_marker(), -1, keeper_of(own_home()));
  wait_ready(2);
  const std::vector<TreeMember> found = kill_tree({.marker = own_marker()});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].spared, "has a running keeper");
  EXPECT_TRUE(is_alive(found[0].pid, found[0].start_ticks));
  EXPECT_NE(read_stat(found[0].pid)->state, 'T');
  // Without its keeper it is an orphan.
  ASSERT_TRUE(send_signal(keeper.pidfd, SIGKILL));
  ASSERT_TRUE(wait_for(keeper.pid));
  EXPECT_EQ(kill_tree({.marker = own_marker()}).at(0).spared, "");
  ASSERT_TRUE(wait_for(found[0].pid));
}

TEST(Proc, EnvironmentIsToldFromOneThatIsNotSetUp) {
  EXPECT_TRUE(has_environment(::getpid()));
  SpawnPlan plan;
  plan.argv = {"/bin/true"};  // with no environment at all
  SpawnResult result = spawn(plan);
  ASSERT_TRUE(std::holds_alternative<Spawned>(result));
  const pid_t pid = std::get<Spawned>(result).pid;
  while (!has_ended(std::get<Spawned>(result).pidfd)) ::usleep(1000);
  EXPECT_FALSE(has_environment(pid));  // it has ended
  EXPECT_TRUE(wait_for(pid));

  const std::string fields =
      "7 (a) b) R 1 7 7 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 177358 31 4 "
      "18446744073709551615 1 2 3 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 4 5 6 7 8 ";
  EXPECT_EQ(environment_in(fields + "90 100 0"), std::make_pair(90ul, 100ul));
  EXPECT_EQ(environment_in(fields + "0 0 0"), std::make_pair(0ul, 0ul));
  EXPECT_EQ(environment_in("7 (a)"), std::make_pair(0ul, 0ul));
}

TEST(Proc, KernelThreadsAreTold) {
  EXPECT_TRUE(stat_in(9, "9 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0")
                  ->is_kernel_thread);
  EXPECT_FALSE(
      stat_in(9, "9 (sh) S 1 9 9 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 5 0")->is_kernel_thread);
  EXPECT_FALSE(read_stat(::getpid())->is_kernel_thread);
}

TEST(Proc, OwnStatIsRead) {
  const std::optional<ProcStat> self = read_stat(::getpid());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_EQ(self->session, ::getsid(0));
  EXPECT_GT(self->start_ticks, 0u);
  EXPECT_TRUE(is_alive(::getpid(), self->start_ticks));
  EXPECT_FALSE(is_alive(::getpid(), self->start_ticks + 1));
  EXPECT_FALSE(read_stat(-1));
}

TEST(Proc, NameWithParenthesesDoesNotConfuse) {
  char before[16] = {};
  ::prctl(PR_GET_NAME, before, 0, 0, 0);
  ::prctl(PR_SET_NAME, ") Z 1 (", 0, 0, 0);
  const std::optional<ProcStat> self = read_stat(::getpid());
  ::prctl(PR_SET_NAME, before, 0, 0, 0);
  ASSERT_TRUE(self);
  EXPECT_EQ(self->name, ") Z 1 (");
  EXPECT_EQ(self->parent, ::getppid());
}

TEST(Proc, ZombieCountsAsEnded) {
  SpawnPlan plan;
  plan.argv = {"/bin/true"};
  SpawnResult result = spawn(plan);
  ASSERT_TRUE(std::holds_alternative<Spawned>(result));
  const pid_t pid = std::get<Spawned>(result).pid;
  while (!has_ended(std::get<Spawned>(result).pidfd)) ::usleep(1000);
  const std::optional<ProcStat> stat = read_stat(pid);
  ASSERT_TRUE(stat);
  EXPECT_TRUE(stat->ended());
  EXPECT_FALSE(is_alive(pid, stat->start_ticks));
  EXPECT_TRUE(wait_for(pid));
}

TEST(Proc, MemoryOfThisProcessIsPlausible) {
  const std::uint64_t resident = resident_bytes(::getpid());
  EXPECT_GT(resident, 100'000u);
  EXPECT_GT(proportional_bytes(::getpid()), 10'000u);
  EXPECT_EQ(resident_bytes(-1), 0u);
}

}  // namespace
}  // namespace pergpu::os
