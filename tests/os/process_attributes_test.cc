// What is read of a process, given to the next one, and what of it may be had.
#include "os/process/process_attributes.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "os/process/child.h"
#include "os/process/spawn.h"

namespace pergpu::os {
namespace {

/// Whether it holds in a process of its own, which nothing has to be undone in.
bool in_child(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  const Result<Reaped> reaped = wait_for(child);
  return reaped && reaped->status == ExitStatus(Exited{0});
}

bool become_nobody() {
  constexpr uid_t kNobody = 65534;
  return ::getuid() != 0 || ::setresuid(kNobody, kNobody, kNobody) == 0;
}

Reach some_reach() {
  return {.limits = {{.resource = RLIMIT_NOFILE, .soft = 10, .hard = 100}},
          .lowest_nice = 0,
          .cpus = {0, 1},
          .group = 5,
          .groups = {5, 7}};
}

TEST(ProcessAttributes, AreReadAsTheyAre) {
  EXPECT_TRUE(in_child([] {
    ::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + 3);
    ::signal(SIGHUP, SIG_IGN);
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR2);
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
    remember_signals();
    ::signal(SIGHUP, SIG_DFL);  // later changes are ours
    const ProcessAttributes own = own_attributes();
    return own.nice == ::getpriority(PRIO_PROCESS, 0) && (own.ignored >> (SIGHUP - 1) & 1) == 1 &&
           own.blocked == std::uint64_t{1} << (SIGUSR2 - 1) && !own.cpus.empty() &&
           own.limits.size() == static_cast<std::size_t>(RLIM_NLIMITS);
  }));
}

TEST(ProcessAttributes, ProgramHasWhatWasReadElsewhere) {
  EXPECT_TRUE(in_child([] {
    ProcessAttributes wanted = own_attributes();
    wanted.nice += 2;
    wanted.policy = SCHED_BATCH;
    wanted.io_priority = 3 << 13;  // idle
    wanted.ignored = 1U << (SIGINT - 1) | 1U << (SIGPIPE - 1);
    wanted.timer_slack_ns = 70'000;
    wanted.core_filter = 0x23;
    wanted.cpus = {wanted.cpus.back()};
    SpawnPlan plan;
    plan.argv = {"/bin/sh", "-c",
                 "test \"$(nice)\" = " + std::to_string(wanted.nice) +
                     " && ionice | grep -q idle && chrt -p $$ | grep -q SCHED_BATCH"
                     " && test \"$(cat /proc/self/coredump_filter)\" = 00000023"
                     " && test \"$(nproc)\" = 1 && grep -q 'SigIgn:.*0001002$' /proc/self/status"};
    plan.env = {"PATH=/usr/bin:/bin"};
    plan.attributes = wanted;
    const SpawnResult result = spawn(plan);
    const auto* spawned = std::get_if<Spawned>(&result);
    if (spawned == nullptr) return false;
    const Result<Reaped> reaped = wait_for(spawned->pid);
    const bool is_same = own_core_filter() != wanted.core_filter;  // ours is as it was
    return is_same && reaped && reaped->status == ExitStatus(Exited{0});
  }));
}

TEST(ProcessAttributes, HardLimitThatCannotBeRaisedIsNamedByTheReach) {
  EXPECT_TRUE(in_child([] {
    const rlimit low = {.rlim_cur = 60, .rlim_max = 70};
    if (::setrlimit(RLIMIT_NOFILE, &low) != 0 || !become_nobody()) return false;
    const Reach reach = own_reach();
    return !reach.any_limit && reach.limits.at(RLIMIT_NOFILE).hard == 70 &&
           hard_limit_of(::getpid(), RLIMIT_NOFILE) == 70;
  }));
}

TEST(ProcessAttributes, UserCannotTakeBackItsNiceAndTheReachSaysSo) {
  EXPECT_TRUE(in_child([] {
    const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_NICE, &none) != 0 || !become_nobody()) return false;
    const int nice = std::max(9, ::getpriority(PRIO_PROCESS, 0));  // tests may run at a higher one
    ::setpriority(PRIO_PROCESS, 0, nice);
    shed_attributes(/*keep_cores=*/false);
    return ::getpriority(PRIO_PROCESS, 0) == nice && own_reach().lowest_nice == nice;
  }));
}

TEST(ProcessAttributes, WhatCanBeHadAgainIsShed) {
  EXPECT_TRUE(in_child([] {
    const std::vector<int> all = usable_cores();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(all.back()), &one);
    rlimit files = {};
    ::getrlimit(RLIMIT_FSIZE, &files);
    files.rlim_cur = 1 << 20;
    const sched_param none = {};
    if (::sched_setaffinity(0, sizeof one, &one) != 0 || ::setrlimit(RLIMIT_FSIZE, &files) != 0 ||
        ::sched_setscheduler(0, SCHED_BATCH, &none) != 0)
      return false;
    raise_own_limits();
    shed_attributes(/*keep_cores=*/false);
    ::getrlimit(RLIMIT_FSIZE, &files);
    return own_cores() == all && ::sched_getscheduler(0) == SCHED_OTHER &&
           files.rlim_cur == files.rlim_max;
  }));
}

TEST(Reach, CoversItselfAndWhatHasLess) {
  const Reach reach = some_reach();
  EXPECT_TRUE(covers(reach, reach));
  const std::vector<std::function<void(Reach&)>> mores = {
      [](Reach& r) { r.limits[0].hard = 101; }, [](Reach& r) { r.any_limit = true; },
      [](Reach& r) { r.lowest_nice = -1; },     [](Reach& r) { r.most_rt_priority = 1; },
      [](Reach& r) { r.io_realtime = true; },   [](Reach& r) { r.cpus = {0, 1, 2}; },
      [](Reach& r) { r.groups = {5, 7, 9}; },   [](Reach& r) { r.any_group = true; },
  };
  for (std::size_t i = 0; i < mores.size(); ++i) {
    Reach more = reach;
    mores[i](more);
    EXPECT_TRUE(covers(more, reach)) << i;
    EXPECT_FALSE(covers(reach, more)) << i;
    for (std::size_t other = 0; other < mores.size(); ++other) {
      Reach apart = reach;
      mores[other](apart);
      const bool all_of_one = (i == 1 && other == 0) || (i == 7 && other == 6);
      EXPECT_EQ(covers(more, apart), i == other || all_of_one) << i << " " << other;
    }
  }
  Reach stuck = reach;
  stuck.only_idle = true;
  EXPECT_TRUE(covers(reach, stuck));
  EXPECT_FALSE(covers(stuck, reach));
}

TEST(Reach, KeeperWithALowerHardLimitHasLess) {
  EXPECT_FALSE(has_less(::getpid()));
  SpawnPlan plan;
  plan.argv = {"/bin/sleep", "100"};
  plan.limits = {{.resource = RLIMIT_NOFILE, .soft = 20, .hard = 30}};
  const SpawnResult result = spawn(plan);
  const auto* spawned = std::get_if<Spawned>(&result);
  ASSERT_NE(spawned, nullptr);
  EXPECT_TRUE(has_less(spawned->pid));
  ::kill(spawned->pid, SIGKILL);
  EXPECT_TRUE(wait_for(spawned->pid));
}

}  // namespace
}  // namespace pergpu::os
