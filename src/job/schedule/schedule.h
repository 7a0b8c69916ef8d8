// Which job starts next, and where, by the ready queue and what is free.
//
// The caller owns a Capacity and keeps it true: occupy() when a start is decided, vacate() when the
// lane is free again, started_up() when start-up is over, `now_ns` the time of each of them; GPU
// lanes' `busy` and `outsiders` from looks and leases.  Its loop is
//     while (auto choice = choose(queue, capacity)) { queue.take(…); capacity.occupy(…); start }
//
// A job with several GPUs gets those that are nearest to each other (job/schedule/gpu_set.h).
//
// Jobs with a share of a GPU run on it side by side, as long as shares and memory suffice. While
// no job waits for whole GPUs they spread over the free ones; else they go where the least is left.
//
// A class that cannot start never blocks another one, with one exception.  A job that waits for
// nothing but cpus or memory, for several GPUs of which some are free, or for a GPU that others
// share, could be overtaken forever by smaller ones that fit into each gap.  After kMaxOvertaken
// jobs went ahead of it that took of what it waits for, room is kept for the first such job in the
// order: GPUs as they become free, and when it has all of them, or needs none, its lane, its limits
// and what it reserves, until it fits.  While it gathers GPUs, those it has are lent to jobs that
// are expected to be over before the last one is free: backfill, as batch systems call it.  After
// kMaxOvertaken more it lends nothing, for expectations may be wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ids.h"
#include "job/gpu_parts.h"
#include "job/schedule/fair_share.h"
#include "job/schedule/queue.h"

namespace pergpu {

inline constexpr int kMaxOvertaken = 16;

struct GpuLane {
  LaneId id = {};
  std::string uuid = {};
  std::string name = {};            // model, matched against Demand::gpu_pattern
  std::uint64_t memory_bytes = 0;   // 0: not known
  std::vector<int> distances = {};  // to the GPUs of each slot (gpu/inventory.h); may be shorter
  std::string busy = {};  // why it can't be had now ("runs job 17", "dirty: …"); empty: free
  GpuParts parts = {};    // of jobs that share it: others with shares may join them
  bool doubtful = false;  // could not be had a moment ago; a look will show
  bool ends = false;      // busy, or shared: with our jobs, which will end by themselves
  std::int64_t free_at_ns = 0;   // ends: when that is expected, as Capacity::now_ns; 0: not known
  std::string outsiders = {};    // foreign use, as text; what may start nevertheless: is_kept_off()
  std::uint64_t free_bytes = 0;  // at the last look; 0: none, or not known
};

/// CPU lanes with slots 0, 1, …  `size` may shrink below what is in use.
struct LanePool {
  int size = 0;
  std::vector<bool> used = {};  // by slot; may be shorter than size
  int in_use() const;
  /// Lowest free slot; nullopt when not more than `keep` of the `size` lanes are free.
  std::optional<int> free_slot(int keep = 0) const;
};

struct LiveCount {
  int live = 0;      // attempts of the class: Starting, Running, Stopping
  int starting = 0;  // of these: in start-up
};

struct LimitUse {
  int value = std::numeric_limits<int>::max();  // of [limits]; a name without a value has no limit
  int live = 0;
};

struct Capacity {
  std::int64_t now_ns = 0;  // of the question or booking, on any clock
  std::vector<GpuLane> gpus = {};
  LanePool cpu_lanes = {};                       // Pool::Cpu
  std::map<SweepId, LanePool> sweep_lanes = {};  // Pool::Sweep
  int cpus = 0;                                  // of the machine or our cgroup; 0: not known
  std::uint64_t memory_bytes = 0;                // of the machine or our cgroup; 0: not known
  std::map<std::string, LimitUse> limits = {};

  // Kept by the functions below.
  int reserved_cpus = 0;  // by live jobs that declared them
  std::uint64_t reserved_memory = 0;
  std::map<StepKey, LiveCount> live = {};
  FairShare shares = {};

  /// Books an attempt that is about to start (or was found alive after a restart): lane, GPUs (by
  /// UUID; `busy` becomes `holder`, of a shared one the part is given), reservations, limits,
  /// counts.  It counts as in start-up.  It is expected to end at `until_ns`; 0: not known.
  void occupy(StepKey key, const Demand& demand, LaneId lane, const std::vector<std::string>& uuids,
              const std::string& holder, std::int64_t until_ns = 0);
  /// Start-up of one attempt of the class is over.
  void started_up(StepKey key);
  /// The reverse of occupy(), with the same arguments: keep the Demand of the start, because the
  /// sweep may be submitted again with another one while the attempt lives.  `was_starting`:
  /// started_up() was not called for it.  GPUs become free only if `free_gpus`, else the caller
  /// says in `busy` what is wrong with them (dirty, being looked at).
  void vacate(StepKey key, const Demand& demand, LaneId lane, const std::vector<std::string>& uuids,
              bool was_starting, bool free_gpus = true);
};

/// When what begins now and takes `expected_ns` is over; 0: not known.
std::int64_t expected_end_ns(std::int64_t now_ns, std::int64_t expected_ns);

struct Choice {
  ReadyJob job = {};
  LaneId lane = {};
  std::vector<std::string> gpus = {};    // UUIDs
  std::vector<ClassKey> overtaken = {};  // for ReadyQueue::take()
};

/// UUIDs of the GPUs on which the job's last attempt failed.
using Avoided = std::function<std::vector<std::string>(JobId)>;

/// How much memory has to be free on a GPU that others use, too: what the job may use before it is
/// ended.
std::uint64_t needed_beside_others(const Demand& demand);

/// thousandths_taken() as a number of lanes.
double lanes_taken(const Demand& demand);

/// How much of that GPU's memory a job with a share may use before it is ended: `gpu_memory` and
/// its margin, what similar jobs needed, else as large a part as of the GPU.
std::uint64_t promised_to(const Demand& demand, std::uint64_t gpu_bytes);

/// Others use the GPU, and jobs of this kind do not run beside them.
bool is_kept_off(const Demand& demand, const GpuLane& gpu);

/// The first job in the order that fits; nullopt when none does.  A GPU that it avoids is taken
/// only when no other would do.  Records in `capacity.shares` what waits.
std::optional<Choice> choose(const ReadyQueue& queue, Capacity& capacity,
                             const Avoided& avoided = {});

/// Whether a model's name matches Demand::gpu_pattern: glob, upper and lower case alike; an empty
/// pattern matches all.
bool gpu_name_matches(const std::string& pattern, const std::string& name);

/// Plain words of the first thing that keeps the class's jobs from starting: "max_parallel = 1 of
/// step evaluate is reached", "all 8 GPUs are in use", …; empty when nothing does.
std::string why_not(const ReadyQueue& queue, ClassKey key, const Capacity& capacity);

/// Why a job of this kind can never start on this machine ("asks 64 cpus, this machine has 16");
/// empty when it can.  For submit: such a job would wait forever.
std::string never_fits(const Demand& demand, const Capacity& capacity);

}  // namespace pergpu
