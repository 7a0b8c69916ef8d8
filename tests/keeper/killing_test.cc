// The killing matrix: whatever a job leaves behind is gone within its grace and a second, so its
// lane comes back.  What the kernel does not let go of is named, and the attempt has not ended.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <tuple>

#include "keeper/bury.h"
#include "keeper/rig.h"
#include "os/clock.h"
#include "os/fs/boot_id.h"

namespace pergpu::keeper::rig {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kGrace = 200 * kMillisecond;
// "Grace and a second" on an idle machine; this only tells that from the default grace.
constexpr std::int64_t kSlowMachine = 10'000 * kMillisecond;

/// What the keeper has beside its own tree.
enum class Groups { None, V2, V1 };

struct Awkward {
  const char* name;
  const char* python;  // says ready() when everything that it starts is there
};

constexpr char kPrologue[] =
    "import os, signal, sys, time\n"
    "def ready(): open('ready', 'w').close()\n"
    "def deaf():\n"
    "  for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\n"
    "def for_ever():\n"
    "  while True: time.sleep(1000)\n"
    "def told(count):\n"  // each of the others writes a byte when it is where it wants to be
    "  got = 0\n"
    "  while got < count: got += len(os.read(r, count))\n"
    "  ready()\n"
    "r, w = os.pipe()\n";

constexpr Awkward kAwkward[] = {
    {"Setsid",
     "if os.fork() == 0:\n"
     "  os.setsid(); os.write(w, b'x'); for_ever()\n"
     "told(1)\n"},
    {"DoubleFork",
     "if os.fork() == 0:\n"
     "  os.setsid()\n"
     "  if os.fork() != 0: os._exit(0)\n"
     "  os.write(w, b'x'); for_ever()\n"
     "os.wait(); told(1)\n"},
    {"IgnoresTerm",
     "deaf()\n"
     "if os.fork() == 0:\n"
     "  os.write(w, b'x'); for_ever()\n"
     "told(1)\n"},
    {"Stopped",
     "child = os.fork()\n"
     "if child == 0:\n"
     "  deaf(); os.setsid(); os.kill(os.getpid(), signal.SIGSTOP); for_ever()\n"
     "os.waitpid(child, os.WUNTRACED); ready()\n"},
    {"ForkStorm",  // 200, and ten of them go on forking as fast as their children are there
     "deaf()\n"
     "for i in range(200):\n"
     "  if os.fork() == 0:\n"
     "    if i % 2: os.setsid()\n"
     "    signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
     "    os.write(w, b'x')\n"
     "    while i < 10:\n"
     "      if os.fork() == 0: os._exit(0) if i % 2 else time.sleep(0.05) or os._exit(0)\n"
     "      time.sleep(0.01)\n"
     "    for_ever()\n"
     "told(200)\n"},
    {"DaemonThatHoldsAFile",  // as a DataLoader's worker whose job has died
     "import fcntl\n"
     "if os.fork() == 0:\n"
     "  os.setsid()\n"
     "  if os.fork() != 0: os._exit(0)\n"
     "  deaf()\n"
     "  held = open('held', 'w'); fcntl.flock(held, fcntl.LOCK_EX)\n"
     "  os.set_inheritable(held.fileno(), True)\n"
     "  null = os.open('/dev/null', os.O_RDWR)\n"
     "  for fd in range(3): os.dup2(null, fd)\n"
     "  os.write(w, b'x')\n"
     "  os.execve('/bin/sh', ['sh', '-c', 'while :; do /bin/sleep 1000; done'], {})\n"
     "os.wait(); told(1)\n"},
};

class KillingMatrix : public KeeperTest,
                      public testing::WithParamInterface<std::tuple<Awkward, Groups>> {
 protected:
  void SetUp() override {
    KeeperTest::SetUp();
    const os::CgroupSite all = groups_of_this_machine();
    switch (std::get<Groups>(GetParam())) {
      case Groups::None:
        break;
      case Groups::V2:
        groups_.track = all.track;
        if (all.track.version != 2) GTEST_SKIP() << "no group of cgroup v2 for us: " << all.words;
        break;
      case Groups::V1:  // joined because of a limit
        groups_.memory = all.memory;
        if (all.memory.version != 1) GTEST_SKIP() << "no memory groups of cgroup v1: " << all.words;
        if (::access("/sys/fs/cgroup/freezer/cgroup.procs", W_OK) == 0)
          groups_.track = {1, "/sys/fs/cgroup/freezer"};
        break;
    }
  }
  Start awkward(const std::string& then) const {
    Start start = job(1, {"/usr/bin/python3", "-S", "-c",
                          std::string(kPrologue) + std::get<Awkward>(GetParam()).python + then});
    start.grace_ns = kGrace;
    if (groups_.memory) start.memory_bytes = std::uint64_t{8} << 30;
    start.env.push_back("PERGPU_ATTEMPT_ID=" + folder_.path() + "/1.1");
    return start;
  }
  void wait_ready() const {
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_.path() + "/ready"); }));
  }
  void expect_gone(std::int64_t since_ns) {
    const std::int64_t took = os::boot_now_ns() - since_ns;
    RecordProperty("milliseconds", std::to_string(took / kMillisecond));
    EXPECT_LT(took, kGrace + kSlowMachine);
    EXPECT_TRUE(os::descendants_of(keeper_.pid).empty());
    EXPECT_TRUE(os::find_tree({.marker = folder_.path() + "/1.1"}).empty());
    const os::UniqueFd held(::open((folder_.path() + "/held").c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(!held || ::flock(held.get(), LOCK_EX | LOCK_NB) == 0) << "the file is still held";
  }
};

TEST_P(KillingMatrix, IsGoneSoonAfterItWasStopped) {
  start_keeper();
  Client client = connect();
  client.send(awkward("for_ever()\n"));
  const Started started = client.expect<Started>();
  EXPECT_EQ(started.groups, group_folders());
  wait_ready();
  const std::int64_t since = os::boot_now_ns();
  client.send(Stop{.id = {{1}, 1}});
  EXPECT_TRUE(client.wait_for<Exited>().signal);
  expect_gone(since);
}

TEST_P(KillingMatrix, IsGoneSoonAfterItsFirstProcessEnded) {
  start_keeper();
  Client client = connect();
  client.send(awkward("os._exit(0)\n"));
  client.expect<Started>();
  wait_ready();
  const std::int64_t since = os::boot_now_ns();
  EXPECT_EQ(client.wait_for<Exited>().exit_code, 0);
  expect_gone(since);
}

INSTANTIATE_TEST_SUITE_P(All, KillingMatrix,
                         testing::Combine(testing::ValuesIn(kAwkward),
                                          testing::Values(Groups::None, Groups::V2, Groups::V1)),
                         [](const auto& one) {
                           const Groups groups = std::get<Groups>(one.param);
                           const char* suffix = groups == Groups::None ? "WithoutGroup"
                                                : groups == Groups::V2 ? "InAGroupOfV2"
                                                                       : "InAGroupOfV1";
                           return std::get<Awkward>(one.param).name + std::string(suffix);
                         });

using KeeperGroup = KeeperTest;

TEST_F(KeeperGroup, MemoryBeyondTheLimitOfV1EndsAllOfTheAttemptAndIsTold) {
  groups_ = groups_of_this_machine();
  if (groups_.memory.version != 1) GTEST_SKIP() << "no memory groups of v1: " << groups_.words;
  start_keeper();
  Client client = connect();
  // The worker is what the kernel ends; its parent would wait for ever.
  Start start = job(1, {"/usr/bin/python3", "-S", "-c",
                        "import os, time\n"
                        "if os.fork() == 0: x = bytearray(300 << 20)\n"
                        "time.sleep(1000)\n"});
  start.memory_bytes = 64 << 20;
  client.send(start);
  EXPECT_EQ(client.expect<Started>().memory_held, 1);
  const Exited exited = client.expect<Exited>();
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_GE(exited.oom_kills, 1u);
  EXPECT_TRUE(exited.oom_at_limit);
  EXPECT_GT(exited.peak_memory_bytes, std::uint64_t{60 << 20});
  EXPECT_LE(exited.peak_memory_bytes, std::uint64_t{64 << 20});
}

TEST_F(KeeperGroup, IsRemovedAfterAnAttemptWithALimitAndWithItsKeeper) {
  groups_ = groups_of_this_machine();
  if (!groups_) GTEST_SKIP() << groups_.words;
  start_keeper();
  Client client = connect();
  Start start = shell(1, "exit 0");
  start.memory_bytes = std::uint64_t{1} << 30;
  start.cpu_milli = 1000;
  client.send(start);
  const Started started = client.expect<Started>();
  EXPECT_FALSE(started.groups.empty());
  EXPECT_EQ(started.memory_held, groups_.memory.version);
  EXPECT_EQ(started.cpu_held, groups_.cpu.version);
  client.expect<Exited>();
  EXPECT_TRUE(eventually([&] { return group_folders().empty(); }));
  client.send(shell(2, "exit 0"));
  client.expect<Started>();
  client.expect<Exited>();
  client.send(Forget{.id = {{1}, 1}});
  client.send(Forget{.id = {{2}, 1}});
  client.send(Quit{});
  ASSERT_TRUE(client.wait_end());
  EXPECT_TRUE(eventually([&] { return group_folders().empty(); }));
}

// Linux kills what is born in a v2 group that was killed before.
TEST_F(KeeperGroup, ThatWasKilledServesNoOtherAttempt) {
  groups_ = groups_of_this_machine();
  if (groups_.track.version != 2) GTEST_SKIP() << "no groups of v2: " << groups_.words;
  start_keeper();
  Client client = connect();
  client.send(job(1, {"sleep", "1000"}));
  client.expect<Started>();
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_EQ(client.expect<Exited>().signal, SIGKILL);
  client.send(shell(2, "exit 7"));
  EXPECT_FALSE(client.expect<Started>().groups.empty());
  EXPECT_EQ(client.expect<Exited>().exit_code, 7);
}

TEST_F(KeeperGroup, ThatCannotBeMadeLeavesTheLimitWatched) {
  groups_ = {.track = {2, folder_.path() + "/nowhere"}, .memory = {2, folder_.path() + "/nowhere"}};
  start_keeper();
  Client client = connect();
  Start start = job(1, {"sleep", "1000"});
  start.memory_bytes = 1;
  client.send(start);
  const Started started = client.expect<Started>();
  EXPECT_TRUE(started.groups.empty());
  EXPECT_EQ(started.memory_held, 0);
  EXPECT_GT(client.expect<Memory>().bytes, 1u);
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  client.expect<Exited>();
}

TEST_F(KeeperGroup, FindsWhatAKilledKeeperLeftEvenWithoutAnyOtherMark) {
  groups_ = groups_of_this_machine();
  if (!groups_) GTEST_SKIP() << groups_.words;
  start_keeper();
  Client client = connect();
  Start start = shell(1,
                      "setsid env -i /bin/sh -c 'exec >/dev/null 2>&1; echo $$ > a; "
                      "while :; do /bin/sleep 1000; done' & wait");
  start.memory_bytes = std::uint64_t{1} << 30;
  client.send(start);
  const Started started = client.expect<Started>();
  ASSERT_TRUE(eventually([&] { return slurp(folder_.path() + "/a").size() > 1; }));
  const pid_t stray = std::stoi(slurp(folder_.path() + "/a"));
  ASSERT_EQ(::kill(keeper_.pid, SIGKILL), 0);
  ASSERT_TRUE(client.wait_end());
  const std::vector<Held> held = read_record(record_path(run(), kId), os::boot_id());
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].started->groups, started.groups);
  EXPECT_EQ(end_tree({.groups = started.groups}, 20'000'000'000), kTreeGone);
  EXPECT_FALSE(os::read_stat(stray) && !os::read_stat(stray)->ended());
  EXPECT_TRUE(group_folders().empty());
}

using Unkillable = KeeperTest;

TEST_F(Unkillable, ThatIsTracedIsNamedAndHasNotEndedUntilItIsLetGo) {
  start_keeper();
  Client client = connect();
  client.send(job(1, {"sleep", "1000"}));
  const Started started = client.expect<Started>();
  if (::ptrace(PTRACE_SEIZE, started.pid, nullptr, nullptr) < 0)
    GTEST_SKIP() << "this machine lets nobody trace a process: " << std::strerror(errno);
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_EQ(client.expect<Notify>().line, "RESISTS=process " + std::to_string(started.pid) +
                                              " (sleep) has ended, but process " +
                                              std::to_string(::getpid()) + " is tracing it");
  client.send(Hello{});  // a coordinator that comes later learns it, too
  const State state = client.expect<State>();
  ASSERT_EQ(state.held.size(), 1u);
  EXPECT_FALSE(state.held[0].exited);
  EXPECT_NE(client.expect<Notify>().line.find("RESISTS=process"), std::string::npos);
  int ignored = 0;
  EXPECT_EQ(::waitpid(started.pid, &ignored, __WALL), started.pid);
  EXPECT_EQ(client.wait_for<Exited>().signal, SIGKILL);
}

/// A group of the freezer (cgroup v1) of the test's own: its processes sleep uninterruptibly.
class Freezer {
 public:
  explicit Freezer(const std::string& name) : folder_("/sys/fs/cgroup/freezer/" + name) {
    is_there_ = ::mkdir(folder_.c_str(), 0755) == 0;
  }
  ~Freezer() {
    if (!is_there_) return;
    thaw();
    eventually([&] { return ::rmdir(folder_.c_str()) == 0; });
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;
  bool is_there() const { return is_there_; }
  void freeze(pid_t pid) const {
    spill(folder_ + "/cgroup.procs", std::to_string(pid));
    spill(folder_ + "/freezer.state", "FROZEN");
    EXPECT_TRUE(eventually([&] { return slurp(folder_ + "/freezer.state") == "FROZEN\n"; }));
  }
  void thaw() const { spill(folder_ + "/freezer.state", "THAWED"); }

 private:
  std::string folder_;
  bool is_there_ = false;
};

TEST_F(Unkillable, ThatSleepsUninterruptiblyIsNamedAndHasNotEndedUntilItWakes) {
  const Freezer freezer("pergpu-test-" + std::to_string(::getpid()));
  if (!freezer.is_there()) GTEST_SKIP() << "no freezer of cgroup v1 that we may use";
  start_keeper();
  Client client = connect();
  client.send(job(1, {"sleep", "1000"}));
  const Started started = client.expect<Started>();
  freezer.freeze(started.pid);
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_EQ(client.expect<Notify>().line, "RESISTS=process " + std::to_string(started.pid) +
                                              " (sleep) cannot be killed: uninterruptible sleep");
  EXPECT_TRUE(os::is_alive(started.pid, started.start_ticks));
  freezer.thaw();
  EXPECT_EQ(client.wait_for<Exited>().signal, SIGKILL);
}

}  // namespace
}  // namespace pergpu::keeper::rig
