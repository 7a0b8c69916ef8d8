// The local engine after the end of keepers, of connections and of coordinators.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "keeper/record.h"
#include "os/fs/boot_id.h"
#include "os/ipc/accept.h"
#include "os/ipc/socket.h"
#include "os/process/cgroup.h"
#include "os/process/child.h"
#include "run/local_rig.h"

namespace pergpu {
namespace {

TEST_F(LocalEngineTest, KilledKeeperLosesItsAttemptAndNothingOfItRuns) {
  run_on(kLane, shell(kFirst, "(setsid sleep 1000 & echo $! > child); exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  ASSERT_TRUE(until([&] { return slurp(folder_ + "/child").size() > 1; }));
  const pid_t child = std::stoi(slurp(folder_ + "/child"));
  ASSERT_EQ(::kill(engine_->keeper_pids().at(0), SIGKILL), 0);
  const auto lost = wait_for<engine_event::Lost>(kFirst);
  EXPECT_TRUE(lost.proven_gone);
  EXPECT_EQ(lost.why, "its keeper was killed by signal 9");
  EXPECT_TRUE(gone(started.pid));
  EXPECT_TRUE(gone(child));
  engine_->acknowledge(kFirst, out(kFirst) + "/attempt.json", "lost");
  EXPECT_TRUE(until([&] { return slurp(out(kFirst) + "/attempt.json") == "lost"; }));
  run_on(kLane, shell(kSecond, "exit 0"));
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 0);
  EXPECT_EQ(count<engine_event::Lost>(), 1u);
}

TEST_F(LocalEngineTest, ExitRecordedByAKilledKeeperIsNotLost) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exit 7"));
  wait_for<engine_event::Exited>(kFirst);
  kill_coordinator();  // before it could be stored
  kill_keepers();
  open_engine();
  engine_->adopt({expected(kFirst, keeper)});
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
  EXPECT_EQ(count<engine_event::Lost>(), 0u);
}

TEST_F(LocalEngineTest, NextCoordinatorAdoptsWhatRuns) {
  const KeeperId keeper =
      run_on(kLane, shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done; exit 7"));
  const auto before = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  open_engine();
  engine_->adopt({expected(kFirst, keeper, before)});
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, before.pid);
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
  EXPECT_EQ(events_.size(), 2u);
  engine_->acknowledge(kFirst, "", "");
  // The adopted keeper serves on.
  EXPECT_EQ(run_on(kLane, shell(kSecond, "exit 0")), keeper);
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 0);
}

TEST_F(LocalEngineTest, WithoutDescriptorsNoJobIsTakenForLost) {
  const KeeperId keeper = run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto before = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  open_engine();
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none_left = {.rlim_cur = static_cast<rlim_t>(next), .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
  engine_->adopt({expected(kFirst, keeper, before)});
  EXPECT_FALSE(engine_->assign(kOtherLane)) << "numbers that are taken are not known";
  EXPECT_FALSE(engine_->may_start());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, before.pid);
  EXPECT_EQ(count<engine_event::Lost>(), 0u);
  EXPECT_FALSE(gone(before.pid));
}

TEST_F(LocalEngineTest, EndThatNobodyExpectsIsToldAgain) {
  run_on(kLane, shell(kFirst, "exit 7"));
  wait_for<engine_event::Exited>(kFirst);
  kill_coordinator();  // it had stored the outcome
  open_engine();
  engine_->adopt({});
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
  engine_->acknowledge(kFirst, out(kFirst) + "/attempt.json", "end");
  EXPECT_TRUE(until([&] { return slurp(out(kFirst) + "/attempt.json") == "end"; }));
}

TEST_F(LocalEngineTest, ExitBetweenTwoCoordinatorsIsLearntOnce) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exit 7"));
  wait_for<engine_event::Exited>(kFirst);
  for (int restart = 0; restart < 3; ++restart) {
    kill_coordinator();
    open_engine();
    engine_->adopt({expected(kFirst, keeper)});
    EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
    EXPECT_EQ(count<engine_event::Exited>(), 1u);
  }
  engine_->acknowledge(kFirst, "", "");
  kill_coordinator();
  open_engine();
  engine_->adopt({expected(kFirst, keeper)});
  wait_for<engine_event::Lost>(kFirst);  // forgotten means forgotten
}

TEST_F(LocalEngineTest, LeaseOfAnAdoptedAttemptComesBack) {
  const os::UniqueFd lease(
      ::open((folder_ + "/lease").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  AttemptPlan job = plan(kFirst, {"sleep", "1000"});
  job.lease_fds = {lease.get()};
  const KeeperId keeper = run_on(kLane, job);
  wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  open_engine();
  engine_->adopt({expected(kFirst, keeper)});
  const auto started = wait_for<engine_event::Started>(kFirst);
  ASSERT_EQ(started.leases.size(), 1u);
  struct stat mine = {};
  struct stat given = {};
  ASSERT_EQ(::fstat(lease.get(), &mine), 0);
  ASSERT_EQ(::fstat(started.leases[0]->get(), &given), 0);
  EXPECT_EQ(mine.st_ino, given.st_ino);
}

TEST_F(LocalEngineTest, AttemptThatWasNeverStartedIsLost) {
  engine_->adopt({expected(kFirst, {5})});
  EXPECT_TRUE(wait_for<engine_event::Lost>(kFirst).proven_gone);
}

// The coordinator died between storing the intent and sending it.  What is done to make certain
// that nothing of the attempt runs must not touch the keeper that it was meant for.
TEST_F(LocalEngineTest, AttemptThatNeverReachedItsKeeperLeavesTheKeeperAlone) {
  groups_ = os::find_cgroups();
  if (groups_.track.version != 2) GTEST_SKIP() << "no groups of v2: " << groups_.words;
  open_engine();
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, "", "");
  kill_coordinator();
  open_engine();
  engine_->adopt({expected(kSecond, keeper)});
  wait_for<engine_event::Lost>(kSecond);
  EXPECT_EQ(os::groups_named(groups_, os::cgroup_name(folder_, keeper.value)).size(), 1u);
  const AttemptId third = {{3}, 1};
  EXPECT_EQ(run_on(kLane, shell(third, "exit 7")), keeper);
  EXPECT_EQ(wait_for<engine_event::Exited>(third).exit_code, 7);
}

TEST_F(LocalEngineTest, TreeOfAKeeperKilledBetweenCoordinatorsIsEnded) {
  const KeeperId keeper = run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto started = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  kill_keepers();
  open_engine();
  engine_->adopt({expected(kFirst, keeper)});  // Started was not stored: pid and time are not known
  EXPECT_TRUE(wait_for<engine_event::Lost>(kFirst).proven_gone);
  EXPECT_TRUE(gone(started.pid));
}

TEST_F(LocalEngineTest, RunningAttemptThatNobodyExpectsIsEnded) {
  run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto started = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  open_engine();
  engine_->adopt({});
  EXPECT_FALSE(engine_->may_start());
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
  EXPECT_TRUE(gone(started.pid));
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).signal, SIGKILL);  // to be acknowledged
  EXPECT_EQ(events_.size(), 1u);
}

TEST_F(LocalEngineTest, NothingStartsBeforeTheTreeOfADeadKeeperThatNobodyExpectsHasEnded) {
  run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto started = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  kill_keepers();
  EXPECT_FALSE(gone(started.pid));
  open_engine();
  engine_->adopt({});
  EXPECT_FALSE(engine_->may_start());
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
  EXPECT_TRUE(gone(started.pid));
  EXPECT_TRUE(events_.empty());
  EXPECT_FALSE(std::filesystem::exists(keeper::record_path(run_dir(), 1)));
}

// The keeper that was journalled had ended before the start, and another got the attempt.
TEST_F(LocalEngineTest, AttemptOfAnotherKeeperThanWasStoredIsWaitedFor) {
  const KeeperId idle = engine_->assign(kOtherLane);
  const KeeperId keeper = run_on(kLane, shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done"));
  const auto before = wait_for<engine_event::Started>(kFirst);
  remember_keepers();
  kill_coordinator();
  const auto busy = std::find_if(all_keepers_.begin(), all_keepers_.end(), [](const Known& known) {
    return !os::descendants_of(known.pid).empty();
  });
  ASSERT_EQ(::kill(busy->pid, SIGSTOP), 0);
  open_engine();
  engine_->adopt({expected(kFirst, {keeper.value + 5}, before), expected(kSecond, idle)});
  wait_for<engine_event::Lost>(kSecond);  // its keeper has answered, and has not got it
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
  EXPECT_EQ(events_.size(), 1u);
  ASSERT_EQ(::kill(busy->pid, SIGCONT), 0);
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, before.pid);
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 0);
}

TEST_F(LocalEngineTest, RecordStaysForWhatIsStillWaitedFor) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, "", "");
  kill_coordinator();
  keeper::RecordFile record(keeper::record_path(run_dir(), 9), os::boot_id());
  record.put(kFirst, {.exited = keeper::Exited{.id = kFirst, .exit_code = 3}});
  record.put(kSecond, {.exited = keeper::Exited{.id = kSecond, .exit_code = 4}});
  ASSERT_EQ(::kill(all_keepers_.front().pid, SIGSTOP), 0);
  open_engine();
  engine_->adopt({expected(kFirst, {9}), expected(kSecond, keeper)});
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 3);
  engine_->acknowledge(kFirst, "", "");
  ASSERT_EQ(::kill(all_keepers_.front().pid, SIGCONT), 0);
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 4);
}

TEST_F(LocalEngineTest, GroupOfALivingKeeperIsNotBuriedWhateverARecordSays) {
  groups_ = os::find_cgroups();
  if (groups_.track.version != 2) GTEST_SKIP() << "no groups of v2: " << groups_.words;
  open_engine();
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, "", "");
  const auto group = os::groups_named(groups_, os::cgroup_name(folder_, keeper.value));
  ASSERT_EQ(group.size(), 1u);
  kill_coordinator();
  keeper::RecordFile(keeper::record_path(run_dir(), 9), os::boot_id())
      .put(kSecond, {.started = keeper::Started{.id = kSecond, .groups = group}});
  open_engine();
  engine_->adopt({expected(kSecond, {9})});
  wait_for<engine_event::Lost>(kSecond);
  EXPECT_EQ(os::groups_named(groups_, os::cgroup_name(folder_, keeper.value)), group);
}

/// A job that ends after its keeper took the connection and before it was asked what it holds.
TEST_F(LocalEngineTest, EndThatIsToldBeforeTheStateIsToldOnce) {
  const Result<os::UniqueFd> listener = os::listen_unix(keeper::socket_path(run_dir(), 7));
  ASSERT_TRUE(listener);
  engine_->adopt({expected(kFirst, {7})});
  const os::UniqueFd keeper(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(keeper);
  const keeper::Exited exited{.id = kFirst, .exit_code = 3};
  const keeper::State state{
      .keeper = 7,
      .held = {{.started = keeper::Started{.id = kFirst, .pid = 1}, .exited = exited}},
      .home = folder_};
  const std::string said = keeper::frame_of(exited) + keeper::frame_of(state);
  ASSERT_EQ(::write(keeper.get(), said.data(), said.size()), static_cast<ssize_t>(said.size()));
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 3);
  EXPECT_EQ(count<engine_event::Exited>(), 1u);
}

/// Whatever this release asks for in a START it would pass over.
TEST_F(LocalEngineTest, KeeperOfAnEarlierReleaseKeepsItsJobAndStartsNoOther) {
  const Result<os::UniqueFd> listener = os::listen_unix(keeper::socket_path(run_dir(), 7));
  ASSERT_TRUE(listener);
  engine_->adopt({expected(kFirst, {7})});
  const os::UniqueFd keeper(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(keeper);
  const keeper::Started started{.id = kFirst, .pid = 1};
  const std::string state = keeper::frame_of(
      keeper::State{.version = 1, .keeper = 7, .held = {{.started = started}}, .home = folder_});
  ASSERT_EQ(::write(keeper.get(), state.data(), state.size()), static_cast<ssize_t>(state.size()));
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, 1);
  const std::string end = keeper::frame_of(keeper::Exited{.id = kFirst, .exit_code = 3});
  ASSERT_EQ(::write(keeper.get(), end.data(), end.size()), static_cast<ssize_t>(end.size()));
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 3);
  engine_->acknowledge(kFirst, "", "");
  EXPECT_NE(run_on(kLane, shell(kSecond, "exit 7")), KeeperId{7});
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 7);
}

/// Breaks this process's connections to keepers, as want of memory would.
void break_connections(const std::string& run_dir) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_un peer = {};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) < 0) continue;
    if (std::string(peer.sun_path).starts_with(run_dir + "/k")) ::shutdown(fd, SHUT_RDWR);
  }
}

TEST_F(LocalEngineTest, BrokenConnectionIsMadeAgainAndHitsNoJob) {
  const KeeperId keeper =
      run_on(kLane, shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done; exit 7"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  break_connections(run_dir());
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
  EXPECT_EQ(events_.size(), 2u);
  engine_->acknowledge(kFirst, "", "");
  EXPECT_EQ(run_on(kLane, shell(kSecond, "exit 0")), keeper);
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 0);
}

TEST_F(LocalEngineTest, StopThatABrokenConnectionLostIsSaidAgain) {
  run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  wait_for<engine_event::Started>(kFirst);
  break_connections(run_dir());
  engine_->stop(kFirst, StopHow::TermThenKill);
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).signal, SIGTERM);
}

TEST_F(LocalEngineTest, StartThatABrokenConnectionLostIsAnUnchargedLoss) {
  run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, "", "");
  break_connections(run_dir());
  run_on(kLane, shell(kSecond, "exit 0"));
  EXPECT_TRUE(wait_for<engine_event::Lost>(kSecond).proven_gone);
  const AttemptId third = {{3}, 1};
  run_on(kLane, shell(third, "exit 7"));
  EXPECT_EQ(wait_for<engine_event::Exited>(third).exit_code, 7);
}

TEST_F(LocalEngineTest, KeeperThatSpeaksNonsenseIsAskedAgain) {
  const Result<os::UniqueFd> listener = os::listen_unix(keeper::socket_path(run_dir(), 7));
  ASSERT_TRUE(listener);
  os::UniqueFd peer;
  int connections = 0;
  engine_->adopt({});
  EXPECT_TRUE(until([&] {
    Result<os::UniqueFd> accepted = os::accept_from(listener->get());
    if (!accepted) return connections == 3 && engine_->may_start();
    peer = *std::move(accepted);
    std::string frame = keeper::frame_of(keeper::State{.keeper = 7});
    if (++connections < 3) frame = {1, 0, 0, 0, static_cast<char>(keeper::Type::State), 1};
    EXPECT_EQ(::send(peer.get(), frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
    return false;
  }));
}

TEST_F(LocalEngineTest, KeepersOfAnotherHomeAreLeftAlone) {
  run_on(kLane, shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  home_ = folder_ + "/another";
  open_engine();
  engine_->adopt({});
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
  EXPECT_FALSE(gone(started.pid));
  EXPECT_TRUE(std::filesystem::exists(keeper::record_path(run_dir(), 1)));
  run_on(kLane, shell(kSecond, "touch go"));
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 0);
  kill_coordinator();
  home_ = folder_;
  open_engine();
  engine_->adopt({expected(kFirst, {1}, started)});
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 0);
}

TEST_F(LocalEngineTest, KeeperWhoseFilesWereRemovedAfterItsCoordinatorIsWaitedFor) {
  const KeeperId keeper =
      run_on(kLane, shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done; exit 7"));
  const auto before = wait_for<engine_event::Started>(kFirst);
  kill_coordinator();
  std::filesystem::remove_all(run_dir());
  make_run_dir();
  open_engine();
  engine_->adopt({expected(kFirst, keeper, before)});
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, before.pid);
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
  EXPECT_EQ(count<engine_event::Lost>(), 0u);
  EXPECT_GT(engine_->assign(kOtherLane).value, 0);
}

TEST_F(LocalEngineTest, KeeperThatNeverMakesItsSocketAgainIsKilled) {
  const KeeperId keeper = run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto before = wait_for<engine_event::Started>(kFirst);
  seize(keeper_of(before));
  kill_coordinator();
  std::filesystem::remove(keeper::socket_path(run_dir(), keeper.value));
  open_engine();
  engine_->adopt({expected(kFirst, keeper, before)});
  EXPECT_TRUE(wait_for<engine_event::Lost>(kFirst).proven_gone);
  EXPECT_TRUE(gone(before.pid));
  EXPECT_TRUE(gone(all_keepers_.at(0).pid));
}

TEST_F(LocalEngineTest, FilesOfKeepersAreAskedForAgain) {
  const KeeperId keeper = run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto before = wait_for<engine_event::Started>(kFirst);
  for (const auto& file : std::filesystem::directory_iterator(run_dir()))
    std::filesystem::remove(file.path());
  engine_->restore_files(run_dir());
  EXPECT_TRUE(
      until([&] { return std::filesystem::exists(keeper::record_path(run_dir(), keeper.value)); }));
  kill_coordinator();
  open_engine();
  EXPECT_GT(engine_->assign(kOtherLane), keeper) << "the last number is remembered";
  engine_->adopt({expected(kFirst, keeper, before)});
  EXPECT_EQ(wait_for<engine_event::Started>(kFirst).pid, before.pid);
}

TEST_F(LocalEngineTest, FilesInTheFolderOfAnotherHomeAreNotTouched) {
  const KeeperId keeper = run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  wait_for<engine_event::Started>(kFirst);
  has_home_ = false;
  ASSERT_EQ(::kill(engine_->keeper_pids().at(0), SIGKILL), 0);
  wait_for<engine_event::Lost>(kFirst);
  EXPECT_TRUE(std::filesystem::exists(keeper::socket_path(run_dir(), keeper.value)));
  EXPECT_TRUE(std::filesystem::exists(keeper::record_path(run_dir(), keeper.value)));
  EXPECT_FALSE(engine_->assign(kOtherLane)) << "its files would lie there";
}

TEST_F(LocalEngineTest, NumberOfAKeeperIsNotGivenTwice) {
  const KeeperId first = engine_->assign(kLane);
  kill_coordinator();
  kill_keepers();
  for (const std::string& file :
       {keeper::socket_path(run_dir(), first.value), keeper::notify_path(run_dir(), first.value),
        keeper::record_path(run_dir(), first.value)})
    std::filesystem::remove(file);
  open_engine();
  EXPECT_GT(engine_->assign(kLane), first);
}

TEST_F(LocalEngineTest, FilesOfDeadKeepersAreRemoved) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  kill_coordinator();
  kill_keepers();
  const auto files = {keeper::socket_path(run_dir(), keeper.value),
                      keeper::notify_path(run_dir(), keeper.value),
                      keeper::record_path(run_dir(), keeper.value)};
  for (const std::string& file : files) ASSERT_TRUE(std::filesystem::exists(file)) << file;
  open_engine();
  engine_->adopt({});
  for (const std::string& file : files)
    EXPECT_TRUE(until([&] { return !std::filesystem::exists(file); })) << file;
}

}  // namespace
}  // namespace pergpu
