// What process trees use (os/process/tree_usage.h), and the texts of /proc that say it.
#include "os/process/tree_usage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/fd.h"
#include "os/process/child.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"

namespace pergpu::os {
namespace {

TEST(DiskBytesIn, AreThoseOfTheDiskNotOfTheCalls) {
  const std::optional<DiskBytes> bytes = disk_bytes_in(
      "rchar: 11\nwchar: 12\nsyscr: 13\nsyscw: 14\nread_bytes: 4096\nwrite_bytes: 8192\n"
      "cancelled_write_bytes: 99\n");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->read, 4096u);
  EXPECT_EQ(bytes->written, 8192u);
}

TEST(DiskBytesIn, WhatDoesNotSayIsUnknown) {
  EXPECT_FALSE(disk_bytes_in(""));
  EXPECT_FALSE(disk_bytes_in("rchar: 11\nread_bytes: 4096\n"));
  EXPECT_FALSE(disk_bytes_in("rchar: 1\ncancelled_write_bytes: 5\nread_bytes: 7\n"));
}

TEST(StatIn, HasTheResidentMemory) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::optional<ProcStat> stat =
      stat_in(7, "7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 3 4 5 6 20 0 1 0 177358 31000000 400 1844");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->start_ticks, 177358u);
  EXPECT_EQ(stat->resident_bytes, 400 * page);
  EXPECT_EQ(stat->cpu_ns, 18 * 10'000'000);
}

TEST(NewestPidIn, IsTheLastField) {
  EXPECT_EQ(newest_pid_in("0.20 0.18 0.12 1/80 11206\n"), 11206u);
  EXPECT_EQ(newest_pid_in(""), 0u);
}

/// This program is the parent of what a test starts, and its sub-reaper, as a keeper is.
class TreeReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0, 0, 0), 0);
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
  }
  void TearDown() override {
    for (;;) {
      kill_descendants();
      ReapResult reaped = reap_any();
      while (reaped.child) reaped = reap_any();
      if (!reaped.any_left) break;
      ::usleep(1000);
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0UL, 0, 0, 0);
  }
  /// Starts `script`, which says "x" on descriptor 5 `times` times.
  TreeRoot start(const std::string& script, int times) {
    SpawnPlan plan;
    plan.argv = {"/bin/sh", "-c", script};
    plan.env = {"PATH=/usr/bin:/bin"};
    plan.fds = {{.fd = writer_.get(), .as = 5}};
    plan.new_session = true;
    SpawnResult result = spawn(plan);
    EXPECT_TRUE(std::holds_alternative<Spawned>(result));
    const pid_t pid = std::get<Spawned>(result).pid;
    char byte = 0;
    for (int i = 0; i < times; ++i) EXPECT_EQ(::read(reader_.get(), &byte, 1), 1);
    return {pid, read_stat(pid).value_or(ProcStat{}).start_ticks};
  }
  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_F(TreeReaderTest, CountsTheWholeTreeOrphansIncluded) {
  const TreeRoot root = start(
      "(printf x >&5; sleep 1000) & (setsid sh -c 'printf x >&5; exec sleep 1000' &) ; "
      "printf x >&5; wait",
      3);
  TreeReader reader;
  const auto usage = reader.read({root});
  ASSERT_EQ(usage.size(), 1u);
  ASSERT_TRUE(usage[0]);
  EXPECT_GE(usage[0]->processes, 3);
  EXPECT_GT(usage[0]->resident_bytes, 100'000u);
}

TEST_F(TreeReaderTest, CpuTimeOfAChildThatHasEndedStays) {
  const TreeRoot root = start(
      "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; printf x >&5; exec sleep 1000",
      1);
  TreeReader reader;
  const auto usage = reader.read({root});
  ASSERT_TRUE(usage.at(0));
  EXPECT_GE(usage[0]->cpu_ns, 10'000'000);
}

TEST_F(TreeReaderTest, MemoryThatIsSharedCountsOnceInTheProportionalFigure) {
  const TreeRoot root = start("(printf x >&5; sleep 1000) & printf x >&5; wait", 2);
  TreeReader reader;
  const auto usage = reader.read({root});
  ASSERT_TRUE(usage.at(0));
  if (!told_proportional_bytes(::getpid())) GTEST_SKIP() << "this kernel does not tell it";
  ASSERT_TRUE(usage[0]->proportional_bytes) << "the first reading has it";
  EXPECT_LT(*usage[0]->proportional_bytes, usage[0]->resident_bytes);
  const auto next = reader.read({root});
  ASSERT_TRUE(next.at(0));
  EXPECT_FALSE(next[0]->proportional_bytes) << "not with each reading";
}

TEST_F(TreeReaderTest, BytesThatAreWrittenAreCounted) {
  if (!disk_bytes(::getpid())) GTEST_SKIP() << "this kernel does not count them";
  const TreeRoot root = start("printf x >&5; exec sleep 1000", 1);
  TreeReader reader;
  const auto usage = reader.read({root});
  ASSERT_TRUE(usage.at(0));
  EXPECT_TRUE(usage[0]->read_bytes);
  EXPECT_TRUE(usage[0]->written_bytes);
}

TEST_F(TreeReaderTest, ATreeThatIsGoneIsUnknownAndAnotherOfItsPidIsNotTakenForIt) {
  const TreeRoot root = start("printf x >&5; exec sleep 1000", 1);
  TreeReader reader;
  EXPECT_FALSE(reader.read({TreeRoot{root.pid, root.start_ticks + 1}}).at(0));
  EXPECT_TRUE(reader.read({root}).at(0));
  kill_descendants();
  while (!reap_any().child) ::usleep(1000);
  EXPECT_FALSE(reader.read({root}).at(0));
}

TEST_F(TreeReaderTest, SeveralTreesAreAnsweredInTheOrderAsked) {
  const TreeRoot first = start("printf x >&5; exec sleep 1000", 1);
  TreeReader reader;
  const auto usage = reader.read({TreeRoot{first.pid, first.start_ticks + 1}, first});
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_FALSE(usage[0]);
  EXPECT_TRUE(usage[1]);
  EXPECT_TRUE(reader.read({}).empty());
}

}  // namespace
}  // namespace pergpu::os
