// Sweeps whose jobs cannot be started because a disk is full, read-only or failing.
//
//   waiting  nothing of the sweeps starts; the folder is looked at now and then, less and less
//   often trying   it could be written to: one job, of all the sweeps that wait for this disk, is
//   started over     that job runs: all the others follow by themselves. Had it failed the same
//   way, the
//            first pause would be twice as long as before
//
// A start that fails so costs the job nothing (job/not_started.h); but each takes the number of an
// attempt, so that looks come first, and starts fewer and fewer. Sweeps whose folders turn out to
// lie on one file system wait together.
//
// Kept in memory only: after a restart the first starts fail, and the sweeps wait again. Thread:
// the deciding one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "coordinator/timers.h"
#include "coordinator/world.h"
#include "job/classify.h"
#include "job/queue.h"
#include "os/clock.h"

namespace pergpu {

class StorageWaits {
 public:
  struct Look {
    int os_errno = 0;          // 0: it could be written to, or nobody knows
    std::uint64_t device = 0;  // on which it lies; 0: not known
  };
  using Found = std::function<void(Look)>;
  struct Parts {
    const World* world = nullptr;
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    /// Tries whether a folder can be written to, on another thread: disks may hang.  Empty: nobody
    /// looks, and after each pause a job is tried.
    std::function<void(std::string folder, Found found)> look = {};
    /// The same for sweeps whose output root is another folder than before (ESTALE).
    std::function<void(const std::set<SweepId>& sweeps, Found found)> look_at_roots = {};
    std::function<void(StepKey, bool)> pause = {};  // nothing of the step starts
    std::function<bool(JobId)> is_starting = {};    // it was chosen, and doesn't run yet
    std::function<void(SweepId)> changed = {};      // of its jobs, why they wait
    std::function<void(SweepId)> lasts = {};        // it has gone on for a while: people are told
  };
  explicit StorageWaits(Parts parts);
  ~StorageWaits();
  StorageWaits(const StorageWaits&) = delete;
  StorageWaits& operator=(const StorageWaits&) = delete;

  /// A start of the job failed by an error of storage_errno.h.
  void add(const Job& job, const SpawnFailure& failure);
  /// A job was chosen to start.  May pause its step at once.
  void on_start(JobId job);
  /// Once per turn, before jobs are chosen.
  void settle();

  bool has(SweepId sweep) const { return of_.contains(sweep); }
  bool empty() const { return outages_.empty(); }
  /// Which folder, why, since when and what to do.  REQUIRES: has(sweep).
  std::string words(SweepId sweep) const;

 private:
  using OutageId = int;
  struct Outage {
    std::set<SweepId> sweeps = {};
    std::set<StepKey> steps = {};  // that pause, or have
    std::string object = {};       // what could not be written, and
    std::string phase = {};        // what was to be done with it
    int os_errno = 0;
    Instant since = {};
    std::int64_t pause_ns = 0;  // before the next look
    Timers::Id timer = 0;
    Timers::Id lasts_timer = 0;
    std::uint64_t device = 0;
    bool is_trying = false;
    JobId trial = {};
    std::int32_t trial_attempt = 0;
  };
  /// What a sweep has met before: a disk on which starts fail again and again is tried less often.
  struct Past {
    std::int64_t pause_ns = 0;  // the first one, last time
    std::int64_t at_ns = 0;     // when it began, or the outage was over
  };

  void begin(SweepId sweep, Outage outage);
  void wait(OutageId id, Outage& outage);
  std::int64_t first_pause(const Outage& outage);
  void arm(OutageId id, Outage& outage);
  void look(OutageId id);
  void on_found(OutageId id, const Look& found);
  void join_by_device(OutageId id);
  void try_one(Outage& outage);
  bool drop_ended(Outage& outage);
  void end(OutageId id);
  void pause(Outage& outage, bool pauses);
  void tell_changed(const Outage& outage);

  Parts parts_;
  std::map<OutageId, Outage> outages_;
  std::map<SweepId, OutageId> of_;
  std::map<SweepId, Past> past_;
  OutageId last_ = 0;
  std::shared_ptr<bool> alive_;  // a look may come back later than this is gone
};

}  // namespace pergpu
