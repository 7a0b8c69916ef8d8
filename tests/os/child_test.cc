#include "os/process/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "os/process/spawn.h"

namespace pergpu::os {
namespace {

Spawned start(const std::string& script) {
  SpawnPlan plan;
  plan.argv = {"/bin/sh", "-c", script};
  SpawnResult result = spawn(plan);
  EXPECT_TRUE(std::holds_alternative<Spawned>(result));
  return std::get<Spawned>(std::move(result));
}

void wait_until_ended(const UniqueFd& pidfd) {
  pollfd p = {.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&p, 1, 30'000), 1);
}

TEST(ExitStatus, TellsExitFromSignal) {
  EXPECT_EQ(exit_status_of(0x0700), ExitStatus(Exited{7}));
  EXPECT_EQ(exit_status_of(SIGKILL), ExitStatus(Signaled{SIGKILL, false}));
  EXPECT_EQ(exit_status_of(SIGSEGV | 0x80), ExitStatus(Signaled{SIGSEGV, true}));
}

TEST(Child, EndIsSeenBeforeItIsReaped) {
  const Spawned child = start("exit 3");
  wait_until_ended(child.pidfd);
  EXPECT_TRUE(has_ended(child.pidfd));
  const std::optional<Reaped> reaped = reap(child.pid);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, ExitStatus(Exited{3}));
  EXPECT_GT(reaped->max_rss_bytes, 0u);
  EXPECT_FALSE(reap(child.pid));
}

TEST(Child, RunningOneIsNotReaped) {
  const Spawned child = start("exec sleep 1000");
  EXPECT_FALSE(has_ended(child.pidfd));
  EXPECT_FALSE(reap(child.pid));
  const ReapResult any = reap_any();
  EXPECT_FALSE(any.child);
  EXPECT_TRUE(any.any_left);
  EXPECT_TRUE(send_signal(child.pidfd, SIGKILL));
  const Result<Reaped> reaped = wait_for(child.pid);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, ExitStatus(Signaled{SIGKILL, false}));
  EXPECT_FALSE(reap_any().any_left);
}

TEST(Child, SignalAfterTheReapReachesNobody) {
  const Spawned child = start("exit 0");
  ASSERT_TRUE(wait_for(child.pid));
  const Result<void> sent = send_signal(child.pidfd, SIGKILL);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, ErrorKind::NotFound);
}

TEST(Child, HandleOfNobodyIsNotFound) {
  const Spawned child = start("exit 0");
  ASSERT_TRUE(wait_for(child.pid));
  const Result<UniqueFd> handle = open_handle(child.pid);
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().kind, ErrorKind::NotFound);
}

}  // namespace
}  // namespace pergpu::os
