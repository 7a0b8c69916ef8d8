// A local engine under test, with real keepers and real processes in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/fs/boot_id.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"
#include "run/local.h"

namespace pergpu {

inline constexpr std::int64_t kDeadlineNs = 30'000'000'000;
inline constexpr LaneId kLane = {.pool = LaneId::Pool::Cpu, .sweep = {}, .slot = 0};
inline constexpr LaneId kOtherLane = {.pool = LaneId::Pool::Cpu, .sweep = {}, .slot = 1};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class LocalEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    make_run_dir();
    loop_ = *os::Loop::create();
    loop_->on_turn([this] {
      if (condition_ && condition_()) loop_->stop();
    });
    open_engine();
  }
  void TearDown() override {
    if (engine_) remember_keepers();
    for (const auto& [keeper, start_ticks] : all_keepers_) {
      if (!os::is_alive(keeper, start_ticks)) continue;  // the pid may be another's by now
      for (const os::TreeMember& member : os::descendants_of(keeper)) ::kill(member.pid, SIGKILL);
      ::kill(keeper, SIGKILL);
    }
    engine_.reset();
    loop_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string run_dir() const { return folder_ + "/" + run_name_; }
  std::string home() const { return home_.empty() ? folder_ : home_; }
  void make_run_dir() const {
    std::filesystem::create_directory(run_dir());
    std::filesystem::permissions(run_dir(), std::filesystem::perms::owner_all);
  }
  std::string out(AttemptId id) const { return folder_ + "/out" + std::to_string(id.job.value); }

  void open_engine() {
    engine_ = std::make_unique<LocalEngine>(
        *loop_, clock_,
        LocalEngine::Config{.run_dir = run_dir(),
                            .keeper_program = keeper_program_,
                            .pergpu_program = "/bin/true",
                            .home = home(),
                            .boot_id = os::boot_id(),
                            .groups = groups_,
                            .has_home = [this] { return has_home_; },
                            .on_event = [this](const EngineEvent& e) { events_.push_back(e); },
                            .answer_ns = 200'000'000});
  }
  /// What kill -9 of a coordinator does: sockets close, nothing is said.
  void kill_coordinator() {
    remember_keepers();
    engine_.reset();
    events_.clear();
  }
  void remember_keepers() {
    for (const std::int32_t pid : engine_->keeper_pids()) {
      const std::optional<os::ProcStat> stat = os::read_stat(pid);
      all_keepers_.push_back({pid, stat ? stat->start_ticks : 0});
    }
  }
  void kill_keepers() {
    for (const Known& keeper : all_keepers_) ::kill(keeper.pid, SIGKILL);
    EXPECT_TRUE(until([&] {
      return std::all_of(all_keepers_.begin(), all_keepers_.end(),
                         [&](const Known& keeper) { return gone(keeper.pid); });
    }));
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
    plan.env = {"PATH=/usr/bin:/bin", "PERGPU_ATTEMPT_ID=" + home() + "/" + to_string(id)};
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
  /// Of the attempt that runs.
  pid_t keeper_of(const engine_event::Started& started) const {
    const std::optional<os::ProcStat> stat = os::read_stat(started.pid);
    return stat ? stat->parent : 0;
  }
  /// As a debugger does: the process neither runs nor heeds SIGCONT.  It can be killed.
  static void seize(pid_t pid) {
    ASSERT_EQ(::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr), 0);
    ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr), 0);
    ASSERT_EQ(::waitpid(pid, nullptr, __WALL), pid);
  }
  bool gone(std::int32_t pid) const {
    const std::optional<os::ProcStat> stat = os::read_stat(pid);
    return !stat || stat->ended();
  }

  std::string folder_;
  std::string run_name_ = "run";
  std::string keeper_program_ = PERGPU_BINARY_DIR "/pergpu-keeper";
  std::string home_;  // "": the folder
  bool has_home_ = true;
  os::CgroupSite groups_;
  os::RealClock clock_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<LocalEngine> engine_;
  std::vector<EngineEvent> events_;
  struct Known {
    pid_t pid = 0;
    std::uint64_t start_ticks = 0;
  };
  std::vector<Known> all_keepers_;
  std::function<bool()> condition_;
};

inline constexpr AttemptId kFirst = {{1}, 1};
inline constexpr AttemptId kSecond = {{2}, 1};

}  // namespace pergpu
