// Whether a job can start now, and if not, what is the first thing in its way.  Behind choose() and
// why_not() (job/schedule/schedule.h), which walk the heads of the queue and ask this of each.
//
// A walk that passes a job which was overtaken too often keeps room for it: a Claim, seen by all
// that come after it, gone with the walk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ids.h"
#include "job/schedule/queue.h"
#include "job/schedule/schedule.h"

namespace pergpu {

/// Lanes come before reservations: a class that waits for a reservation waits for nothing else.
enum class Obstacle : std::uint8_t {
  None,
  MaxParallel,
  Limit,
  MaxStarting,
  TooBig,  // asks for more than the machine has: waits forever, claims nothing
  Lane,
  Cpus,
  Memory,
};

struct Finding {
  Obstacle obstacle = Obstacle::None;
  const std::string* limit = nullptr;  // Obstacle::Limit: its name
  bool kept = false;                   // there is room, but it is kept for another job
  LaneId lane = {};                    // None, Cpus, Memory: where it would run
  std::vector<std::string> gpus = {};  // there; Lane: those it could have already
};

/// Room that is kept for the first job in the order that was overtaken too often.
struct Claim {
  const Demand* demand = nullptr;  // null: nothing is kept
  bool gathers = false;            // has not all its GPUs: nothing else is kept yet
  LaneId lane = {};
  std::vector<std::string> gpus = {};  // also some that others share yet: none joins them
  /// The rest of its GPUs is expected to be free then: a job that is over by then may have its GPUs
  /// meanwhile.  0: none may.
  std::int64_t lent_until_ns = 0;

  int cpus() const { return keeps_all() ? demand->reserved_cpus() : 0; }
  std::uint64_t memory() const { return keeps_all() ? demand->reserved_memory() : 0; }
  int units(const std::string& limit) const;
  int lanes(LaneId::Pool pool, SweepId sweep) const {
    return keeps_all() && lane.pool == pool && lane.sweep == sweep ? 1 : 0;
  }
  bool keeps_all() const { return demand != nullptr && !gathers; }
  bool has_gpu(const std::string& uuid) const;
};

/// Who asks.
struct Asking {
  StepKey key = {};
  const Demand* demand = nullptr;
  std::int64_t expected_ns = 0;           // 0: not known
  std::vector<std::string> avoided = {};  // UUIDs: taken only when no others would do
  bool packs = false;  // a share: others wait for whole GPUs, so where the least is left
};

Finding examine(const Asking& asking, const Capacity& capacity, const Claim& claim);

inline bool waits_for_reservation(const Finding& found) {
  return found.obstacle == Obstacle::Cpus || found.obstacle == Obstacle::Memory;
}

/// It waits for more GPUs than are free, or for room on one that others share, and could have them
/// when those of our jobs end that have some now.
bool gathers_gpus(const Demand& demand, const Capacity& capacity, const Finding& found);

/// What is to be kept for a job that was overtaken so often and waits as `found` says.
Claim claim_for(const Demand& demand, const Capacity& capacity, const Finding& found,
                int overtaken);

/// The walk's side of it: keeps room for `head` if it is due and no job before it has a claim.
void claim_if_due(const ReadyQueue& queue, const ReadyQueue::Head& head, const Capacity& capacity,
                  const Finding& found, Claim& claim);

/// Nothing that our other jobs give back would let a job of the class start.
bool is_barred(StepKey key, const Demand& demand, const Capacity& capacity);

/// Whether the kind of the GPU suits the job: model, memory, `--devices`.
bool allows(const Demand& demand, const GpuLane& gpu);

/// It is free, or the jobs that share it leave enough of it.
bool has_room(const Demand& demand, const GpuLane& gpu);

/// It can be had now, and no other process keeps such jobs off.
inline bool free_for(const Demand& demand, const GpuLane& gpu) {
  return gpu.busy.empty() && has_room(demand, gpu) && !is_kept_off(demand, gpu);
}

/// The lanes that such jobs of the sweep run on; null: there are none.
const LanePool* cpu_pool(const Demand& demand, SweepId sweep, const Capacity& capacity);

}  // namespace pergpu
