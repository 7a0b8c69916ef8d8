// One keeper and many coordinators: nothing is lost when either side is killed, nothing is started
// twice, and nothing leaks from job to job.
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

#include "keeper/bury.h"
#include "keeper/rig.h"
#include "os/clock.h"
#include "os/fs/boot_id.h"
#include "sanitizer.h"

namespace pergpu::keeper::rig {
namespace {

using KeeperSuccession = KeeperTest;

TEST_F(KeeperSuccession, ExitWhileNobodyIsConnectedIsLearntByTheNextOne) {
  start_keeper();
  Started started;
  {
    Client client = connect();
    client.send(shell(1, "while [ ! -e go ]; do sleep 0.01; done; exit 7"));
    started = client.expect<Started>();
  }
  spill(folder_.path() + "/go", "");
  ASSERT_TRUE(eventually([&] { return !os::is_alive(started.pid, started.start_ticks); }));

  for (int coordinator = 0; coordinator < 3; ++coordinator) {  // until one says FORGET
    Client next = connect();
    ASSERT_TRUE(eventually([&] {
      next.send(Hello{});
      const State state = next.expect<State>();
      return state.held.size() == 1 && state.held[0].exited;
    }));
    next.send(Hello{});
    const State state = next.expect<State>();
    ASSERT_EQ(state.held.size(), 1u);
    EXPECT_EQ(state.held[0].exited->exit_code, 7);
    EXPECT_EQ(state.held[0].started->pid, started.pid);
    if (coordinator == 2) next.send(Forget{.id = {{1}, 1}});
  }
  Client last = connect();
  last.send(Hello{});
  EXPECT_TRUE(last.expect<State>().held.empty());
}

TEST_F(KeeperSuccession, StartLeftInTheSocketIsDoneBeforeTheNextHelloIsAnswered) {
  start_keeper();
  ASSERT_EQ(::kill(keeper_.pid, SIGSTOP), 0);  // it reads nothing before both have written
  {
    Client dead = connect();
    dead.send(job(1, {"sleep", "1000"}));
  }
  Client next = connect();
  next.send(Hello{});
  ASSERT_EQ(::kill(keeper_.pid, SIGCONT), 0);
  const State state = next.expect<State>();
  ASSERT_EQ(state.held.size(), 1u);
  ASSERT_TRUE(state.held[0].started);
  EXPECT_EQ(state.held[0].started->id, (AttemptId{{1}, 1}));
}

TEST_F(KeeperSuccession, HalfAStartStartsNothing) {
  start_keeper();
  const std::string frame = frame_of(job(1, {"sleep", "1000"}));
  {
    Result<os::UniqueFd> dead = os::connect_unix(socket_path(run(), kId), true);
    ASSERT_TRUE(dead);
    ASSERT_EQ(::send(dead->get(), frame.data(), frame.size() - 1, 0),
              static_cast<ssize_t>(frame.size() - 1));
  }
  Client next = connect();
  next.send(Hello{});
  EXPECT_TRUE(next.expect<State>().held.empty());
  EXPECT_TRUE(os::descendants_of(keeper_.pid).empty());
}

TEST_F(KeeperSuccession, StartOfAHeldAttemptStartsNothing) {
  start_keeper();
  Client client = connect();
  const Start start = shell(1, "echo once >> count; exec sleep 1000");
  client.send(start);
  const Started first = client.expect<Started>();
  client.send(start);
  EXPECT_EQ(client.expect<Started>().pid, first.pid);
  ASSERT_TRUE(eventually([&] { return !slurp(folder_.path() + "/count").empty(); }));
  client.send(Stop{.id = {{1}, 1}});
  client.expect<Exited>();
  client.send(start);
  client.expect<Started>();
  client.expect<Exited>();
  EXPECT_EQ(slurp(folder_.path() + "/count"), "once\n");
}

/// A record as run/record.h writes it, of an attempt that has just begun.
std::string record_of(std::int64_t job, std::int32_t attempt) {
  return "{\n  \"schema\": 1,\n  \"job\": " + std::to_string(job) +
         ",\n  \"attempt\": " + std::to_string(attempt) + ",\n  \"state\": \"running\"\n}\n";
}

TEST_F(KeeperSuccession, WhatTheStartKnewIsThereForTheNextOneHoweverSoonTheAttemptEnded) {
  start_keeper();
  Start start = shell(1, "exit 0");
  start.record_at_start = record_of(1, 1);
  {
    Client client = connect();
    client.send(start);
    client.expect<Started>();
    client.expect<Exited>();
    EXPECT_FALSE(std::filesystem::exists(start.record_path));  // the final one would follow
  }
  Client next = connect();
  next.send(Hello{});
  next.expect<State>();
  EXPECT_EQ(slurp(start.record_path), start.record_at_start);
  const std::string final_record = R"({"job": 1, "attempt": 1, "state": "done"})";
  next.send(Forget{.id = start.id, .record_path = start.record_path, .final_record = final_record});
  next.send(Hello{});
  next.expect<State>();
  EXPECT_EQ(slurp(start.record_path), final_record);
}

TEST_F(KeeperSuccession, WhatTheStartKnewIsWrittenWhereAnEndMeetsNobody) {
  start_keeper();
  Start start = shell(1, "while [ ! -e go ]; do sleep 0.01; done");
  start.record_at_start = record_of(1, 1);
  Started started;
  {
    Client client = connect();
    client.send(start);
    started = client.expect<Started>();
  }
  spill(folder_.path() + "/go", "");
  ASSERT_TRUE(eventually([&] { return !os::is_alive(started.pid, started.start_ticks); }));
  Client next = connect();
  next.send(Hello{});
  next.expect<State>();
  EXPECT_EQ(slurp(start.record_path), start.record_at_start);
}

TEST_F(KeeperSuccession, WhatTheStartKnewIsThereForWhoEndsTheAttemptOfAnother) {
  start_keeper();
  Start start = job(1, {"sleep", "1000"});
  start.record_at_start = record_of(1, 1);
  {
    Client client = connect();
    client.send(start);
    client.expect<Started>();
  }
  Client next = connect();
  next.send(Stop{.id = start.id, .kill = true});
  next.expect<Exited>();
  EXPECT_EQ(slurp(start.record_path), start.record_at_start);
}

TEST_F(KeeperSuccession, ALateRecordDoesNotTakeThePlaceOfTheNextAttempts) {
  start_keeper();
  Start first = shell(1, "exit 1");
  first.record_at_start = record_of(1, 1);
  Start second = shell(1, "exit 0");
  second.id.number = second.folder.attempt = 2;
  second.record_at_start = record_of(1, 2);
  {
    Client client = connect();
    for (const Start& start : {first, second}) {
      client.send(start);
      client.expect<Started>();
      client.expect<Exited>();
    }
  }
  Client next = connect();
  next.send(Hello{});
  next.expect<State>();
  EXPECT_EQ(slurp(second.record_path), second.record_at_start);
  EXPECT_EQ(slurp(out() + "/attempt.1.json"), first.record_at_start);
}

TEST_F(KeeperSuccession, SecondAttemptBesideARunningOneIsRefused) {
  start_keeper();
  Client client = connect();
  client.send(job(1, {"sleep", "1000"}));
  client.expect<Started>();
  client.send(job(2, {"sleep", "1000"}));
  const SpawnFailed failed = client.expect<SpawnFailed>();
  EXPECT_EQ(failed.phase, "keeper");
  EXPECT_EQ(failed.os_errno, EBUSY);
}

TEST_F(KeeperSuccession, NextJobStartsBeforeThePreviousOneIsForgotten) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, "exit 1"));
  client.expect<Started>();
  client.expect<Exited>();
  Start second = shell(2, "exit 2");
  second.folder.out = out("second");
  second.log_path = out("second") + "/log.txt";
  client.send(Prepare{second.folder});
  client.send(second);
  client.send(Forget{.id = {{1}, 1}});
  client.expect<Started>();
  EXPECT_EQ(client.expect<Exited>().exit_code, 2);
  client.send(Hello{});
  const State state = client.expect<State>();
  ASSERT_EQ(state.held.size(), 1u);
  EXPECT_EQ(state.held[0].exited->id, (AttemptId{{2}, 1}));
}

TEST_F(KeeperSuccession, RecordTellsTheNextCoordinatorWhatAKilledKeeperKnew) {
  start_keeper();
  Client client = connect();
  client.send(shell(1, "exit 7"));
  client.expect<Started>();
  client.expect<Exited>();
  client.send(job(2, {"sleep", "1000"}));
  const Started running = client.expect<Started>();
  ASSERT_EQ(::kill(keeper_.pid, SIGKILL), 0);
  ASSERT_TRUE(client.wait_end());
  const std::vector<Held> held = read_record(record_path(run(), kId), os::boot_id());
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].exited->exit_code, 7);
  EXPECT_EQ(held[1].started->pid, running.pid);
  EXPECT_EQ(held[1].started->start_ticks, running.start_ticks);
  EXPECT_TRUE(read_record(record_path(run(), kId), "another boot").empty());
  ::kill(running.pid, SIGKILL);
}

TEST_F(KeeperSuccession, TreeOfAKilledKeeperIsFoundAndEnded) {
  start_keeper();
  Client client = connect();
  Start start =
      shell(1,
            "(setsid sh -c 'trap \"\" TERM; echo $$ > a; while :; do sleep 1000; done' &);"
            "(setsid env -i sleep 1000 & echo $! > b); exec sleep 1000");
  start.env.push_back("PERGPU_ATTEMPT_ID=" + folder_.path() + "/1.1");
  client.send(start);
  const Started started = client.expect<Started>();
  ASSERT_TRUE(eventually([&] {
    return slurp(folder_.path() + "/a").size() > 1 && slurp(folder_.path() + "/b").size() > 1;
  }));
  const pid_t setsid_child = std::stoi(slurp(folder_.path() + "/a"));
  const pid_t bare_child = std::stoi(slurp(folder_.path() + "/b"));
  ASSERT_EQ(::kill(keeper_.pid, SIGKILL), 0);
  ASSERT_TRUE(client.wait_end());

  const os::TreeMarks marks = {.pid = started.pid,
                               .start_ticks = started.start_ticks,
                               .marker = folder_.path() + "/1.1",
                               .log_path = out() + "/log.txt"};
  EXPECT_EQ(end_tree(marks, 20'000'000'000), kTreeGone);
  for (const pid_t pid : {started.pid, setsid_child, bare_child}) {
    const std::optional<os::ProcStat> stat = os::read_stat(pid);
    EXPECT_TRUE(!stat || stat->ended()) << pid;
  }
}

TEST_F(KeeperSuccession, TreeOfAnotherAttemptIsSpared) {
  start_keeper();
  Client client = connect();
  Start start = job(1, {"sleep", "1000"});
  start.env.push_back("PERGPU_ATTEMPT_ID=" + folder_.path() + "/1.1");
  client.send(start);
  const Started started = client.expect<Started>();
  const os::TreeMarks other = {.pid = started.pid,
                               .start_ticks = started.start_ticks + 1,  // the pid was used again
                               .marker = "home/1.2",
                               .log_path = out("other") + "/log.txt"};
  EXPECT_TRUE(os::find_tree(other).empty());
  EXPECT_EQ(end_tree(other, 0), kTreeGone);
  EXPECT_TRUE(os::is_alive(started.pid, started.start_ticks));
}

TEST_F(KeeperSuccession, QuitEndsAFreeKeeperAndItsFiles) {
  start_keeper();
  Client client = connect();
  client.send(Quit{.revive = true});
  EXPECT_TRUE(client.wait_end());
  const Result<os::Reaped> reaped = os::wait_for(std::exchange(keeper_.pid, 0));
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->status, os::ExitStatus(os::Exited{0}));
  EXPECT_TRUE(std::filesystem::is_empty(run()));
}

TEST_F(KeeperSuccession, SignalsDoNotEndAKeeper) {
  start_keeper();
  Client client = connect();
  client.send(Hello{});
  client.expect<State>();
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGPIPE}) ::kill(keeper_.pid, signal);
  client.send(Hello{});
  EXPECT_EQ(client.expect<State>().pid, keeper_.pid);
}

TEST_F(KeeperSuccession, NonsenseEndsTheConnectionNotTheKeeper) {
  start_keeper();
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff\x01"), std::string("\x04\0\0\0\x03zzzz", 9)}) {
    Result<os::UniqueFd> fd = os::connect_unix(socket_path(run(), kId), true);
    ASSERT_TRUE(fd);
    ASSERT_GT(::send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    Client client(*std::move(fd));
    EXPECT_TRUE(client.wait_end());
  }
  Client next = connect();
  next.send(Hello{});
  EXPECT_EQ(next.expect<State>().keeper, kId);
}

TEST_F(KeeperSuccession, DescriptorsWithoutEndEndTheConnectionNotTheKeeper) {
  start_keeper();
  Client first = connect();
  first.send(Hello{});
  EXPECT_EQ(first.expect<State>().keeper, kId);
  const std::size_t before = keeper_fds();
  // Each rides with a message that wants none.
  const std::vector<int> many(kMostLeases, 2);
  for (int i = 0; i < 8; ++i) first.send(Stop{.id = {{99}, 1}}, many);
  EXPECT_TRUE(first.wait_end());
  Client next = connect();
  next.send(Hello{});
  EXPECT_EQ(next.expect<State>().keeper, kId);
  EXPECT_EQ(keeper_fds(), before);
}

TEST_F(KeeperSuccession, AnotherUserIsNotHeard) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: another user connects to the keeper";
  start_keeper();
  // Nothing but the keeper's own look at its peer keeps others out.
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(run().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(socket_path(run(), kId).c_str(), 0666), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(90);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socket_path(run(), kId).copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(fd, generic, sizeof address) != 0) ::_exit(91);
    const std::string hello = frame_of(Hello{});
    (void)!::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL);  // it may be closed already
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) > 0 ? 1 : 0);  // answered, or closed without a word
  }
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  Client ours = connect();
  ours.send(Hello{});
  EXPECT_EQ(ours.expect<State>().keeper, kId);
}

/// Stands for `pergpu`: says how it was called.
std::string fake_pergpu(const std::string& folder) {
  const std::string path = folder + "/pergpu";
  spill(path, "#!/bin/sh\necho \"$PPID $* $PERGPU_HOME\" >> " + folder + "/revived\n");
  ::chmod(path.c_str(), 0755);
  return path;
}

TEST_F(KeeperSuccession, CoordinatorIsStartedWhenItsConnectionIsLost) {
  start_keeper(fake_pergpu(folder_.path()));
  {
    Client client = connect();
    client.send(job(1, {"sleep", "1000"}));
    client.expect<Started>();
  }
  ASSERT_TRUE(eventually([&] { return !slurp(folder_.path() + "/revived").empty(); }));
  const std::string call = slurp(folder_.path() + "/revived");
  EXPECT_NE(call.find(" coordinator run " + folder_.path()), std::string::npos) << call;
  // It is no descendant of the keeper, which would end it with the job.
  EXPECT_EQ(call.find(std::to_string(keeper_.pid) + " "), std::string::npos) << call;
}

TEST_F(KeeperSuccession, NoCoordinatorIsStartedAfterAQuitThatForbidsIt) {
  start_keeper(fake_pergpu(folder_.path()));
  {
    Client client = connect();
    client.send(shell(1, "while [ ! -e go ]; do sleep 0.01; done"));
    client.expect<Started>();
    client.send(Quit{.revive = false});
  }
  spill(folder_.path() + "/go", "");
  ASSERT_TRUE(eventually([&] {
    const std::vector<Held> held = read_record(record_path(run(), kId), os::boot_id());
    return held.size() == 1 && held[0].exited;
  }));
  Client next = connect();  // still there to be asked
  next.send(Hello{});
  EXPECT_EQ(next.expect<State>().held.size(), 1u);
  EXPECT_EQ(slurp(folder_.path() + "/revived"), "");
}

#ifndef HAS_SANITIZER  // its shadow counts, too
/// Memory that no other keeper shares: without the pages of the program.
std::uint64_t own_bytes(pid_t pid) {
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/statm") >> size >> resident >> shared;
  EXPECT_GT(resident, shared);
  return (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}
#endif

TEST_F(KeeperSuccession, ThousandJobsLeakNothing) {
  start_keeper();
  Client client = connect();
  const auto run_jobs = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i <= last; ++i) {
      Start start = job(i, {"/bin/true"});
      start.ready_path = out() + "/metrics.jsonl";
      client.send(Prepare{start.folder});
      client.send(start);
      client.expect<Started>();
      EXPECT_EQ(client.expect<Exited>().exit_code, 0);
      client.send(Forget{.id = start.id});
    }
    client.send(Hello{});
    EXPECT_TRUE(client.expect<State>().held.empty());
  };
  run_jobs(1, 10);
  const std::size_t fds = keeper_fds();
#ifndef HAS_SANITIZER
  const std::uint64_t memory = own_bytes(keeper_.pid);
  EXPECT_LT(memory, 512u << 10);
#endif
  run_jobs(11, 1000);
  EXPECT_EQ(keeper_fds(), fds);
  EXPECT_TRUE(os::descendants_of(keeper_.pid).empty());
#ifndef HAS_SANITIZER
  EXPECT_LE(own_bytes(keeper_.pid), memory + (64u << 10));
#endif
}

}  // namespace
}  // namespace pergpu::keeper::rig
