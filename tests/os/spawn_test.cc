#include "os/process/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "os/process/child.h"

namespace pergpu::os {
namespace {

class Spawn : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  SpawnPlan shell(const std::string& script) const {
    SpawnPlan plan;
    plan.argv = {"/bin/sh", "-c", script};
    plan.env = {"PATH=/usr/bin:/bin"};
    plan.stdout_fd = writer_.get();
    return plan;
  }
  void write_program(const std::string& path, const std::string& text, mode_t mode) const {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
  }

  /// Runs it to its end; what it wrote to stdout.
  std::string output_of(const SpawnPlan& plan) {
    SpawnResult result = spawn(plan);
    const auto* spawned = std::get_if<Spawned>(&result);
    if (spawned == nullptr) {
      const SpawnFailure& failure = std::get<SpawnFailure>(result);
      ADD_FAILURE() << failure.phase << " " << failure.object;
      return {};
    }
    writer_.reset();
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = ::read(reader_.get(), buffer, sizeof buffer)) > 0;)
      out.append(buffer, static_cast<std::size_t>(n));
    EXPECT_TRUE(wait_for(spawned->pid));
    return out;
  }
  SpawnFailure failure_of(const SpawnPlan& plan) {
    SpawnResult result = spawn(plan);
    if (auto* failure = std::get_if<SpawnFailure>(&result)) return *failure;
    ADD_FAILURE() << "it runs";
    (void)wait_for(std::get<Spawned>(result).pid);
    return {};
  }

  std::string folder_;
  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_F(Spawn, ExitStatusReachesTheParent) {
  SpawnResult result = spawn(shell("exit 42"));
  ASSERT_TRUE(std::holds_alternative<Spawned>(result));
  const Result<Reaped> reaped = wait_for(std::get<Spawned>(result).pid);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, ExitStatus(Exited{42}));
}

TEST_F(Spawn, MissingProgramIsAFailedExecNotAnExitCode) {
  SpawnPlan plan = shell("");
  plan.argv = {"no-such-program", "x"};
  const SpawnFailure failure = failure_of(plan);
  EXPECT_EQ(failure.phase, "exec");
  EXPECT_EQ(failure.os_errno, ENOENT);
  EXPECT_EQ(failure.object, "no-such-program");
  EXPECT_FALSE(reap_any().any_left);  // nothing stays behind, not even a zombie
}

TEST_F(Spawn, MissingInterpreterIsAFailedExec) {
  write_program(folder_ + "/script", "#!/no/such/interpreter\n", 0755);
  SpawnPlan plan = shell("");
  plan.argv = {folder_ + "/script"};
  EXPECT_EQ(failure_of(plan).os_errno, ENOENT);
}

TEST_F(Spawn, MissingFolderIsAFailedChdir) {
  SpawnPlan plan = shell("exit 0");
  plan.cwd = folder_ + "/nowhere";
  const SpawnFailure failure = failure_of(plan);
  EXPECT_EQ(failure.phase, "chdir");
  EXPECT_EQ(failure.os_errno, ENOENT);
  EXPECT_EQ(failure.object, plan.cwd);
}

TEST_F(Spawn, LimitThatMayNotBeHadIsAsHighAsItMayBe) {
  rlimit own = {};
  ::getrlimit(RLIMIT_NOFILE, &own);
  SpawnPlan plan = shell("ulimit -Sn; ulimit -Hn");
  plan.limits = {{.resource = RLIMIT_NOFILE, .soft = ~std::uint64_t{0}},  // above fs.nr_open
                 {.resource = 99, .soft = 5}};                            // there is none
  const std::string most = std::to_string(own.rlim_max) + "\n";
  EXPECT_EQ(output_of(plan), most + most);
}

TEST_F(Spawn, HardLimitIsTheGivenOne) {
  SpawnPlan plan = shell("ulimit -Sn; ulimit -Hn");
  plan.limits = {{.resource = RLIMIT_NOFILE, .soft = 50, .hard = 60}};
  EXPECT_EQ(output_of(plan), "50\n60\n");
}

TEST_F(Spawn, DescriptorThatIsNotOpenIsNamed) {
  SpawnPlan plan = shell("exit 0");
  plan.fds = {{.fd = 1000, .as = 5}};
  const SpawnFailure failure = failure_of(plan);
  EXPECT_EQ(failure.phase, "fds");
  EXPECT_EQ(failure.os_errno, EBADF);
}

TEST_F(Spawn, ProgramIsLookedUpInTheGivenPath) {
  std::filesystem::create_directory(folder_ + "/a");
  std::filesystem::create_directory(folder_ + "/b");
  write_program(folder_ + "/a/tool", "#!/bin/sh\necho not executable\n", 0644);
  write_program(folder_ + "/b/tool", "#!/bin/sh\necho found\n", 0755);
  SpawnPlan plan = shell("");
  plan.argv = {"tool"};
  plan.env = {"PATH=" + folder_ + "/a:" + folder_ + "/b:/usr/bin:/bin"};
  EXPECT_EQ(output_of(plan), "found\n");
}

TEST_F(Spawn, ProgramThatMayNowhereBeExecutedIsDeniedNotMissing) {
  std::filesystem::create_directory(folder_ + "/a");
  write_program(folder_ + "/a/tool", "#!/bin/sh\n", 0644);
  SpawnPlan plan = shell("");
  plan.argv = {"tool"};
  plan.env = {"PATH=" + folder_ + "/a:/nowhere"};
  EXPECT_EQ(failure_of(plan).os_errno, EACCES);
}

TEST_F(Spawn, ScriptWithoutAnInterpreterLineGoesToTheShell) {
  write_program(folder_ + "/script", "echo \"$1\"\n", 0755);
  SpawnPlan plan = shell("");
  plan.argv = {folder_ + "/script", "an argument"};
  EXPECT_EQ(output_of(plan), "an argument\n");
}

TEST_F(Spawn, RelativeProgramIsFoundFromTheGivenFolder) {
  write_program(folder_ + "/tool", "#!/bin/sh\npwd\n", 0755);
  SpawnPlan plan = shell("");
  plan.argv = {"./tool"};
  plan.cwd = folder_;
  EXPECT_EQ(output_of(plan), folder_ + "\n");
}

TEST(ExecCandidates, FollowPathAndItsEmptyEntries) {
  using List = std::vector<std::string>;
  EXPECT_EQ(exec_candidates("x", {"PATH=/a::/b"}), (List{"/a/x", "x", "/b/x"}));
  EXPECT_EQ(exec_candidates("x", {"XPATH=/a"}), (List{"/bin/x", "/usr/bin/x"}));
  EXPECT_EQ(exec_candidates("./x", {"PATH=/a"}), (List{"./x"}));
  EXPECT_EQ(exec_candidates("", {"PATH=/a"}), List{});
}

TEST(Variables, AreFoundByTheirWholeNames) {
  const std::vector<std::string> env = {"PATHS=1", "PATH=/a=b", "PATH=/second", "EMPTY="};
  EXPECT_EQ(value_in(env, "PATH"), "/a=b");
  EXPECT_EQ(value_in(env, "EMPTY"), "");
  EXPECT_EQ(value_in(env, "PAT"), std::nullopt);
  EXPECT_EQ(value_in({}, "PATH"), std::nullopt);
}

TEST(Variables, AreSetOnce) {
  std::vector<std::string> env = {"A=1", "AB=1", "A=2"};
  set_variable(env, "A", "3");
  set_variable(env, "C", "");
  EXPECT_EQ(env, (std::vector<std::string>{"AB=1", "A=3", "C="}));
}

TEST(Variables, OfThisProcessAreThoseOfTheShell) {
  ASSERT_EQ(::setenv("PERGPU_SPAWN_TEST", "x=y", 1), 0);
  const std::vector<std::string> env = own_environment();
  ::unsetenv("PERGPU_SPAWN_TEST");
  EXPECT_EQ(value_in(env, "PERGPU_SPAWN_TEST"), "x=y");
  EXPECT_EQ(value_in(own_environment(), "PERGPU_SPAWN_TEST"), std::nullopt);
}

TEST_F(Spawn, NothingIsInheritedThatIsNotListed) {
  const UniqueFd leaky(::open("/dev/null", O_RDONLY));  // without O_CLOEXEC
  SpawnPlan plan = shell("ls /proc/self/fd; env");
  plan.fds = {{.fd = writer_.get(), .as = 7}};
  const std::string out = output_of(plan);
  EXPECT_EQ(out.substr(0, 10), "0\n1\n2\n3\n7\n") << out;  // 3 is the folder that `ls` reads
  EXPECT_NE(out.find("PATH=/usr/bin:/bin"), std::string::npos);
  EXPECT_EQ(out.find("HOME="), std::string::npos);
}

TEST_F(Spawn, DescriptorsMayTradePlaces) {
  std::ofstream(folder_ + "/a") << "a";
  std::ofstream(folder_ + "/b") << "b";
  const UniqueFd a(::open((folder_ + "/a").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd b(::open((folder_ + "/b").c_str(), O_RDONLY | O_CLOEXEC));
  SpawnPlan plan = shell("cat /proc/self/fd/" + std::to_string(b.get()) + " /proc/self/fd/" +
                         std::to_string(a.get()));
  plan.fds = {{.fd = a.get(), .as = b.get()}, {.fd = b.get(), .as = a.get()}};
  EXPECT_EQ(output_of(plan), "ab");
}

TEST_F(Spawn, SignalsAreAtTheirDefaults) {
  ::signal(SIGUSR1, SIG_IGN);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  const std::string out = output_of(shell("grep -E 'SigBlk|SigIgn' /proc/self/status"));
  ::signal(SIGUSR1, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  EXPECT_EQ(out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(Spawn, ParentsOwnSettingsStay) {
  const mode_t before = ::umask(022);
  SpawnPlan plan = shell("umask; ulimit -Sc; cat /proc/self/oom_score_adj");
  plan.umask = 077;
  plan.limits = {{.resource = RLIMIT_CORE, .soft = 0}};
  plan.oom_score_adj = 321;
  const std::string out = output_of(plan);
  EXPECT_EQ(out, "0077\n0\n321\n");
  EXPECT_EQ(::umask(before), mode_t{022});
}

TEST_F(Spawn, NewSessionIsLedByTheProgram) {
  SpawnPlan plan = shell("");
  plan.argv = {"/usr/bin/cut", "-d ", "-f1,5,6", "/proc/self/stat"};
  plan.new_session = true;
  const std::string out = output_of(plan);
  const std::string pid = out.substr(0, out.find(' '));
  EXPECT_EQ(out, pid + " " + pid + " " + pid + "\n");
}

TEST_F(Spawn, AffinityIsTheGivenOne) {
  cpu_set_t own;
  ASSERT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &own)) last = cpu;
  }
  SpawnPlan plan = shell("grep Cpus_allowed_list /proc/self/status");
  plan.cpus = {last};
  EXPECT_EQ(output_of(plan), "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
}

TEST_F(Spawn, SiblingIsNoChild) {
  // A process between us and the sibling: the sibling's parent must be us.
  const pid_t middle = ::fork();
  if (middle == 0) {
    SpawnPlan plan = shell("echo $PPID");
    plan.sibling = true;
    const SpawnResult result = spawn(plan);
    ::_exit(std::holds_alternative<Spawned>(result) && !reap_any().any_left ? 0 : 1);
  }
  const Result<Reaped> reaped = wait_for(middle);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, ExitStatus(Exited{0}));
  writer_.reset();
  char buffer[64] = {};
  ASSERT_GT(::read(reader_.get(), buffer, sizeof buffer - 1), 0);
  EXPECT_EQ(std::stoi(buffer), ::getpid());
  while (reap_any().child) {
  }
}

TEST_F(Spawn, ManyThreadsMaySpawnAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        SpawnPlan plan;
        plan.argv = {"/bin/sh", "-c", "exit " + std::to_string(t + 1)};
        SpawnResult result = spawn(plan);
        const auto* spawned = std::get_if<Spawned>(&result);
        const Result<Reaped> reaped =
            spawned != nullptr ? wait_for(spawned->pid) : Result<Reaped>(Error{});
        if (!reaped || reaped->status != ExitStatus(Exited{static_cast<int>(t) + 1})) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

TEST_F(Spawn, LeavesNoDescriptorOpen) {
  const auto open_fds = [] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      (void)entry;
      ++count;
    }
    return count;
  };
  const std::size_t before = open_fds();
  SpawnPlan missing = shell("");
  missing.argv = {"no-such-program"};
  for (int i = 0; i < 10; ++i) {
    (void)failure_of(missing);
    SpawnResult result = spawn(shell("exit 0"));
    ASSERT_TRUE(wait_for(std::get<Spawned>(result).pid));
  }
  // Without pidfds a thread closes what stands for them, a moment after the end.
  for (int i = 0; i < 10'000 && open_fds() != before; ++i) ::usleep(1000);
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace pergpu::os
