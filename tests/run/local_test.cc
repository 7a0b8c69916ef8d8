// The local engine with real keepers and real processes.
#include "run/local.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "keeper/record.h"
#include "os/cgroup.h"
#include "os/child.h"
#include "os/proc.h"
#include "os/process_tree.h"

namespace pergpu {
namespace {

constexpr std::int64_t kDeadlineNs = 30'000'000'000;
constexpr LaneId kLane = {.pool = LaneId::Pool::Cpu, .sweep = {}, .slot = 0};
constexpr LaneId kOtherLane = {.pool = LaneId::Pool::Cpu, .sweep = {}, .slot = 1};

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class LocalEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directory(run_dir());
    loop_ = *os::Loop::create();
    loop_->on_turn([this] {
      if (condition_ && condition_()) loop_->stop();
    });
    open_engine();
  }
  void TearDown() override {
    std::vector<std::int32_t> keepers =
        engine_ ? engine_->keeper_pids() : std::vector<std::int32_t>();
    keepers.insert(keepers.end(), all_keepers_.begin(), all_keepers_.end());
    for (const std::int32_t keeper : keepers) {
      for (const os::TreeMember& member : os::descendants_of(keeper)) ::kill(member.pid, SIGKILL);
      if (os::link_of(keeper, "exe").find("pergpu-keeper") != std::string::npos)
        ::kill(keeper, SIGKILL);
    }
    engine_.reset();
    loop_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string run_dir() const { return folder_ + "/run"; }
  std::string out(AttemptId id) const { return folder_ + "/out" + std::to_string(id.job.value); }

  void open_engine() {
    engine_ = std::make_unique<LocalEngine>(
        *loop_, clock_,
        LocalEngine::Config{.run_dir = run_dir(),
                            .keeper_program = PERGPU_BINARY_DIR "/pergpu-keeper",
                            .pergpu_program = "/bin/true",
                            .home = folder_,
                            .boot_id = os::boot_id(),
                            .groups = groups_,
                            .on_event = [this](const EngineEvent& e) { events_.push_back(e); }});
  }
  /// What kill -9 of a coordinator does: sockets close, nothing is said.
  void kill_coordinator() {
    remember_keepers();
    engine_.reset();
    events_.clear();
  }
  void remember_keepers() {
    for (const std::int32_t pid : engine_->keeper_pids()) all_keepers_.push_back(pid);
  }

  /// Runs the loop until `condition` holds.
  bool until(std::function<bool()> condition) {
    if (condition()) return true;
    condition_ = std::move(condition);
    bool late = false;
    const os::Loop::TimerId deadline = loop_->at(clock_.now().boot_ns + kDeadlineNs, [&] {
      late = true;
      loop_->stop();
    });
    // The condition may be about a process that announces nothing.
    os::Loop::TimerId tick = 0;
    std::function<void()> look = [&] { tick = loop_->at(clock_.now().boot_ns + 2'000'000, look); };
    look();
    EXPECT_TRUE(loop_->run());
    loop_->cancel(deadline);
    loop_->cancel(tick);
    condition_ = nullptr;
    return !late;
  }

  template <typename Event>
  const Event* find(AttemptId id) const {
    for (const EngineEvent& event : events_) {
      if (const auto* e = std::get_if<Event>(&event); e != nullptr && e->id == id) return e;
    }
    return nullptr;
  }
  template <typename Event>
  std::size_t count() const {
    std::size_t n = 0;
    for (const EngineEvent& event : events_) n += std::holds_alternative<Event>(event) ? 1 : 0;
    return n;
  }
  /// Fails the test when the event does not come.
  template <typename Event>
  Event wait_for(AttemptId id) {
    EXPECT_TRUE(until([&] { return find<Event>(id) != nullptr; }));
    const Event* event = find<Event>(id);
    return event != nullptr ? *event : Event{};
  }

  AttemptPlan plan(AttemptId id, std::vector<std::string> argv) const {
    AttemptPlan plan;
    plan.id = id;
    plan.folder = {.out = out(id), .attempt = id.number, .files = {}, .umask = 022};
    plan.argv = std::move(argv);
    plan.env = {"PATH=/usr/bin:/bin", "PERGPU_ATTEMPT_ID=" + folder_ + "/" + to_string(id)};
    plan.cwd = folder_;
    plan.log_path = out(id) + "/log.txt";
    plan.record_path = out(id) + "/attempt.json";
    plan.record_at_start = "{\"schema\": 1, \"attempt\": " + std::to_string(id.number) + ",}";
    return plan;
  }
  AttemptPlan shell(AttemptId id, const std::string& script) const {
    return plan(id, {"/bin/sh", "-c", script});
  }
  KeeperId run_on(LaneId lane, AttemptPlan plan) {
    const KeeperId keeper = engine_->assign(lane);
    engine_->start(lane, std::move(plan));
    return keeper;
  }
  ExpectedAttempt expected(AttemptId id, KeeperId keeper,
                           const engine_event::Started& started = {}) const {
    return {.id = id,
            .keeper = keeper,
            .pid = started.pid,
            .start_ticks = started.start_ticks,
            .out = out(id)};
  }
  bool gone(std::int32_t pid) const {
    const std::optional<os::ProcStat> stat = os::read_stat(pid);
    return !stat || stat->ended();
  }

  std::string folder_;
  os::CgroupSite groups_;
  os::RealClock clock_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<LocalEngine> engine_;
  std::vector<EngineEvent> events_;
  std::vector<std::int32_t> all_keepers_;
  std::function<bool()> condition_;
};

constexpr AttemptId kFirst = {{1}, 1};
constexpr AttemptId kSecond = {{2}, 1};

TEST_F(LocalEngineTest, AttemptRunsToItsEnd) {
  AttemptPlan job = shell(kFirst, "echo hello; exit 7");
  job.folder.files = {
      {.path = out(kFirst) + "/config.json", .content = "{}", .keep_if_same = true}};
  run_on(kLane, job);
  EXPECT_GT(wait_for<engine_event::Started>(kFirst).pid, 0);
  const auto exited = wait_for<engine_event::Exited>(kFirst);
  EXPECT_EQ(exited.exit_code, 7);
  EXPECT_GT(exited.exited_at.boot_ns, 0);
  EXPECT_EQ(slurp(out(kFirst) + "/log.txt"), "hello\n");
  EXPECT_EQ(slurp(out(kFirst) + "/config.json"), "{}");
  EXPECT_EQ(events_.size(), 2u);
}

TEST_F(LocalEngineTest, AcknowledgeWritesTheFinalRecord) {
  run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, out(kFirst) + "/attempt.json", "the end");
  EXPECT_TRUE(until([&] { return slurp(out(kFirst) + "/attempt.json") == "the end"; }));
}

TEST_F(LocalEngineTest, NextAttemptOfALaneUsesTheSameKeeper) {
  const KeeperId first = run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, "", "");
  const KeeperId second = run_on(kLane, shell(kSecond, "exit 0"));
  wait_for<engine_event::Exited>(kSecond);
  EXPECT_EQ(first, second);
  EXPECT_EQ(engine_->keeper_pids().size(), 1u);
}

TEST_F(LocalEngineTest, LanesRunBesideEachOther) {
  const KeeperId first = run_on(kLane, shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done"));
  const KeeperId second = run_on(kOtherLane, shell(kSecond, "touch go"));
  EXPECT_NE(first, second);
  wait_for<engine_event::Exited>(kFirst);
  wait_for<engine_event::Exited>(kSecond);
}

TEST_F(LocalEngineTest, StartThatFailsIsReportedWithItsPhase) {
  run_on(kLane, plan(kFirst, {"no-such-program"}));
  const auto failed = wait_for<engine_event::SpawnFailed>(kFirst);
  EXPECT_EQ(failed.phase, "exec");
  EXPECT_EQ(failed.os_errno, ENOENT);
  EXPECT_EQ(failed.object, "no-such-program");
  engine_->acknowledge(kFirst, "", "");
  run_on(kLane, shell(kSecond, "exit 0"));  // the lane is usable
  EXPECT_EQ(wait_for<engine_event::Exited>(kSecond).exit_code, 0);
}

TEST_F(LocalEngineTest, StopEndsIt) {
  run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  wait_for<engine_event::Started>(kFirst);
  engine_->stop(kFirst, StopHow::TermThenKill);
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).signal, SIGTERM);
}

TEST_F(LocalEngineTest, KilledKeeperLosesItsAttemptAndNothingOfItRuns) {
  run_on(kLane, shell(kFirst, "(setsid sleep 1000 & echo $! > child); exec sleep 1000"));
  const auto started = wait_for<engine_event::Started>(kFirst);
  ASSERT_TRUE(until([&] { return slurp(folder_ + "/child").size() > 1; }));
  const pid_t child = std::stoi(slurp(folder_ + "/child"));
  ASSERT_EQ(::kill(engine_->keeper_pids().at(0), SIGKILL), 0);
  const auto lost = wait_for<engine_event::Lost>(kFirst);
  EXPECT_TRUE(lost.proven_gone);
  EXPECT_EQ(lost.why, "its keeper was ended by signal 9");
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
  for (const std::int32_t pid : all_keepers_) ::kill(pid, SIGKILL);
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
  for (const std::int32_t pid : all_keepers_) ::kill(pid, SIGKILL);
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
  EXPECT_TRUE(until([&] { return gone(started.pid); }));
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).signal, SIGKILL);  // to be acknowledged
  EXPECT_EQ(events_.size(), 1u);
}

TEST_F(LocalEngineTest, FilesOfDeadKeepersAreRemoved) {
  const KeeperId keeper = run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  kill_coordinator();
  for (const std::int32_t pid : all_keepers_) ::kill(pid, SIGKILL);
  ASSERT_TRUE(until([&] { return gone(all_keepers_.at(0)); }));
  const auto files = {keeper::socket_path(run_dir(), keeper.value),
                      keeper::notify_path(run_dir(), keeper.value),
                      keeper::record_path(run_dir(), keeper.value)};
  for (const std::string& file : files) ASSERT_TRUE(std::filesystem::exists(file)) << file;
  open_engine();
  engine_->adopt({});
  for (const std::string& file : files)
    EXPECT_TRUE(until([&] { return !std::filesystem::exists(file); })) << file;
}

TEST_F(LocalEngineTest, OneKeeperIsThereWithoutAnyAttempt) {
  engine_->adopt({});  // it is what starts the next coordinator when this one is killed
  EXPECT_TRUE(until([&] { return engine_->keeper_pids().size() == 1; }));
}

TEST_F(LocalEngineTest, ReleaseEndsKeepersThatHoldNothing) {
  run_on(kLane, shell(kFirst, "exit 0"));
  run_on(kOtherLane, plan(kSecond, {"sleep", "1000"}));
  wait_for<engine_event::Exited>(kFirst);
  wait_for<engine_event::Started>(kSecond);
  engine_->acknowledge(kFirst, "", "");
  remember_keepers();
  const std::vector<std::int32_t> keepers = engine_->keeper_pids();
  ASSERT_EQ(keepers.size(), 2u);
  engine_->release(false);
  EXPECT_TRUE(until([&] { return gone(keepers[0]); }));
  EXPECT_FALSE(gone(keepers[1]));
}

TEST_F(LocalEngineTest, MissingKeeperProgramIsAFailedStart) {
  engine_ = std::make_unique<LocalEngine>(
      *loop_, clock_,
      LocalEngine::Config{.run_dir = run_dir(),
                          .keeper_program = folder_ + "/no-keeper",
                          .pergpu_program = "",
                          .home = folder_,
                          .boot_id = "",
                          .on_event = [this](const EngineEvent& e) { events_.push_back(e); }});
  EXPECT_FALSE(engine_->assign(kLane));
  engine_->start(kLane, shell(kFirst, "exit 0"));
  EXPECT_EQ(wait_for<engine_event::SpawnFailed>(kFirst).phase, "keeper");
}

TEST_F(LocalEngineTest, HundredAttemptsOnEightLanesEachEndOnce) {
  std::vector<LaneId> free;
  for (std::int32_t slot = 0; slot < 8; ++slot) free.push_back({.slot = slot});
  std::map<AttemptId, LaneId> lane_of;
  std::int64_t started = 0;
  std::size_t seen = 0;
  const auto fill = [&] {
    for (; seen < events_.size(); ++seen) {
      const auto* exited = std::get_if<engine_event::Exited>(&events_[seen]);
      if (exited == nullptr) continue;
      free.push_back(lane_of.at(exited->id));
      engine_->acknowledge(exited->id, "", "");
    }
    for (; started < 100 && !free.empty(); free.pop_back()) {
      const AttemptId id = {{++started}, 1};
      lane_of[id] = free.back();
      run_on(free.back(), shell(id, "exit " + std::to_string(id.job.value)));
    }
    return count<engine_event::Exited>() == 100;
  };
  EXPECT_TRUE(until(fill));
  EXPECT_EQ(engine_->keeper_pids().size(), 8u);
  for (const auto& [id, lane] : lane_of)
    EXPECT_EQ(find<engine_event::Exited>(id)->exit_code, id.job.value);
}

}  // namespace
}  // namespace pergpu
