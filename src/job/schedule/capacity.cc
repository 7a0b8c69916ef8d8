// The bookkeeping of Capacity: vacate() undoes exactly what occupy() did.
#include <algorithm>
#include <cassert>
#include <limits>

#include "job/schedule/gpu_limit.h"
#include "job/schedule/schedule.h"

namespace pergpu {
namespace {

LanePool* pool_of(Capacity& capacity, LaneId lane) {
  switch (lane.pool) {
    case LaneId::Pool::Gpu:
      return nullptr;
    case LaneId::Pool::Cpu:
      return &capacity.cpu_lanes;
    case LaneId::Pool::Sweep:
      return &capacity.sweep_lanes[lane.sweep];
  }
  return nullptr;
}

void mark_slot(LanePool& pool, int slot, bool used) {
  assert(slot >= 0);
  const std::size_t index = static_cast<std::size_t>(slot);
  if (pool.used.size() <= index) pool.used.resize(index + 1, false);
  assert(pool.used[index] != used);
  pool.used[index] = used;
}

template <typename Do>
void for_each_gpu(Capacity& capacity, const std::vector<std::string>& uuids, const Do& act) {
  if (uuids.empty()) return;
  for (GpuLane& gpu : capacity.gpus) {
    if (std::find(uuids.begin(), uuids.end(), gpu.uuid) != uuids.end()) act(gpu);
  }
}

/// `busy` "": they are free.
void mark(GpuLane& gpu, const std::string& busy, std::int64_t until_ns) {
  gpu.busy = busy;
  gpu.ends = !busy.empty();
  gpu.free_at_ns = until_ns;
}

void give_part(GpuLane& gpu, const Demand& demand, LaneId lane, std::int64_t until_ns) {
  gpu.parts.give(lane.part, {.share = demand.share,
                             .bytes = promised_to(demand, gpu.memory_bytes),
                             .until_ns = until_ns});
  gpu.ends = true;
  gpu.free_at_ns = gpu.parts.free_at_ns();
}

void take_part_back(GpuLane& gpu, LaneId lane) {
  gpu.parts.take_back(lane.part);
  gpu.ends = gpu.parts.any();
  gpu.free_at_ns = gpu.parts.free_at_ns();
}

}  // namespace

std::int64_t expected_end_ns(std::int64_t now_ns, std::int64_t expected_ns) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  if (expected_ns <= 0) return 0;
  return expected_ns > kLast - now_ns ? kLast : now_ns + expected_ns;
}

double lanes_taken(const Demand& demand) {
  return static_cast<double>(thousandths_taken(demand)) / kWholeGpu;
}

std::uint64_t promised_to(const Demand& demand, std::uint64_t gpu_bytes) {
  if (demand.gpu_memory_bytes) return ended_above(*demand.gpu_memory_bytes);
  if (demand.promise_bytes > 0) {
    return gpu_bytes == 0 ? demand.promise_bytes : std::min(demand.promise_bytes, gpu_bytes);
  }
  const auto share = static_cast<std::uint64_t>(demand.share);
  return gpu_bytes / kWholeGpu * share + gpu_bytes % kWholeGpu * share / kWholeGpu;
}

int LanePool::in_use() const {
  return static_cast<int>(std::count(used.begin(), used.end(), true));
}

std::optional<int> LanePool::free_slot(int keep) const {
  if (in_use() + keep >= size) return std::nullopt;
  const auto free = std::find(used.begin(), used.end(), false);
  return static_cast<int>(free - used.begin());
}

void Capacity::occupy(StepKey key, const Demand& demand, LaneId lane,
                      const std::vector<std::string>& uuids, const std::string& holder,
                      std::int64_t until_ns) {
  if (LanePool* pool = pool_of(*this, lane)) mark_slot(*pool, lane.slot, true);
  for_each_gpu(*this, uuids, [&](GpuLane& gpu) {
    if (demand.share > 0) return give_part(gpu, demand, lane, until_ns);
    mark(gpu, holder, until_ns);
  });
  reserved_cpus += demand.reserved_cpus();
  reserved_memory += demand.reserved_memory();
  LiveCount& count = live[key];
  ++count.live;
  ++count.starting;
  for (const std::string& name : demand.uses) ++limits[name].live;
  shares.take(key.sweep, demand, now_ns);
}

void Capacity::started_up(StepKey key) {
  const auto count = live.find(key);
  assert(count != live.end() && count->second.starting > 0);
  if (count != live.end() && count->second.starting > 0) --count->second.starting;
}

void Capacity::vacate(StepKey key, const Demand& demand, LaneId lane,
                      const std::vector<std::string>& uuids, bool was_starting, bool free_gpus) {
  if (LanePool* pool = pool_of(*this, lane)) mark_slot(*pool, lane.slot, false);
  for_each_gpu(*this, uuids, [&](GpuLane& gpu) {
    if (demand.share > 0) return take_part_back(gpu, lane);
    if (free_gpus) mark(gpu, "", 0);
  });
  reserved_cpus -= demand.reserved_cpus();
  reserved_memory -= demand.reserved_memory();
  for (const std::string& name : demand.uses) --limits[name].live;
  shares.give_back(key.sweep, demand, now_ns);
  const auto count = live.find(key);
  assert(count != live.end());
  if (count == live.end()) return;
  if (was_starting) --count->second.starting;
  if (--count->second.live == 0) live.erase(count);
}

}  // namespace pergpu
