// Groups of the kernel where this machine lets us make some, and a folder tree in place of the
// kernel's where it does not: cgroup v2's files are written and read there as they would be.
#include "os/process/cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/process/child.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"

namespace pergpu::os {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// A folder with the files that the kernel would make in a group of v2.
class FolderTree : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void put(const std::string& file, const std::string& text = "") const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + file).parent_path());
    std::ofstream(folder_ + "/" + file) << text;
  }
  std::string get(const std::string& file) const { return slurp(folder_ + "/" + file); }
  CgroupSite site() const {
    return {.track = {2, folder_}, .memory = {2, folder_}, .cpu = {2, folder_}};
  }

  std::string folder_;
};

using CgroupV2Tree = FolderTree;

TEST_F(CgroupV2Tree, LimitsAreWrittenIntoOneFolder) {
  for (const char* file :
       {"g/memory.max", "g/memory.swap.max", "g/memory.oom.group", "g/cpu.max", "g/cgroup.procs"})
    put(file);
  const Result<Cgroup> group =
      Cgroup::make(site(), "g", {.memory_bytes = 5'000'000, .cpu_milli = 2500});
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->folders(), std::vector<std::string>{folder_ + "/g"});
  EXPECT_EQ(get("g/memory.max"), "5000000");
  EXPECT_EQ(get("g/memory.swap.max"), "0");
  EXPECT_EQ(get("g/memory.oom.group"), "1");
  EXPECT_EQ(get("g/cpu.max"), "250000 100000");
  EXPECT_EQ(group->memory_version(), 2);
  EXPECT_EQ(group->cpu_version(), 2);
  EXPECT_GE(group->born_in(), 0);
  EXPECT_TRUE(group->join_fds().empty());
  const Result<UniqueFd> event = group->watch_memory();
  EXPECT_TRUE(event && !*event) << "oom.group ends the whole group";
}

TEST_F(CgroupV2Tree, LimitThatCannotBeWrittenIsNotHeld) {
  put("g/cgroup.procs");
  const Result<Cgroup> group =
      Cgroup::make(site(), "g", {.memory_bytes = 5'000'000, .cpu_milli = 1000});
  ASSERT_TRUE(group);
  EXPECT_FALSE(group->limits().any());
  EXPECT_EQ(group->memory_version(), 0);
  EXPECT_EQ(group->cpu_version(), 0);
}

TEST_F(CgroupV2Tree, TellsWhatTheKernelHadToDo) {
  put("g/memory.max");
  put("g/memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n");
  put("g/memory.peak", "4999168\n");
  put("g/memory.stat", "anon 4096\nfile 900000\nshmem 1024\n");
  const Result<Cgroup> group = Cgroup::make(site(), "g", {.memory_bytes = 5'000'000});
  ASSERT_TRUE(group);
  const CgroupMemory memory = group->memory();
  EXPECT_EQ(memory.kills, 3u);
  EXPECT_TRUE(memory.at_limit);
  EXPECT_EQ(memory.peak_bytes, 4'999'168u);
  EXPECT_EQ(group->used_bytes(), 5120u);
}

TEST_F(CgroupV2Tree, KillOfTheMachinesWantIsNotTheLimits) {
  put("g/memory.max");
  put("g/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n");
  const Result<Cgroup> group = Cgroup::make(site(), "g", {.memory_bytes = 5'000'000});
  ASSERT_TRUE(group);
  EXPECT_EQ(group->memory().kills, 1u);
  EXPECT_FALSE(group->memory().at_limit);
}

// The kernel tells every group below the one that has no memory left.
TEST_F(FolderTree, WantOfAGroupAboveIsNotItsOwn) {
  put("g/cgroup.procs");
  put("g/memory.limit_in_bytes");
  put("g/memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n");
  put("g/memory.max_usage_in_bytes", "64000000\n");  // cached files, once
  put("g/memory.usage_in_bytes", "1000000\n");
  const Result<Cgroup> group =
      Cgroup::make({.memory = {1, folder_}}, "g", {.memory_bytes = 64'000'000});
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_EQ(group->memory_version(), 1);
  EXPECT_FALSE(group->has_run_out());
  put("g/memory.usage_in_bytes", "63900000\n");
  EXPECT_TRUE(group->has_run_out());
  put("g/memory.usage_in_bytes", "1000000\n");
  put("g/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_TRUE(group->has_run_out());
}

TEST_F(CgroupV2Tree, IsKilledByItsOneFile) {
  put("g/cgroup.kill");
  put("g/cgroup.procs", "1\n");  // must not be touched
  kill_groups({folder_ + "/g"});
  EXPECT_EQ(get("g/cgroup.kill"), "1");
}

TEST_F(CgroupV2Tree, ProcessesOfGroupsThatAJobMadeAreFoundToo) {
  put("g/cgroup.procs", "17\n4711\n");
  put("g/inner/deep/cgroup.procs", "17\n99\n");
  EXPECT_EQ(processes_in({folder_ + "/g"}), (std::vector<pid_t>{17, 99, 4711}));
}

TEST_F(CgroupV2Tree, WithoutLimitsAGroupOfV1IsNotWorthItsPrice) {
  const CgroupSite v1 = {.track = {1, folder_}, .memory = {1, folder_}, .cpu = {1, folder_}};
  const Result<Cgroup> group = Cgroup::make(v1, "g", {});
  ASSERT_TRUE(group);
  EXPECT_TRUE(group->folders().empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/g"));
}

TEST(CgroupName, TellsHomesAndKeepersApart) {
  const std::string name = cgroup_name("/somewhere/a", 17);
  EXPECT_EQ(keeper_of_cgroup(name, "/somewhere/a"), 17);
  EXPECT_EQ(keeper_of_cgroup(name, "/somewhere/b"), 0);
  EXPECT_EQ(keeper_of_cgroup(name + "x", "/somewhere/a"), 0);
  EXPECT_EQ(keeper_of_cgroup("pergpu-own", "/somewhere/a"), 0);
}

// ---- the kernel's ------------------------------------------------------------------------------

/// What this machine offers of one kind; a test of it skips where that is nothing.
enum class Kind { V2, Freezer, V1Memory };

class KernelCgroup : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("PERGPU_CGROUP", "", 1), 0);
    const CgroupSite all = find_cgroups();
    switch (GetParam()) {
      case Kind::V2:
        if (all.track.version != 2) GTEST_SKIP() << "no group of cgroup v2 for us: " << all.words;
        site_ = {.track = all.track};
        break;
      case Kind::Freezer:
        site_ = {.track = {1, "/sys/fs/cgroup/freezer"}, .memory = all.memory};
        if (::access("/sys/fs/cgroup/freezer/freezer.state", F_OK) == 0 ||
            ::access("/sys/fs/cgroup/freezer/cgroup.procs", W_OK) != 0)
          GTEST_SKIP() << "no root of the cgroup v1 freezer that we may use";
        break;
      case Kind::V1Memory:
        if (all.memory.version != 1) GTEST_SKIP() << "no memory groups of v1: " << all.words;
        site_ = {.memory = all.memory};
        break;
    }
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
    name_ = "pergpu-test-" + std::to_string(::getpid());
  }
  void TearDown() override {
    if (!group_) return;
    while (!processes_in(group_->folders()).empty()) {
      kill_groups(group_->folders());
      reap_all();
    }
    while (!remove_groups(group_->folders())) reap_all();
  }
  static void reap_all() {
    while (reap_any().child) {
    }
    ::usleep(1000);
  }
  void make(const CgroupLimits& limits) {
    Result<Cgroup> made = Cgroup::make(site_, name_, limits);
    ASSERT_TRUE(made) << made.error().message;
    group_ = *std::move(made);
  }
  Spawned start(const std::string& script, bool python = false) const {
    SpawnPlan plan;
    plan.argv = {python ? "/usr/bin/python3" : "/bin/sh", "-c", script};
    plan.env = {"PATH=/usr/bin:/bin"};
    plan.fds = {{.fd = writer_.get(), .as = 5}};
    plan.group_fd = group_->born_in();
    plan.join_fds = group_->join_fds();
    SpawnResult result = spawn(plan);
    EXPECT_TRUE(std::holds_alternative<Spawned>(result));
    return std::get<Spawned>(std::move(result));
  }
  void wait_ready(int processes) const {
    char byte = 0;
    for (int i = 0; i < processes; ++i) ASSERT_EQ(::read(reader_.get(), &byte, 1), 1);
  }

  CgroupSite site_;
  std::string name_;
  std::optional<Cgroup> group_;
  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_P(KernelCgroup, HoldsWhateverIsForkedAndIsKilledWhole) {
  make({.memory_bytes = site_.memory ? std::uint64_t{1} << 30 : 0});
  const Spawned child = start(
      "trap '' TERM; (setsid env -i /bin/sh -c 'trap \"\" TERM; printf x >&5; kill -STOP $$' &) ; "
      "printf x >&5; while :; do sleep 1000; done");
  EXPECT_TRUE(child.is_grouped);
  wait_ready(2);
  EXPECT_GE(processes_in(group_->folders()).size(), 2u);
  EXPECT_FALSE(remove_groups(group_->folders()));
  while (!processes_in(group_->folders()).empty()) {
    kill_groups(group_->folders());
    reap_all();
  }
  while (!remove_groups(group_->folders())) reap_all();
  for (const std::string& folder : group_->folders()) EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_P(KernelCgroup, TreeWithoutAKeeperIsFoundByIt) {
  make({.memory_bytes = site_.memory ? std::uint64_t{1} << 30 : 0});
  const Spawned child =
      start("setsid env -i /bin/sh -c 'printf x >&5; exec /bin/sleep 1000' & wait");
  wait_ready(1);
  EXPECT_GE(find_tree({.groups = group_->folders()}).size(), 2u);
  while (!kill_tree({.groups = group_->folders()}).empty()) reap_all();
}

TEST_P(KernelCgroup, MemoryLimitHolds) {
  if (!site_.memory) GTEST_SKIP() << "no memory groups";
  make({.memory_bytes = 64 << 20});
  ASSERT_NE(group_->memory_version(), 0);
  const Result<UniqueFd> event = group_->watch_memory();
  ASSERT_TRUE(event) << event.error().message;
  const Spawned child = start("x = bytearray(300 << 20)", /*python=*/true);
  const Result<Reaped> reaped = wait_for(child.pid);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, ExitStatus(Signaled{.signal = SIGKILL}));
  const CgroupMemory memory = group_->memory();
  EXPECT_GE(memory.kills, 1u);
  EXPECT_TRUE(memory.at_limit);
  EXPECT_GT(memory.peak_bytes, std::uint64_t{60 << 20});
  EXPECT_LE(memory.peak_bytes, std::uint64_t{64 << 20});
  std::uint64_t count = 0;
  EXPECT_TRUE(!*event || ::read(event->get(), &count, sizeof count) == 8);
}

INSTANTIATE_TEST_SUITE_P(Kinds, KernelCgroup,
                         testing::Values(Kind::V2, Kind::Freezer, Kind::V1Memory),
                         [](const auto& kind) {
                           switch (kind.param) {
                             case Kind::V2:
                               return "V2";
                             case Kind::Freezer:
                               return "V1Freezer";
                             case Kind::V1Memory:
                               return "V1Memory";
                           }
                           return "";
                         });

}  // namespace
}  // namespace pergpu::os
