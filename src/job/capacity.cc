// The bookkeeping of Capacity: vacate() undoes exactly what occupy() did.
#include <algorithm>
#include <cassert>

#include "job/schedule.h"

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

void mark_gpus(Capacity& capacity, const std::vector<std::string>& uuids, const std::string& busy) {
  for (GpuLane& gpu : capacity.gpus) {
    if (std::find(uuids.begin(), uuids.end(), gpu.uuid) != uuids.end()) gpu.busy = busy;
  }
}

}  // namespace

int LanePool::in_use() const {
  return static_cast<int>(std::count(used.begin(), used.end(), true));
}

std::optional<int> LanePool::free_slot(int keep) const {
  if (in_use() + keep >= size) return std::nullopt;
  const auto free = std::find(used.begin(), used.end(), false);
  return static_cast<int>(free - used.begin());
}

void Capacity::occupy(JobId job, StepKey key, const Demand& demand, LaneId lane,
                      const std::vector<std::string>& uuids, const std::string& holder) {
  Booking booking{.step = key,
                  .lane = lane,
                  .gpus = uuids,
                  .cpus = demand.reserved_cpus(),
                  .memory_bytes = demand.reserved_memory(),
                  .uses = demand.uses};
  const auto [place, fresh] = bookings.emplace(job, std::move(booking));
  assert(fresh);
  if (!fresh) return;
  if (LanePool* pool = pool_of(*this, lane)) mark_slot(*pool, lane.slot, true);
  mark_gpus(*this, uuids, holder);
  reserved_cpus += place->second.cpus;
  reserved_memory += place->second.memory_bytes;
  LiveCount& count = live[key];
  ++count.live;
  ++count.starting;
  for (const std::string& name : demand.uses) ++limits[name].live;
}

void Capacity::started_up(JobId job) {
  const auto found = bookings.find(job);
  if (found == bookings.end() || !found->second.starting) return;
  found->second.starting = false;
  --live[found->second.step].starting;
}

void Capacity::vacate(JobId job, bool free_gpus) {
  const auto found = bookings.find(job);
  if (found == bookings.end()) return;
  const Booking& booking = found->second;
  if (LanePool* pool = pool_of(*this, booking.lane)) mark_slot(*pool, booking.lane.slot, false);
  if (free_gpus) mark_gpus(*this, booking.gpus, "");
  reserved_cpus -= booking.cpus;
  reserved_memory -= booking.memory_bytes;
  const auto count = live.find(booking.step);
  if (booking.starting) --count->second.starting;
  if (--count->second.live == 0) live.erase(count);
  for (const std::string& name : booking.uses) --limits[name].live;
  bookings.erase(found);
}

}  // namespace pergpu
