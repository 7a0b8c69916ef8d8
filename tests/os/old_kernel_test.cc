// Promises of spawning and of handles hold where the kernel lacks the calls that they are built on.
// What a real one lacks is in tests/e2e/test_old_kernels.py.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "fixture.h"
#include "os/kernel.h"
#include "os/process/child.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"
#include "os/test_hooks.h"

namespace pergpu::os {
namespace {

constexpr std::array kNewCalls = {KernelCall::PidfdSendSignal, KernelCall::PidfdOpen,
                                  KernelCall::OpenAt2, KernelCall::CloneIntoGroup,
                                  KernelCall::CloseRange};

class OldKernel : public testing::Test {
 protected:
  void SetUp() override {
    for (const KernelCall call : kNewCalls) pretend_missing(call, true);
  }
  void TearDown() override {
    for (const KernelCall call : kNewCalls) pretend_missing(call, false);
  }

  static SpawnPlan shell(const std::string& script) {
    SpawnPlan plan;
    plan.argv = {"/bin/sh", "-c", script};
    plan.env = {"PATH=/usr/bin:/bin"};
    return plan;
  }
  static Spawned start(const SpawnPlan& plan) {
    SpawnResult result = spawn(plan);
    if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
      ADD_FAILURE() << failure->phase << " " << failure->object;
      return {};
    }
    return std::get<Spawned>(std::move(result));
  }
  /// Only the handle is waited for.
  static bool becomes_readable(const UniqueFd& handle) {
    pollfd p = {.fd = handle.get(), .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, 30'000) == 1;
  }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  TempDir dir_;
};

TEST_F(OldKernel, IsToldByNameAndVersion) {
  const std::vector<KernelCall> missing = missing_kernel_calls();
  for (const KernelCall call : kNewCalls) {
    EXPECT_NE(std::ranges::find(missing, call), missing.end());
    EXPECT_FALSE(facts_of(call).name.empty());
    EXPECT_FALSE(facts_of(call).since.empty());
  }
  EXPECT_FALSE(kernel_has_pidfds());
}

TEST_F(OldKernel, HandleTellsTheEndOfAChildBeforeItIsReaped) {
  const Spawned child = start(shell("exec sleep 1000"));
  ASSERT_TRUE(child.pidfd);
  EXPECT_FALSE(has_ended(child.pidfd));
  EXPECT_TRUE(send_signal(child.pidfd, SIGTERM));
  ASSERT_TRUE(becomes_readable(child.pidfd));
  EXPECT_TRUE(has_ended(child.pidfd));
  const std::optional<Reaped> reaped = reap(child.pid);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, ExitStatus(Signaled{SIGTERM, false}));
}

TEST_F(OldKernel, SignalAfterTheReapReachesNobody) {
  const Spawned child = start(shell("exit 0"));
  const std::optional<ProcStat> stat = read_stat(child.pid);
  ASSERT_TRUE(stat);
  ASSERT_TRUE(wait_for(child.pid));
  for (const Result<void>& sent :
       {send_signal(child.pidfd, SIGKILL), send_signal(child.pid, stat->start_ticks, SIGKILL)}) {
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().kind, ErrorKind::NotFound);
  }
}

/// A number that was given away: told by the start time.
TEST_F(OldKernel, SignalGoesToTheProcessOfThisStartTimeOnly) {
  const Spawned child = start(shell("exec sleep 1000"));
  const std::optional<ProcStat> stat = read_stat(child.pid);
  ASSERT_TRUE(stat);
  EXPECT_FALSE(send_signal(child.pid, stat->start_ticks - 1, SIGKILL));
  EXPECT_FALSE(has_ended(child.pidfd));
  EXPECT_TRUE(send_signal(child.pid, stat->start_ticks, SIGKILL));
  EXPECT_TRUE(wait_for(child.pid));
}

TEST_F(OldKernel, HandleOfAProcessThatIsNoChild) {
  const Result<UniqueFd> own = open_handle(::getpid());
  ASSERT_TRUE(own);
  EXPECT_FALSE(has_ended(*own));
  EXPECT_TRUE(send_signal(*own, 0));
  const Spawned child = start(shell("exec sleep 1000"));
  const Result<UniqueFd> handle = open_handle(child.pid);
  ASSERT_TRUE(handle);
  EXPECT_TRUE(send_signal(*handle, SIGKILL));
  EXPECT_TRUE(becomes_readable(*handle));
  EXPECT_TRUE(wait_for(child.pid));
  const Result<UniqueFd> none = open_handle(child.pid);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::NotFound);
}

TEST_F(OldKernel, ProgramHasTheDescriptorsOfThePlanAndNoOther) {
  std::vector<UniqueFd> others;
  for (int i = 0; i < 300; ++i) others.emplace_back(::open("/dev/null", O_RDONLY));  // inheritable
  SpawnPlan plan;
  const std::string path = dir_ / "fds";
  const UniqueFd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  plan.argv = {"/bin/ls", "/proc/self/fd"};
  plan.stdout_fd = out.get();
  plan.fds = {{.fd = others.back().get(), .as = 77}};
  const Spawned child = start(plan);
  EXPECT_TRUE(wait_for(child.pid));
  EXPECT_EQ(content(path), "0\n1\n2\n3\n77\n");  // 3: the folder that it lists
}

/// A folder stands in for one of the kernel's.
TEST_F(OldKernel, ChildJoinsItsGroupBeforeItsProgramStarts) {
  const std::string procs = dir_ / "cgroup.procs";
  std::ofstream(procs) << "";
  const UniqueFd group(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  SpawnPlan plan = shell("test -s " + procs);
  plan.group_fd = group.get();
  const Spawned child = start(plan);
  EXPECT_TRUE(child.is_grouped);
  const Result<Reaped> reaped = wait_for(child.pid);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, ExitStatus(Exited{0}));
  EXPECT_EQ(content(procs), "0");
}

TEST_F(OldKernel, GroupThatIsGoneIsTold) {
  const UniqueFd group(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  SpawnPlan plan = shell("exit 0");
  plan.group_fd = group.get();
  const Spawned child = start(plan);
  EXPECT_FALSE(child.is_grouped);
  EXPECT_TRUE(wait_for(child.pid));
}

TEST_F(OldKernel, TreeOfADeadKeeperIsEnded) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0, 0, 0), 0);
  SpawnPlan plan = shell("sleep 1000 & sleep 1000");
  plan.env.push_back(std::string(kMarkerName) + "=/nowhere/1");
  plan.new_session = true;
  const Spawned child = start(plan);
  const std::optional<ProcStat> stat = read_stat(child.pid);
  ASSERT_TRUE(stat);
  const TreeMarks marks{.pid = child.pid, .start_ticks = stat->start_ticks, .marker = "/nowhere/1"};
  const std::int64_t end = boot_now_ns() + 30'000'000'000;
  while (!kill_tree(marks).empty() && boot_now_ns() < end) {
    while (reap_any().child) {
    }
  }
  EXPECT_TRUE(find_tree(marks).empty());
  while (reap_any().child) {
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0UL, 0, 0, 0);
}

}  // namespace
}  // namespace pergpu::os
