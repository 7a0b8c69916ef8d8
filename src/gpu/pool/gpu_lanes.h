// The life of a GPU lane between two jobs: lease, look, verdict.
//
//            acquire                lease taken             clean
//   Idle ---------------> Leasing ------------> Looking ------------> Ready --occupy--> InUse
//    ^                       | Busy                | not clean          | not chosen       | vacate
//    |                  LeasedByOther <--yield--   v                    v                  v
//    +------------ Doubtful <---pause----------- Closed <-------------+------------- Settling
//          clean          --not clean-->   (foreign, dirty, unusable, unknown, quarantined)
//
// A Doubtful lane may be tried by a job and is looked at when none does; until a look finds it
// clean it is shown with what was wrong.  The pause is 2 s while a job waits for the lane, else it
// grows.
//
// A lane is looked at right before each start, with the lease in hand.  After a job it is looked at
// at once, then after 50, 100, 200 ms … up to 10 s; then it is dirty (docs/gpus.md).  Between jobs
// a lease stays only while a next job is chosen, and is given to another user who waits for it.
//
// A GPU in quarantine (gpu/quarantine.h) is closed at the first look that could open it, and looked
// at less and less often, for only a repair that shows can end that by itself.
//
// Jobs with a share of a GPU are its tenants.  The first takes the way above; others join it while
// it is InUse, each after its own look, and the last one to go leaves it Settling.  No job joins
// while another user waits for the lease, or something of a tenant is left.
//
// What the scheduler may use is written into Capacity::gpus (`busy`, `parts`, `outsiders`).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "gpu/foreign.h"
#include "gpu/inventory.h"
#include "gpu/lanes.h"
#include "gpu/lease.h"
#include "gpu/lease_watch.h"
#include "gpu/pool/gpu_care.h"
#include "ids.h"
#include "job/schedule/schedule.h"
#include "os/clock.h"
#include "timers.h"

namespace pergpu {

class GpuLanes {
 public:
  struct Parts {
    GpuInventory* inventory = nullptr;
    os::Loop* loop = nullptr;  // for lease watches
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    std::function<bool(const GpuProcess&)> ours;  // a process of our live attempt
    std::function<std::optional<JobId>(const GpuProcess&)> job_of = {};  // whose, as far as known
    std::string locks = {};  // folder of the leases; "": the one for all users
  };
  explicit GpuLanes(Parts parts);
  ~GpuLanes();

  /// Gets every look before lanes are judged by it; its quarantines keep lanes closed.  REQUIRES:
  /// it outlives this; before the first look.
  void attend(GpuCare* care) { care_ = care; }

  /// First look: finds out which GPUs there are.  `known` runs when it is over, at the latest at
  /// the probe's deadline, and again whenever a later look shows a GPU that the one before did not.
  void discover(std::function<void()> known);
  bool discovered() const { return discovered_; }
  /// A look has shown a GPU.
  bool any() const;
  /// Call it each turn; `missing`: a queued job wants a GPU that no look has shown.  Looks again
  /// after 1 s, 2 s … 60 s: a driver that was hung, missing or still loading may be there by then.
  void search(bool missing);
  /// Words when GPUs could not be looked at ("the probe did not answer …"); "" otherwise.
  const std::string& trouble() const { return trouble_; }
  /// Words while the driver's parts do not fit each other: no job could use a GPU.  "": they do.
  const std::string& driver_trouble() const { return driver_trouble_; }
  /// The last complete one.
  const GpuLook& last_look() const { return look_; }

  /// One look that begins from now on; `done` runs after the lanes were judged by it, at the latest
  /// when the look under way and this one have met their deadlines.
  void examine(std::function<void(const GpuLook&)> done);
  /// Its quarantine was ended by a person: it is looked at again soon.
  void reconsider(const std::string& uuid);

  /// Writes the lanes' present state into `capacity.gpus`.
  void fill(Capacity& capacity) const;

  /// Makes the lanes ready for `job`: `done(true)` when it may start now (leases held, clean), else
  /// `done(false)` and fill() says why not.  Always answers later, never inside the call, unless
  /// they are ready already.  Of several those that are ready wait for the others; no job waits for
  /// a lease with another one in hand.
  void acquire(const std::vector<std::string>& uuids, JobId job, const Demand& demand, LaneId lane,
               std::function<void(bool ready)> done);
  /// The job starts (or was adopted) there.
  void occupy(const std::string& uuid, JobId job, const Demand& demand, LaneId lane);
  /// What it asked for is another share, or other memory, from now on.  Only of one that shares.
  void amend(const std::string& uuid, JobId job, const Demand& demand);
  /// Of the GPU's memory, what is not promised to others that share it; 0: not known.
  std::uint64_t left_for(const std::string& uuid, JobId job) const;
  /// The job does not start after all, whatever it was answered.
  void forgo(const std::string& uuid, JobId job);
  /// The lease of an attempt that was adopted, as its keeper gave it back.
  void adopt_lease(const std::string& uuid, os::UniqueFd& fd);
  /// Its lease, to be inherited by the attempt; -1: none held here.
  int lease_fd(const std::string& uuid) const;
  /// What is left of the job's attempt although it was killed, as text; "": nothing is known to be.
  void tell(const std::string& uuid, JobId job, const std::string& words);
  /// The attempt ended.  `gone`: its whole tree is proven gone.
  void vacate(const std::string& uuid, JobId job, bool gone);
  /// End of a scheduling turn: leases that nothing was chosen for are released.  `wanted(uuid)`: a
  /// ready job could use this GPU, so its lease is worth waiting for, and a look worth its cost.
  void settle(const std::function<bool(const std::string& uuid)>& wanted);

  /// How many GPUs there are.
  std::size_t count() const { return lanes_.size(); }
  /// A shared GPU has a lane for each job on it.
  std::vector<LaneSnapshot> lanes() const;
  std::vector<GpuSnapshot> gpus() const;
  const gpu::GpuLane* facts(const std::string& uuid) const;
  /// Of the GPU that has the most, of those that suit; 0: not known.
  std::uint64_t largest_memory(const std::function<bool(const GpuLane&)>& suits = {}) const;
  /// What the GPU itself needs while it is idle, as far as that was seen.
  std::uint64_t idle_bytes(const std::string& uuid) const { return idle_.of(uuid).value_or(0); }

 private:
  enum class Phase : std::uint8_t {
    Idle,
    LeasedByOther,
    Looking,
    Ready,
    InUse,
    Settling,
    Closed,
    Doubtful
  };
  /// A job with a share.
  struct Tenant {
    JobId job;
    int part = 0;
    Demand demand;
    bool runs = false;       // false: it is about to
    std::string words = {};  // what of it cannot be ended
  };
  /// One that joins others, and waits for a look.
  struct Joiner {
    JobId job;
    Demand demand;
    std::int64_t look = 0;
    std::function<void(bool)> done;
  };
  struct Lane {
    gpu::GpuLane facts;
    bool seen = false;    // by a look; false: only known from an attempt that was adopted
    bool listed = false;  // by the last complete look
    Phase phase = Phase::Idle;
    gpu::Lease lease;
    JobId job;  // InUse, Looking for it, or the last one (Settling)
    std::vector<Tenant> tenants;
    std::vector<Joiner> joiners;
    std::string remains;           // of one that has ended, as text
    std::string apart;             // why no job may join them now; "": nothing is known
    std::string beside;            // others that compute there, too; who may join nevertheless
    std::int64_t apart_until = 0;  // then both are looked at again
    Outsiders outsiders = Outsiders::Avoid;
    std::uint64_t needed_bytes = 0;  // Outsiders::Fit
    std::string words;     // Closed, Doubtful, LeasedByOther: why; InUse: what cannot be ended
    std::string state;     // "foreign", "dirty", "unknown", …
    bool foreign = false;  // only other processes keep steps with outsiders = avoid away
    bool after_job = false;
    bool gathers = false;  // Ready, and kept while others that its job wants are looked at
    std::int64_t settling_since = 0;
    int looks = 0;
    std::int64_t closed_at = 0;
    int closures = 0;              // in a row
    std::int64_t doubtful_at = 0;  // when a Closed one becomes Doubtful
    Timers::Id doubtful_timer = 0;
    std::int64_t look = 0;  // the look that was asked for it; 0: none
    std::function<void(bool)> waiter;
    GpuReading reading;
    gpu::UseVerdict verdict;
  };
  void forget_gone_instances(const std::vector<gpu::GpuLane>& shown);
  Lane* lane(const std::string& uuid);
  const Lane* lane(const std::string& uuid) const;
  void acquire_one(const std::string& uuid, JobId job, const Demand& demand,
                   std::function<void(bool)> done);
  void join(Lane& lane, JobId job, const Demand& demand, std::function<void(bool)> done);
  void judge_joiners(Lane& lane, std::int64_t number, bool is_valid, const std::string& why);
  std::string closed_to_all(const Lane& lane, bool is_valid, const std::string& why) const;
  std::string closed_to(const Lane& lane, const Demand& demand) const;
  std::string remains_words(const Lane& lane) const;
  void fill_shared(const Lane& lane, const std::string& closed, GpuLane& gpu) const;
  void leave(Lane& lane, JobId job);
  void settle_lane(Lane& lane);
  std::vector<LaneSnapshot> snapshots_of(const Lane& lane) const;
  void fill_parts(const Lane& lane, GpuLane& gpu) const;
  Result<void> open_leases();
  void request_look(Lane& lane);
  void on_look(const GpuLook& look, std::int64_t number);
  bool take_readings(const GpuLook& look);
  void judge_lane(Lane& lane, bool complete, const std::string& why);
  void judge_unleased(Lane& lane, bool complete);
  static std::string state_of(const gpu::UseVerdict& verdict);
  gpu::UseVerdict verdict_of(const Lane& lane, Outsiders outsiders) const;
  gpu::UseQuestion question_of(const Lane& lane, Outsiders outsiders) const;
  void become_ready(Lane& lane);
  void close(Lane& lane, std::string state, std::string words);
  void doubt_at(Lane& lane, std::int64_t boot_ns);
  std::int64_t ask_for_look(std::function<void(const GpuLook&)> done = {});
  std::string quarantine_words(const Lane& lane) const;
  std::string closed_words(const Lane& lane) const;
  void mind_probe();
  void lease_by_other(Lane& lane);
  void on_lease(const std::string& uuid, Result<gpu::Lease> lease);
  void answer(Lane& lane, bool ready);

  Parts parts_;
  GpuCare* care_ = nullptr;
  std::optional<gpu::LeaseFolder> folder_;
  std::unique_ptr<gpu::LeaseWatch> watch_;
  std::vector<Lane> lanes_;
  gpu::IdleMemory idle_;
  GpuLook look_;  // the last complete one
  std::string trouble_;
  std::string driver_trouble_;
  bool discovered_ = false;
  std::int64_t looks_asked_ = 0;
  std::function<void()> known_;
  bool searching_ = false;
  std::int64_t search_look_ = 0;
  std::int64_t search_pause_ns_ = 0;
};

}  // namespace pergpu
