// The simulated machine: processes, keepers, GPUs.  It is what really is; the coordinator only
// hears of it.  It lives on while coordinators come and go, and it checks at each start what must
// hold then: one tree a job, a free lane, a GPU that nobody uses.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "os/fd.h"
#include "run/engine.h"
#include "simulation/agenda.h"
#include "simulation/faults.h"

namespace pergpu::simulation {

/// One attempt as it really is.
struct Tree {
  enum class Phase : std::uint8_t { Sent, Running, Ended, NotStarted };
  AttemptId id = {};
  LaneId lane = {};
  std::vector<std::string> gpus = {};
  bool shares = false;  // it has a share of its GPU
  std::vector<os::UniqueFd> leases = {};
  Phase phase = Phase::Sent;
  std::int32_t pid = 0;
  std::int64_t grace_ns = 0;
  bool term_asked = false;
  bool signalled = false;
  bool stubborn = false;  // ignores SIGTERM
  bool polite = false;    // ends with code 0 on SIGTERM
  std::int64_t ended_at = 0;
  std::optional<int> exit_code = std::nullopt;
  std::optional<int> signal = std::nullopt;
  std::string missing_output = {};
  engine_event::SpawnFailed failure = {};
  bool keeper_lives = true;
  Agenda::Id next = 0;  // its end, or its start

  bool alive() const { return phase == Phase::Running; }
};

/// What is known of an attempt once and for all, for the checker of the history.
struct Truth {
  bool received = false;  // the keeper got START
  bool status_known = false;
  bool keeper_killed = false;
  bool machine_restarted = false;
  std::optional<int> exit_code = std::nullopt;
  std::optional<int> signal = std::nullopt;
  bool output_missing = false;
  bool not_started = false;
  bool gpu_was_ill = false;          // at some time while it had one
  std::int64_t told_broken_ns = -1;  // when the coordinator that lives learnt of an Xid of its GPU
};

struct Gpu {
  GpuReading reading;
  bool listed = true;
  std::int64_t leftover = 0;   // job whose memory is not back; 0: none
  bool shown_foreign = false;  // by the last look that was answered
  bool shown_well = false;
  std::vector<std::int64_t> xids = {};  // happened, and to be told by the next look
  bool told_fatal = false;              // the coordinator that lives knows that only a reboot helps
  bool needs_a_person = false;          // no look will ever show that its fault is over
};

class Machine {
 public:
  Machine(Clock& clock, Agenda& agenda, Dice& dice, Faults& faults, int gpus);

  // What a coordinator asks for, through the engine of its life.
  void start(LaneId lane, AttemptPlan plan, const std::vector<std::string>& gpus);
  void stop(AttemptId id, StopHow how);
  void signal(AttemptId id, int number);
  void acknowledge(AttemptId id);
  void adopt(const std::vector<ExpectedAttempt>& expected);

  /// Whom to tell: the engine of the coordinator that lives, or nobody.
  void connect(std::function<void(EngineEvent)> tell) { tell_ = std::move(tell); }
  /// The coordinator was killed.  What was on its way to keepers may have arrived or not.
  void disconnect();
  void restart();

  // What happens by itself.
  void kill_a_keeper();
  void shake_gpus();
  /// Everything becomes as it should be.
  void heal();

  /// `is_reticent`: values of the health are not told.
  GpuLook look(bool is_reticent);
  /// Whether the probe stays between looks.
  void stay(bool wanted) { probe_stays_ = wanted; }
  /// A person has mended it, or wants to use it as it is.
  void released(const std::string& uuid);
  std::size_t alive() const;
  bool empty() const { return trees_.empty(); }
  const std::map<AttemptId, Tree>& trees() const { return trees_; }
  const Truth& truth(AttemptId id) { return truths_[id]; }
  const std::vector<Gpu>& gpus() const { return gpus_; }
  /// REQUIRES: the coordinator has just decided to start a job there.
  void check_may_use(const std::string& uuid, bool avoids_outsiders, bool shares) const;

 private:
  void execute(AttemptId id);
  void end(AttemptId id, std::optional<int> exit_code, std::optional<int> signal);
  void bury(AttemptId id);
  void report(const Tree& tree);
  void report_start(const Tree& tree);
  void tell(EngineEvent event);
  Gpu& gpu(const std::string& uuid);
  void happen(Gpu& gpu, std::int64_t xid);
  void mark_ill(const Gpu& gpu);
  void tell_xids(Gpu& gpu, GpuLook& look);
  std::vector<AttemptId> attempts_on(const Gpu& gpu) const;

  Clock& clock_;
  Agenda& agenda_;
  Dice& dice_;
  Faults& faults_;
  std::map<AttemptId, Tree> trees_;
  std::map<AttemptId, Truth> truths_;
  std::vector<Gpu> gpus_;
  std::function<void(EngineEvent)> tell_;
  std::int64_t told_until_ = 0;  // a socket keeps the order of what is sent
  std::int32_t last_pid_ = 1000;
  bool probe_stays_ = false;
  std::int64_t last_look_ = -kHour;
};

}  // namespace pergpu::simulation
