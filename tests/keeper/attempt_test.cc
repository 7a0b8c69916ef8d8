// One attempt through a real keeper: how it starts, how it fails to start, how it ends.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "keeper/leftovers.h"
#include "keeper/rig.h"
#include "os/take_lock.h"

namespace pergpu::keeper::rig {
namespace {

using KeeperAttempt = KeeperTest;

TEST_F(KeeperAttempt, RunsToItsEndAndTheExitCodeIsKept) {
  start_keeper();
  Client client = connect();
  client.send(Hello{});
  const State state = client.expect<State>();
  EXPECT_EQ(state.keeper, kId);
  EXPECT_EQ(state.pid, keeper_.pid);
  EXPECT_TRUE(state.held.empty());

  client.send(shell(1, "echo out; echo err >&2; exit 7"));
  const Started started = client.expect<Started>();
  EXPECT_GT(started.pid, 0);
  EXPECT_GT(started.start_ticks, 0u);
  const Exited exited = client.expect<Exited>();
  EXPECT_EQ(exited.id, (AttemptId{{1}, 1}));
  EXPECT_EQ(exited.exit_code, 7);
  EXPECT_FALSE(exited.signal);
  EXPECT_GT(exited.peak_memory_bytes, 0u);
  EXPECT_GT(exited.wall_ns, 0);
  EXPECT_EQ(slurp(out() + "/log.txt"), "out\nerr\n");

  client.send(Forget{.id = {{1}, 1}, .record_path = out() + "/attempt.json", .final_record = "{}"});
  client.send(Hello{});
  EXPECT_TRUE(client.expect<State>().held.empty());
  EXPECT_EQ(slurp(out() + "/attempt.json"), "{}");
}

TEST_F(KeeperAttempt, ReportsTheSignalThatEndedIt) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, "kill -SEGV $$"));
  client.expect<Started>();
  const Exited exited = client.expect<Exited>();
  EXPECT_FALSE(exited.exit_code);
  EXPECT_EQ(exited.signal, SIGSEGV);
}

TEST_F(KeeperAttempt, SeesOnlyItsOwnEnvironmentDescriptorsAndDefaults) {
  start_keeper();
  Client client = connect();
  Start start = shell(1,
                      "env | sort; umask; pwd; ls /proc/self/fd; ulimit -Sn; "
                      "grep -E 'SigIgn|SigBlk' /proc/self/status");
  start.env.push_back("ONLY=mine");
  start.folder.umask = 027;
  start.limits = {{.resource = 7 /* RLIMIT_NOFILE */, .soft = 123}};
  client.send(start);
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 0);
  const std::string log = slurp(out() + "/log.txt");
  EXPECT_NE(log.find("ONLY=mine\n"), std::string::npos) << log;
  EXPECT_NE(log.find("PERGPU_NOTIFY=" + notify_path(run(), kId)), std::string::npos) << log;
  EXPECT_EQ(log.find("HOME="), std::string::npos) << log;
  // 100 and 101: the locks of its folder; 3: of `ls`.
  EXPECT_NE(log.find("\n0027\n" + folder_.path() + "\n0\n1\n100\n101\n2\n3\n123\n"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("SigBlk:\t0000000000000000"), std::string::npos) << log;
  EXPECT_NE(log.find("SigIgn:\t0000000000000000"), std::string::npos) << log;
  struct stat st = {};
  ASSERT_EQ(::stat((out() + "/log.txt").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640u);
}

TEST_F(KeeperAttempt, ProgramThatDoesNotExistIsAFailedExec) {
  start_keeper();
  Client client = connect();
  client.send(job(1, {"no-such-program"}));
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, "program");
  EXPECT_EQ(failed.os_errno, ENOENT);
  EXPECT_EQ(failed.object,
            "command not found: no-such-program (not in the PATH you submitted with)");
}

TEST_F(KeeperAttempt, ProgramThatMayNotBeExecutedIsAFailedExec) {
  start_keeper();
  Client client = connect();
  spill(folder_.path() + "/script", "#!/bin/sh\n");
  client.send(job(1, {folder_.path() + "/script"}));
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, "program");
  EXPECT_EQ(failed.os_errno, EACCES);
}

TEST_F(KeeperAttempt, FolderThatCannotBeEnteredIsAFailedChdir) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "true");
  start.cwd = folder_.path() + "/nowhere";
  client.send(start);
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, "chdir");
  EXPECT_EQ(failed.os_errno, ENOENT);
  EXPECT_EQ(failed.object, start.cwd);
}

TEST_F(KeeperAttempt, LogThatCannotBeOpenedIsAFailedOpen) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "true");
  start.log_path = folder_.path() + "/log.txt";  // outside of the job's folder
  client.send(start);
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, "open log");
  EXPECT_EQ(failed.os_errno, EINVAL);
  EXPECT_EQ(failed.object, start.log_path);
}

TEST_F(KeeperAttempt, WhatLiesUnderTheLogsNameIsMovedAsideNeverWrittenTo) {
  const std::string log = out() + "/log.txt";
  const std::string victim = folder_.path() + "/victim";
  const std::function<void()> traps[] = {
      [&] { std::filesystem::create_symlink(victim, log); },
      [&] { std::filesystem::create_symlink(folder_.path() + "/nowhere", log); },
      [&] { std::filesystem::create_hard_link(victim, log); },
      [&] { ASSERT_EQ(::mkfifo(log.c_str(), 0666), 0); }};
  spill(victim, "mine");
  start_keeper();
  Client client = connect();
  std::int64_t number = 0;
  for (const auto& trap : traps) {
    std::filesystem::remove_all(out());
    std::filesystem::create_directory(out());
    trap();
    client.send(shell(++number, "echo said"));
    client.expect<Started>();
    EXPECT_EQ(client.expect<Exited>().exit_code, 0);
    client.send(Forget{.id = {{number}, 1}});
    EXPECT_EQ(slurp(log), "said\n");
    EXPECT_EQ(slurp(victim), "mine");
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/nowhere"));
  }
}

TEST_F(KeeperAttempt, TheLogIsANewFileWhateverANeighborPutsThereMeanwhile) {
  start_keeper();
  Client client = connect();
  std::filesystem::create_directory(out());
  const std::string victim = out() + "/victim";
  const std::function<void(const std::string&)> traps[] = {
      [&](const std::string& log) { std::filesystem::create_symlink(victim, log); },
      [&](const std::string& log) { std::filesystem::create_hard_link(victim, log); },
      [&](const std::string& log) { spill(log, "a private file of the user's"); },
      [&](const std::string& log) {
        spill(log, "");
        (void)!::chown(log.c_str(), 65534, 65534);  // by root only; else it's as good as a new one
      },
      [](const std::string& log) { ASSERT_EQ(::mkfifo(log.c_str(), 0666), 0); }};
  spill(victim, "mine");
  std::int64_t number = 0;
  for (const auto& trap : traps) {
    Start start = shell(++number, "echo said");
    start.log_path = out() + "/trap" + std::to_string(number);  // a name that isn't moved before
    trap(start.log_path);
    client.send(start);
    client.expect<Started>();
    EXPECT_EQ(client.expect<Exited>().exit_code, 0);
    client.send(Forget{.id = {{number}, 1}});
    EXPECT_EQ(slurp(start.log_path), "said\n");
    EXPECT_EQ(slurp(victim), "mine");
    struct stat st = {};
    EXPECT_TRUE(::lstat(start.log_path.c_str(), &st) == 0 && st.st_uid == ::geteuid());
  }
}

TEST_F(KeeperAttempt, WhatIsMovedAsideReplacesNoEarlierLog) {
  start_keeper();
  Client client = connect();
  std::filesystem::create_directory(out());
  spill(out() + "/log.old.txt", "of an earlier job");
  Start start = shell(1, "echo said");
  start.log_path = out() + "/trap";
  spill(start.log_path, "planted");
  client.send(start);
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 0);
  EXPECT_EQ(slurp(out() + "/log.old.txt"), "of an earlier job");
  EXPECT_EQ(slurp(out() + "/log.old.1.txt"), "planted");
}

TEST_F(KeeperAttempt, FolderThatCannotBeMadeIsAFailedMkdir) {
  start_keeper();
  Client client = connect();
  spill(out("file"), "");
  Start start = shell(1, "true");
  start.folder.out = out("file") + "/below";
  client.send(start);
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, "mkdir");
  EXPECT_EQ(failed.os_errno, ENOTDIR);
  EXPECT_EQ(failed.object, start.folder.out);
}

TEST_F(KeeperAttempt, LimitThatIsNotAllowedFailsNoJob) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "exit 7");
  start.limits = {{.resource = 99, .soft = 5}};
  client.send(start);
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 7);
}

TEST_F(KeeperAttempt, JobHasWhatItsShellHad) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "ulimit -Sn; ulimit -Hn; nice; grep SigIgn /proc/self/status");
  start.limits = {{.resource = RLIMIT_NOFILE, .soft = 5}};  // for keepers of an earlier release
  start.shell = Shell{
      .limits = {{.resource = RLIMIT_NOFILE, .soft = 70, .hard = 80}}, .nice = 12, .ignored = 1};
  client.send(start);
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 0);
  EXPECT_EQ(slurp(start.log_path), "70\n80\n12\nSigIgn:\t0000000000000001\n");
}

TEST_F(KeeperAttempt, CoresThatDoNotExistAreAFailedAffinity) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "true");
  start.cpu_list = {4000};
  client.send(start);
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, "affinity");
  EXPECT_EQ(failed.object, "cores 4000");
}

TEST_F(KeeperAttempt, FailedStartIsKeptUntilForgotten) {
  start_keeper();
  {
    Client client = connect();
    client.send(job(1, {"no-such-program"}));
    client.expect<SpawnFailed>();
  }
  Client next = connect();
  next.send(Hello{});
  const State state = next.expect<State>();
  ASSERT_EQ(state.held.size(), 1u);
  ASSERT_TRUE(state.held[0].failed);
  EXPECT_EQ(state.held[0].failed->phase, "program");
}

TEST_F(KeeperAttempt, EndsByTermWhenAsked) {
  start_keeper();
  Client client = connect();
  client.send(job(1, {"sleep", "1000"}));
  client.expect<Started>();
  client.send(Stop{.id = {{1}, 1}});
  EXPECT_EQ(client.expect<Exited>().signal, SIGTERM);
}

TEST_F(KeeperAttempt, IgnoringTermEndsByKillAfterTheGrace) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "trap '' TERM; echo READY > ready; while :; do sleep 1000; done");
  start.grace_ns = 50'000'000;
  client.send(start);
  client.expect<Started>();
  ASSERT_TRUE(eventually([&] { return slurp(folder_.path() + "/ready") == "READY\n"; }));
  client.send(Stop{.id = {{1}, 1}});
  EXPECT_EQ(client.expect<Exited>().signal, SIGKILL);
  EXPECT_TRUE(os::descendants_of(keeper_.pid).empty());
}

TEST_F(KeeperAttempt, StoppedProcessIsEndedToo) {
  start_keeper();
  Client client = connect();
  const auto state_of = [](pid_t pid) { return os::read_stat(pid).value_or(os::ProcStat{}).state; };
  client.send(shell(1, "kill -STOP $$"));
  const Started started = client.expect<Started>();
  ASSERT_TRUE(eventually([&] { return state_of(started.pid) == 'T'; }));
  client.send(Stop{.id = {{1}, 1}});
  EXPECT_EQ(client.expect<Exited>().signal, SIGTERM);
}

TEST_F(KeeperAttempt, KillEndsTheWholeTreeAtOnce) {
  start_keeper();
  Client client = connect();
  client.send(shell(1,
                    "trap '' TERM; setsid sh -c 'trap \"\" TERM; touch a; sleep 1000' & "
                    "(setsid sleep 1000 & touch b); wait"));
  client.expect<Started>();
  ASSERT_TRUE(eventually([&] {
    return std::filesystem::exists(folder_.path() + "/a") &&
           std::filesystem::exists(folder_.path() + "/b");
  }));
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_EQ(client.expect<Exited>().signal, SIGKILL);
  EXPECT_TRUE(os::descendants_of(keeper_.pid).empty());
}

TEST_F(KeeperAttempt, WhatTheFirstProcessLeavesBehindIsEnded) {
  start_keeper();
  Client client = connect();
  // One that ends by TERM, one that ignores it, in sessions of their own, with a double fork.
  client.send(shell(1,
                    "(setsid sleep 1000 &); "
                    "(setsid sh -c 'trap \"\" TERM; touch a; while :; do sleep 1000; done' &); "
                    "while [ ! -e a ]; do :; done; exit 3"));
  client.expect<Started>();
  const Exited exited = client.expect<Exited>();
  EXPECT_EQ(exited.exit_code, 3);
  EXPECT_EQ(exited.left_count, 3);
  EXPECT_EQ(std::set(exited.left_names.begin(), exited.left_names.end()),
            (std::set<std::string>{"sh", "sleep"}));
  EXPECT_TRUE(os::descendants_of(keeper_.pid).empty());
}

TEST_F(KeeperAttempt, HelpersThatEndWithTheFirstProcessWereNotLeftBehind) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, "mkfifo pipe; cat pipe & exec 3>pipe; exit 0"));
  client.expect<Started>();
  const Exited exited = client.expect<Exited>();
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_EQ(exited.left_count, 0);
  EXPECT_TRUE(exited.left_names.empty());
}

TEST_F(KeeperAttempt, WhatAStopEndsWasNotLeftBehind) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, "setsid sleep 1000 & touch a; wait"));
  client.expect<Started>();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_.path() + "/a"); }));
  client.send(Stop{.id = {{1}, 1}});
  const Exited exited = client.expect<Exited>();
  EXPECT_EQ(exited.signal, SIGTERM);
  EXPECT_EQ(exited.left_count, 0);
}

TEST(Leftovers, AreNamedByProgramAndScriptOnly) {
  EXPECT_EQ(program_name("python3", {"/usr/bin/python3", "-u", "src/train.py", "--key=s3cret"}),
            "python3 train.py");
  EXPECT_EQ(program_name("sh", {"/bin/sh", "-c", "login s3cret"}), "sh");
  EXPECT_EQ(program_name("login", {"login", "s3cret"}), "login");
  EXPECT_EQ(program_name("kworker", {}), "kworker");
  EXPECT_EQ(program_name("odd", {""}), "odd");
}

TEST_F(KeeperAttempt, ThatForksWithoutEndIsEnded) {
  start_keeper();
  Client client = connect();
  client.send(shell(1,
                    "f() { sleep 1000 & sh -c 'sleep 1000 & sleep 1000' & }; trap '' TERM; "
                    "for i in 1 2 3 4 5 6 7 8 9 10; do f; done; touch a; "
                    "while :; do (sleep 0.001 &); done"));
  client.expect<Started>();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder_.path() + "/a"); }));
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_EQ(client.expect<Exited>().signal, SIGKILL);
  EXPECT_TRUE(os::descendants_of(keeper_.pid).empty());
}

TEST_F(KeeperAttempt, ThatClosesAllDescriptorsIsStillWatched) {
  start_keeper();
  Client client = connect();
  client.send(job(1, {"/usr/bin/python3", "-c", "import os; os.closerange(0, 1024); os._exit(5)"}));
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 5);
}

TEST_F(KeeperAttempt, InheritsItsLease) {
  start_keeper();
  Client client = connect();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  os::UniqueFd reader(ends[0]);
  os::UniqueFd lease(ends[1]);
  Start start = shell(1, "echo held > /proc/self/fd/100");
  start.lease_count = 1;
  client.send(start, {lease.get()});
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 0);
  lease.reset();
  char text[16] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 5);
  // Neither the keeper nor anybody else holds it any more.
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 0);
}

TEST_F(KeeperAttempt, HasItsFolderAsLongAsItsTreeLives) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "setsid sleep 1000 & while [ ! -e go ]; do sleep 0.01; done");
  start.holder = "job 1 of sweep s";
  client.send(start);
  client.expect<Started>();
  const Start other = job(2, {"true"});
  EXPECT_EQ(os::holder_of_folder(out()), "job 1 of sweep s");
  EXPECT_EQ(os::take_lock(out(), "other").error().kind, ErrorKind::Busy);
  spill(folder_.path() + "/go", "");
  client.expect<Exited>();
  EXPECT_EQ(os::holder_of_folder(out()), std::nullopt);
  client.send(Forget{.id = start.id, .record_path = start.record_path, .final_record = "{}"});
  client.send(other);  // of another job, in the same folder
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 0);
}

TEST_F(KeeperAttempt, IsRefusedWhileSomebodyElseWorksInItsFolder) {
  start_keeper();
  Client client = connect();
  std::filesystem::create_directory(out());
  spill(out() + "/log.txt", "theirs");
  spill(out() + "/attempt.json", "theirs");
  Result<os::FolderLock> held = os::take_lock(out(), "job 9 of sweep t");
  ASSERT_TRUE(held);
  Start start = shell(1, "true");
  client.send(start);
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, kFolderInUse);
  EXPECT_EQ(failed.object, "job 9 of sweep t");
  client.send(Forget{.id = start.id, .record_path = start.record_path, .final_record = "ours"});
  client.send(Hello{});
  EXPECT_TRUE(client.expect<State>().held.empty());
  EXPECT_EQ(slurp(out() + "/log.txt"), "theirs");
  EXPECT_EQ(slurp(out() + "/attempt.json"), "theirs");
  held->release();
  start.id.number = 2;
  client.send(start);
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 0);
}

TEST_F(KeeperAttempt, LeaseOfTheRunningAttemptIsGivenToTheNextCoordinator) {
  start_keeper();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  {
    Client client = connect();
    Start start = job(1, {"sleep", "1000"});
    start.lease_count = 1;
    client.send(start, {ends[1]});
    client.expect<Started>();
  }
  struct stat mine = {};
  struct stat given = {};
  ASSERT_EQ(::fstat(ends[1], &mine), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  Client next = connect();
  next.send(Hello{});
  EXPECT_EQ(next.expect<State>().lease_count, 1u);
  const std::vector<os::UniqueFd> leases = next.take_fds(1);
  ASSERT_EQ(leases.size(), 1u);
  ASSERT_EQ(::fstat(leases[0].get(), &given), 0);
  EXPECT_EQ(mine.st_ino, given.st_ino);
}

TEST_F(KeeperAttempt, WatchedMemoryIsReportedOnce) {
  start_keeper();
  Client client = connect();
  Start start = job(1, {"/usr/bin/python3", "-c",
                        "import sys\nx = bytearray(64 << 20)\nsys.stdout.write('full')\n"
                        "sys.stdout.flush()\nimport time\ntime.sleep(1000)"});
  start.memory_bytes = 32 << 20;
  client.send(start);
  client.expect<Started>();
  const Memory memory = client.expect<Memory>();
  EXPECT_GT(memory.bytes, std::uint64_t{32 << 20});
  client.send(Stop{.id = {{1}, 1}, .kill = true});
  EXPECT_GT(client.expect<Exited>().peak_memory_bytes, std::uint64_t{32 << 20});
}

TEST_F(KeeperAttempt, SaysWhatItIsToldThroughTheNotifySocket) {
  start_keeper();
  Client client = connect();
  client.send(job(
      1, {"/usr/bin/python3", "-c",
          "import os, socket\n"
          "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
          "s.sendto(b'READY=1\\nSTATUS=hello\\nNONSENSE=1', os.environ['PERGPU_NOTIFY'])\n"
          "for i in range(100): s.sendto(b'PROGRESS=%d/100' % i, os.environ['PERGPU_NOTIFY'])\n"}));
  client.expect<Started>();
  EXPECT_EQ(client.expect<Notify>().line, "READY=1");
  EXPECT_EQ(client.expect<Notify>().line, "STATUS=hello");
  EXPECT_EQ(client.expect<Notify>().line, "PROGRESS=0/100");
  EXPECT_EQ(client.wait_for<Exited>().exit_code, 0);
}

TEST_F(KeeperAttempt, FirstMetricsLineMeansReady) {
  start_keeper();
  Client client = connect();
  Start start = shell(1, "printf '{\"step\"' >> $M; printf ':1}\\n' >> $M; exec sleep 1000");
  start.env.push_back("M=" + out() + "/metrics.jsonl");
  start.ready_path = out() + "/metrics.jsonl";
  client.send(start);
  client.expect<Started>();
  EXPECT_EQ(client.expect<Notify>().line, "READY=1");
  client.send(Stop{.id = {{1}, 1}});
  client.expect<Exited>();
}

TEST_F(KeeperAttempt, MetricsOfAnEarlierAttemptAreNotReady) {
  start_keeper();
  Client client = connect();
  std::filesystem::create_directory(out());
  spill(out() + "/metrics.jsonl", "{\"step\":1}\n");
  Start start = shell(1, "echo x >> $L; exit 0");
  start.env.push_back("L=" + out() + "/other");
  start.ready_path = out() + "/metrics.jsonl";
  client.send(start);
  client.expect<Started>();
  client.expect<Exited>();  // and no Notify before it
}

TEST_F(KeeperAttempt, OutputsMustExistBeNonEmptyAndNew) {
  start_keeper();
  Client client = connect();
  std::filesystem::create_directory(out());
  spill(out() + "/old", "from yesterday");
  std::filesystem::last_write_time(
      out() + "/old", std::filesystem::file_time_type::clock::now() - std::chrono::hours(24));
  const auto end_of = [&](std::int64_t number, const std::string& output) {
    Start start = shell(number, "echo x > $O/new; : > $O/empty; mkdir -p $O/folder");
    start.env.push_back("O=" + out());
    start.outputs = {out() + "/new", out() + "/" + output};
    client.send(start);
    client.expect<Started>();
    Exited exited = client.expect<Exited>();
    EXPECT_EQ(exited.exit_code, 0);
    if (!exited.missing_output.empty()) {
      EXPECT_EQ(exited.missing_output, out() + "/" + output);
    }
    return exited.missing_why;
  };
  EXPECT_EQ(end_of(1, "new"), "");
  EXPECT_EQ(end_of(2, "absent"), "does not exist");
  EXPECT_EQ(end_of(3, "empty"), "is empty");
  EXPECT_EQ(end_of(4, "old"), "is older than the attempt");
  EXPECT_EQ(end_of(5, "folder"), "is empty");
}

TEST_F(KeeperAttempt, AnOutputMayBeAPattern) {
  start_keeper();
  Client client = connect();
  const auto end_of = [&](std::int64_t number, const std::string& script,
                          const std::string& pattern) {
    Start start = shell(number, "cd $O; " + script);
    start.env.push_back("O=" + out());
    start.patterns = {out() + "/" + pattern};
    client.send(start);
    client.expect<Started>();
    const Exited exited = client.expect<Exited>();
    EXPECT_EQ(exited.missing_output, exited.missing_why.empty() ? "" : out() + "/" + pattern);
    return exited.missing_why;
  };
  EXPECT_EQ(end_of(1, "echo x >epoch=3.ckpt", "*.ckpt"), "");
  EXPECT_EQ(end_of(2, "true", "*.ckpt"), "matches nothing newer than the start of the attempt");
  EXPECT_EQ(end_of(3, "true", "*.pt"), "matches no file");
  EXPECT_EQ(end_of(4, ": >a.pt; : >b.pt", "?.pt"), "matches only empty files");
  EXPECT_EQ(end_of(5, "echo x >b.pt", "?.pt"), "");
}

TEST_F(KeeperAttempt, WhatWasPreparedAndRemovedIsMadeAgain) {
  start_keeper();
  Client client = connect();
  const auto end_after = [&](std::int64_t number, const std::string& removed) {
    Start start = shell(number, "cat $O/config.json");
    start.env.push_back("O=" + out());
    start.folder.files = {
        {.path = out() + "/config.json", .content = "{}\n", .keep_if_same = true}};
    client.send(Prepare{start.folder});
    client.send(Hello{});
    client.wait_for<State>();  // so it is prepared
    EXPECT_TRUE(std::filesystem::exists(out() + "/config.json"));
    std::filesystem::remove_all(removed);
    client.send(start);
    client.expect<Started>();
    const Exited exited = client.expect<Exited>();
    client.send(Forget{.id = start.id});
    return exited.exit_code;
  };
  EXPECT_EQ(end_after(1, out()), 0);
  EXPECT_EQ(end_after(2, out() + "/config.json"), 0);
  EXPECT_EQ(slurp(out() + "/log.txt"), "{}\n");
}

}  // namespace
}  // namespace pergpu::keeper::rig
