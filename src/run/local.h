// The local engine: real processes on this machine, each below a keeper (keeper/keeper.h).
//
// A start is one frame to a keeper that is already there: nothing forks here.  Each lane in use has
// a keeper of its own, which stays for the lane's next attempt; idle ones end after a minute, but
// one stays as long as the engine lives, because a keeper is what starts a new coordinator.
//
// An attempt whose keeper is gone is looked up in the keeper's record; when its end is not there,
// its processes are found and ended, and only when none is left it is reported as Lost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "os/clock.h"
#include "os/loop.h"
#include "run/engine.h"
#include "run/keeper_link.h"
#include "run/stack_writer.h"
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
    std::function<void(const EngineEvent&)> on_event = {};
  };
  LocalEngine(os::Loop& loop, os::Clock& clock, Config config);
  ~LocalEngine() override;

  KeeperId assign(LaneId lane) override;
  void prepare(LaneId lane, const FolderPlan& folder) override;
  void start(LaneId lane, AttemptPlan plan) override;
  void stop(AttemptId id, StopHow how) override;
  void signal(AttemptId id, int number) override;
  void write_stacks(AttemptId id, const std::string& path,
                    std::function<void(bool written)> done) override;
  void acknowledge(AttemptId id, std::string record_path, std::string final_record) override;
  void adopt(std::vector<ExpectedAttempt> expected) override;
  std::vector<std::int32_t> keeper_pids() const override;
  void release(bool revive) override;

 private:
  struct Keeper {
    std::unique_ptr<KeeperLink> link = {};
    std::optional<LaneId> lane = std::nullopt;  // of its attempt, or of the last one
    bool assigned = false;                      // chosen for a start that has not come yet
    std::optional<AttemptId> attempt = std::nullopt;
    bool state_wanted = false;  // found again, its STATE is still to come
    std::int64_t idle_since_ns = 0;
    bool is_free() const { return !attempt && !assigned && !state_wanted; }
  };
  /// An attempt from its start (or adoption) until it is acknowledged.
  struct Tracked {
    KeeperId keeper = {};
    std::int32_t pid = 0;
    std::uint64_t start_ticks = 0;
    std::string log_path = {};
    std::vector<std::string> groups = {};  // control groups, as its keeper told
    bool started_told = false;
    bool ended = false;
  };

  Result<KeeperId> start_keeper();
  Keeper* keeper_of(LaneId lane);
  Keeper* any_free_keeper();
  KeeperLink::Callbacks callbacks_of(KeeperId id);
  void on_frame(KeeperId id, os::FrameStream::Frame frame);
  void on_keeper_gone(KeeperId id, const std::string& why);

  void on_state(KeeperId id, const keeper::State& state, std::vector<os::UniqueFd> leases);
  void on_held(KeeperId id, const keeper::Held& held, std::vector<os::UniqueFd> leases);
  void on_started(const keeper::Started& started, std::vector<os::UniqueFd> leases);
  void on_failed(KeeperId id, const keeper::SpawnFailed& failed);
  void on_exited(KeeperId id, const keeper::Exited& exited);

  void find_keepers();
  void find_keeper(KeeperId id);
  void find_again(std::function<void()> find);
  void adopt_found();
  void give_up_waiting();
  void recover_expected(const ExpectedAttempt& one);
  void recover(AttemptId id, const std::string& why);
  void bury(AttemptId id, const std::string& why);
  void remove_group_of(KeeperId id);
  void free_keeper(KeeperId id, AttemptId of);
  bool end_tracking(KeeperId keeper, AttemptId of);
  void schedule_trim();
  void trim();
  void emit(const EngineEvent& event);
  void emit_later(EngineEvent event);

  os::Loop& loop_;
  os::Clock& clock_;
  Config config_;
  KeeperSite site_;
  Undertaker undertaker_;
  StackWriter stack_writer_;
  std::map<KeeperId, Keeper> keepers_;
  std::map<LaneId, KeeperId> keeper_of_lane_;
  std::map<AttemptId, Tracked> attempts_;
  std::map<AttemptId, ExpectedAttempt> expected_;  // of adopt(), not yet found
  std::set<KeeperId> unreachable_;                 // have a socket, could not be connected to yet
  bool unlisted_ = false;                          // the run folder could not be read yet
  std::vector<std::unique_ptr<KeeperLink>> leaving_;
  std::int64_t last_keeper_ = 0;
  os::Loop::TimerId trim_timer_ = 0;
  os::Loop::TimerId adopt_timer_ = 0;
  std::shared_ptr<bool> alive_;
};

}  // namespace pergpu
