// Jobs that cannot be started because a disk is full, read-only or failing.
//
//   wide    nothing of the sweep (of the step, where a program or a working folder failed) starts.
//           Its folder is looked at now and then, less and less often; when it could be written to,
//           one job is started: another one than those that failed, since their folders alone may
//           be bad.  Had that failed the same way, the pause would be twice as long as before.
//   narrow  that job ran: all others follow.  Those that failed wait each for itself, and are tried
//           one after the other; each that runs has the next one follow at once.
//
// A start that fails so costs the job nothing (job/not_started.h); but each takes the number of an
// attempt, so that looks come first, and starts fewer and fewer.  No outage decides for another.
// Those on one file system only take turns with their looks (look_turns.h).
//
// Kept in memory only: after a restart the first starts fail, and the jobs wait again.  Thread: the
// deciding one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "coordinator/look_turns.h"
#include "job/classify.h"
#include "job/schedule/queue.h"
#include "os/clock.h"
#include "state/world.h"
#include "timers.h"

namespace pergpu {

class StorageWaits {
 public:
  struct Look {
    int os_errno = 0;          // 0: it could be written to, or not known
    std::uint64_t device = 0;  // on which it lies; 0: not known
  };
  using Found = std::function<void(Look)>;
  struct Parts {
    const World* world = nullptr;
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    /// Tries whether a folder can be written to, on another thread: disks may hang.  Empty: nothing
    /// looks, and after each pause a job is tried.
    std::function<void(std::string folder, Found found)> look = {};
    /// The same for a sweep whose output root is another folder than before (ESTALE).
    std::function<void(SweepId sweep, Found found)> look_at_root = {};
    std::function<void(StepKey, bool)> pause = {};  // nothing of the step starts
    std::function<bool(StepKey)> has_ready = {};    // jobs that holds() says nothing of
    std::function<bool(JobId)> is_ready = {};       // it starts by itself, at once or later
    std::function<bool(JobId)> is_starting = {};    // it was chosen, and doesn't run yet
    std::function<void(JobId)> freed = {};          // holds() has changed
    std::function<void(SweepId)> changed = {};      // of its jobs, why they wait
    std::function<void(SweepId)> lasts = {};        // it has gone on for a while: notify people
  };
  explicit StorageWaits(Parts parts);
  ~StorageWaits();
  StorageWaits(const StorageWaits&) = delete;
  StorageWaits& operator=(const StorageWaits&) = delete;

  /// A start of the job failed by an error of storage_errno.h.
  void add(const Job& job, const SpawnFailure& failure);
  /// A job was chosen, and the start isn't recorded yet.  May pause its step at once.
  void on_start(JobId job);
  /// Once per turn, before jobs are chosen.
  void settle();

  /// Its own start has failed, and its turn to be tried hasn't come: it is no matter of the queue.
  bool holds(JobId job) const;
  bool has(const Job& job) const;
  bool has(SweepId sweep) const;
  bool empty() const { return outages_.empty(); }
  /// Which folder, why, since when and what to do.  REQUIRES: has(…).
  std::string words(const Job& job) const;
  std::string words(SweepId sweep) const;

 private:
  static constexpr std::int16_t kAllSteps = -1;
  /// What may share the trouble of a job.
  struct Scope {
    SweepId sweep = {};
    std::int16_t step = kAllSteps;
    auto operator<=>(const Scope&) const = default;
  };
  struct Outage {
    int id = 0;  // a timer or a look may come when another outage has its scope
    bool is_wide = true;
    SpawnFailure failure = {};  // the newest
    Instant since = {};         // that it is wide
    int failed_trials = 0;      // in a row
    std::int64_t pause_ns = 0;  // before the next look
    Timers::Id timer = 0;
    Timers::Id lasts_timer = 0;
    std::uint64_t device = 0;  // of the last look
    bool is_trying = false;    // a wide one without a trial: the next job that starts is it
    JobId trial = {};
    std::int32_t trial_attempt = 0;
    std::deque<JobId> refused = {};  // in the order in which they are tried
    JobId freed = {};                // one of them, whose turn it is
    bool is_closed() const { return is_wide && (!is_trying || trial); }
  };
  struct Refusal {
    Scope scope = {};
    SpawnFailure failure = {};
    Instant since = {};
  };

  Outage* find(Scope scope, int id);
  Outage& outage_of(Scope scope);
  void refuse(Scope scope, Outage& outage, const Job& job, const SpawnFailure& failure);
  void leave_other(JobId job, Scope scope);
  void widen(Scope scope, Outage& outage);
  void wait(Scope scope, Outage& outage);
  void arm(Scope scope, Outage& outage);
  void look(Scope scope, int id);
  void on_found(Scope scope, int id, const Look& found);
  std::string place_to_look_at(Scope scope, const Outage& outage) const;
  const SpawnFailure& subject(const Outage& outage) const;
  bool is_over(Scope scope, Outage& outage);
  void review_trial(Scope scope, Outage& outage);
  void free_next(Outage& outage);
  void set_trial(Outage& outage, JobId job);
  void end(Scope scope);
  void update_pauses();
  const Outage* wide_of(const Job& job, Scope* scope) const;
  std::string words(const SpawnFailure& failure, Instant since, const std::string& what) const;

  Parts parts_;
  std::map<Scope, Outage> outages_;
  std::map<JobId, Refusal> refusals_;  // each of them is in `refused` of its outage, or `freed`
  std::set<StepKey> paused_;
  LookTurns turns_;
  int last_ = 0;
  std::shared_ptr<bool> alive_;  // a look may come back later than this is gone
};

}  // namespace pergpu
