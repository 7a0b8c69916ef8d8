// The killing matrix: whatever a job leaves behind is gone within its grace and a second, so its
// lane comes back.  What the kernel does not let go of is named, and the attempt has not ended.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "keeper/rig.h"
#include "os/clock.h"

namespace pergpu::keeper::rig {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kGrace = 200 * kMillisecond;
// "Grace and a second" on an idle machine; this only tells that from the default grace.
constexpr std::int64_t kSlowMachine = 10'000 * kMillisecond;

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

class KillingMatrix : public KeeperTest, public testing::WithParamInterface<Awkward> {
 protected:
  Start awkward(const std::string& then) const {
    Start start =
        job(1, {"/usr/bin/python3", "-S", "-c", std::string(kPrologue) + GetParam().python + then});
    start.grace_ns = kGrace;
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
  client.expect<Started>();
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

INSTANTIATE_TEST_SUITE_P(WithoutGroups, KillingMatrix, testing::ValuesIn(kAwkward),
                         [](const auto& awkward) { return awkward.param.name; });

using Unkillable = KeeperTest;

TEST_F(Unkillable, ThatIsTracedIsNamedAndHasNotEndedUntilItIsLetGo) {
  start_keeper();
  Client client = connect();
  client.send(job(1, {"sleep", "1000"}));
  const Started started = client.expect<Started>();
  if (::ptrace(PTRACE_SEIZE, started.pid, nullptr, nullptr) < 0)
    GTEST_SKIP() << "this machine lets nobody trace a process: " << std::strerror(errno);
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_EQ(client.expect<Notify>().line,
            "RESISTS=process " + std::to_string(started.pid) + " (sleep) has ended, but process " +
                std::to_string(::getpid()) + " traces it and keeps it");
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
