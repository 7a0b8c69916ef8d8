// The local engine: real processes on this machine, each below a keeper (keeper/keeper.h).
//
// A start is one frame to a keeper that is already there: nothing forks here.  Each lane in use has
// its own keeper, which stays for the lane's next attempt; idle ones end after a minute, but one
// stays as long as the engine lives, because a keeper is what starts a new coordinator.
//
// An attempt whose keeper is gone is looked up in the keeper's record; when its end is not there,
// its processes are found and ended, and only when none is left it is reported as Lost.  A keeper
// is gone when its process is, or when its socket has no listener; a connection that breaks
// proves nothing and is made again.
//
// A job may stop its keeper (SIGSTOP): the keeper is made to go on.  One that does not end what it
// was asked to end, and does not answer, is ended with everything below it (stop_watch.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "os/clock.h"
#include "os/loop.h"
#include "run/engine.h"
#include "run/foreign_keepers.h"
#include "run/keeper_link.h"
#include "run/living_keepers.h"
#include "run/stack_writer.h"
#include "run/stop_watch.h"
#include "run/undertaker.h"

namespace pergpu {

class LocalEngine final : public Engine {
 public:
  struct Config {
    std::string run_dir = {};  // 0700, exists
    std::string keeper_program = {};
    std::string pergpu_program = {};
    std::string home = {};
    std::string boot_id = {};
    os::CgroupSite groups = {};
    /// The run folder is still that of this home, and may be written to.
    std::function<bool()> has_home = [] { return true; };
    std::function<void(const EngineEvent&)> on_event = {};
    bool keepers_end_alone = false;          // keeper_link.h
    std::int64_t answer_ns = 5'000'000'000;  // what a found keeper has to say what it holds
    /// From SIGTERM to SIGKILL, of an attempt that an earlier coordinator has started.
    std::function<std::chrono::nanoseconds(AttemptId)> grace_of = {};
  };
  LocalEngine(os::Loop& loop, os::Clock& clock, Config config);
  ~LocalEngine() override;

  KeeperId assign(LaneId lane) override;
  void unassign(LaneId lane) override;
  void prepare(LaneId lane, const FolderPlan& folder) override;
  void start(LaneId lane, AttemptPlan plan) override;
  void stop(AttemptId id, StopHow how) override;
  void signal(AttemptId id, int number) override;
  void write_stacks(AttemptId id, const std::string& path,
                    std::function<void(bool written)> done) override;
  void acknowledge(AttemptId id, std::string record_path, std::string final_record) override;
  void adopt(std::vector<ExpectedAttempt> expected) override;
  bool may_start() const override;
  std::vector<std::int32_t> keeper_pids() const override;
  std::int32_t keeper_pid(AttemptId id) const override;
  /// Closes down: keepers without an attempt end; with one they wait for the next coordinator,
  /// and start it themselves only if `revive`.
  void release(bool revive);

  /// Keepers whose files are not all in this folder make them again there; new ones get theirs
  /// there.
  void restore_files(const std::string& run_dir);

 private:
  static constexpr char kLastNumber[] = "/last-keeper";  // in the run folder: numbers given so far
  struct Keeper {
    std::unique_ptr<KeeperLink> link = {};
    std::optional<LaneId> lane = std::nullopt;  // of its attempt, or of the last one
    bool assigned = false;                      // chosen for a start that has not come yet
    std::optional<AttemptId> attempt = std::nullopt;
    bool state_wanted = false;  // found, or connected to again: its STATE is still to come
    bool was_asked = false;     // for a sign of life, which is still to come
    std::int64_t idle_since_ns = 0;
    std::int64_t pause_ns = 0;          // before it is connected to again
    std::int64_t unheard_since_ns = 0;  // it lives, but its socket has no listener; 0: it is not so
    /// Than this process to give to jobs, or it is of an earlier release: it starts none any more.
    bool has_less = false;
    bool is_free() const { return !attempt && !assigned && !state_wanted; }
    bool may_start() const { return is_free() && !has_less; }
  };
  /// An attempt from its start (or adoption) until it is acknowledged.
  struct Tracked {
    KeeperId keeper = {};
    std::int32_t pid = 0;
    std::uint64_t start_ticks = 0;
    std::string log_path = {};
    std::optional<std::chrono::nanoseconds> grace = std::nullopt;  // of its plan
    std::vector<std::string> groups = {};  // control groups, as its keeper reported
    bool started_told = false;
    bool ended = false;
    bool is_buried = false;  // its tree is being ended, because no keeper has it
    // What was asked for, in case the keeper's connection broke on the way.
    std::optional<StopHow> stop = std::nullopt;
    int signal = 0;
  };
  /// What keepers that are gone had recorded.
  struct Recorded {
    KeeperId keeper = {};
    keeper::Held held = {};
  };
  using Records = std::map<AttemptId, Recorded>;

  Result<KeeperId> start_keeper();
  Result<void> learn_numbers();
  void write_last_number() const;
  Keeper* keeper_of(LaneId lane);
  Keeper* any_free_keeper();
  KeeperLink::Callbacks callbacks_of(KeeperId id);
  void on_frame(KeeperId id, os::FrameStream::Frame frame);
  void on_keeper_gone(KeeperId id, const std::string& why);

  void on_state(KeeperId id, const keeper::State& state, std::vector<os::UniqueFd> leases);
  void on_held(KeeperId id, const keeper::Held& held, std::vector<os::UniqueFd> leases);
  void on_started(const keeper::Started& started, std::vector<os::UniqueFd> leases,
                  bool has_keeper = true);
  void on_failed(KeeperId id, const keeper::SpawnFailed& failed);
  void on_exited(KeeperId id, const keeper::Exited& exited);

  // What is to end although its keeper does not see to it (local_stop.cc).
  StopWatch::Parts watch_parts();
  void watch_stop(AttemptId id, StopHow how);
  KeeperId holder_of(AttemptId id) const;
  bool is_pending(AttemptId id) const;
  void ask_keeper(KeeperId id);
  bool has_answered(KeeperId id) const;
  void end_keeper(AttemptId id, KeeperId keeper);
  void watch_stopped();
  void wake_keepers();
  bool wake(KeeperId id) const;

  void on_keeper_broken(KeeperId id, const std::string& why);
  void reconnect(KeeperId id);
  void lose_undelivered(KeeperId id, const keeper::State& state);
  void say_again(KeeperId id);

  void find_keepers();
  void find_keeper(KeeperId id);
  void find_again(std::function<void()> find);
  void await_hidden();
  bool is_hidden(KeeperId id);
  void remove_sockets(KeeperId id) const;
  void unlink_record(KeeperId id) const;
  std::vector<std::string> run_folders() const;
  Result<std::vector<KeeperId>> list_keepers(std::string_view suffix) const;
  void adopt_found();
  void give_up_waiting();
  bool is_settled(const ExpectedAttempt& one, const Records& records) const;
  bool holds_up_starts(KeeperId id) const;
  bool is_known(KeeperId id) const;
  Result<Records> records_of_the_gone() const;

  // Keepers of other homes (local_foreign.cc).
  std::optional<ForeignKeepers::Keeper> foreign_of(KeeperId id, const keeper::State& state) const;
  void leave_alone(KeeperId id, const ForeignKeepers::Keeper& foreign);
  void watch_foreign();
  void look_at_foreign();
  bool is_proven_of(const ForeignKeepers::Keeper& foreign, AttemptId id) const;

  void read_record(KeeperId id, Records& into) const;
  void remove_record_of(KeeperId id);
  void recover_expected(const ExpectedAttempt& one, const Records& records, const std::string& why);
  void end_unexpected(const Records& records);
  void recover(AttemptId id, const std::string& why, const Records& records);
  void bury(AttemptId id, const std::string& why);
  std::vector<std::string> groups_to_bury(const Tracked& tracked) const;
  std::string marker_of(AttemptId id) const { return config_.home + "/" + to_string(id); }
  void lose(AttemptId id, const std::string& why);
  void remove_leftovers();
  void remove_group_of(KeeperId id);
  void free_keeper(KeeperId id, AttemptId of);
  bool end_tracking(KeeperId keeper, AttemptId of);
  void tell(const keeper::Exited& exited);
  void tell(const keeper::SpawnFailed& failed);
  void schedule_trim();
  void trim();
  void emit(const EngineEvent& event);
  void emit_later(EngineEvent event);

  os::Loop& loop_;
  os::Clock& clock_;
  Config config_;
  KeeperSite site_;
  Undertaker undertaker_;
  StopWatch stop_watch_;
  StackWriter stack_writer_;
  std::map<KeeperId, Keeper> keepers_;
  std::map<LaneId, KeeperId> keeper_of_lane_;
  std::map<AttemptId, Tracked> attempts_;
  std::map<AttemptId, ExpectedAttempt> expected_;  // of adopt(), not yet found
  std::set<AttemptId> unexpected_;                 // run, or may, and are not expected
  std::set<KeeperId> unreachable_;                 // have a socket, could not be connected to yet
  ForeignKeepers foreign_;
  std::set<KeeperId> woken_;        // were stopped, and that was said
  std::set<KeeperId> silent_;       // did not answer: their end is their attempt's
  std::set<KeeperId> being_ended_;  // of those
  /// Live by /proc, and their sockets have no listener; since when.
  struct Hidden {
    LivingKeeper process = {};
    std::int64_t since_ns = 0;
  };
  std::map<KeeperId, Hidden> hidden_;
  bool unlisted_ = false;  // the run folder could not be read yet
  std::vector<std::unique_ptr<KeeperLink>> leaving_;
  bool is_adopting_ = false;  // not every keeper has said what it holds
  bool starts_wait_ = false;  // … and what they hold is not known from their records either
  std::int64_t last_keeper_ = 0;
  bool knows_numbers_ = false;
  int start_errno_ = 0;  // of the last keeper that could not be started
  os::Loop::TimerId trim_timer_ = 0;
  os::Loop::TimerId adopt_timer_ = 0;
  os::Loop::TimerId wake_timer_ = 0;
  os::Loop::TimerId foreign_timer_ = 0;
  std::shared_ptr<bool> alive_;
};

}  // namespace pergpu
