// Where no step has a weight this is a walk through the queue, and costs nothing more.
#include "job/schedule/starting_order.h"

#include <algorithm>

#include "job/schedule/examine.h"

namespace pergpu {
namespace {

/// Thousandths of lanes that are free.
std::int64_t free_lanes(LaneId::Pool pool, const Capacity& capacity) {
  if (pool == LaneId::Pool::Cpu) {
    const int free = capacity.cpu_lanes.size - capacity.cpu_lanes.in_use();
    return std::int64_t{kWholeGpu} * std::max(0, free);
  }
  std::int64_t free = 0;
  for (const GpuLane& gpu : capacity.gpus) {
    if (gpu.busy.empty() && gpu.outsiders.empty()) free += kWholeGpu - gpu.parts.taken();
  }
  return free;
}

}  // namespace

StartingOrder::StartingOrder(const ReadyQueue& queue, const Capacity& capacity, FairShare& shares)
    : queue_(&queue), capacity_(&capacity), shares_(&shares), next_(queue.heads().begin()) {
  if (queue.sharing() > 0 || !shares.empty()) meet();
}

const ReadyQueue::Head* StartingOrder::next() {
  if (!heap_.empty()) return pop();
  for (; next_ != queue_->heads().end(); ++next_) {
    if (next_->weight <= 0) return &*next_++;
    if (gathered_ == next_->priority) continue;
    gather((next_++)->priority);
    return pop();
  }
  return nullptr;
}

const ReadyQueue::Head* StartingOrder::pop() {
  std::pop_heap(heap_.begin(), heap_.end());
  const ReadyQueue::Head* head = heap_.back().head;
  heap_.pop_back();
  return head;
}

void StartingOrder::meet() {
  for (const ReadyQueue::Head& head : queue_->heads()) {
    if (head.weight <= 0) continue;
    sharing_.push_back(&head);
    const Demand& demand = *queue_->demand(head.job.key());
    FairShare::Waiting& its = waiting_[FairShare::Party(head.job.step.sweep, demand)];
    if (is_barred(head.job.step, demand, *capacity_)) continue;
    its.is_barred = false;
    its.weight = std::max(its.weight, head.weight);
    its.widest = std::max(its.widest, thousandths_taken(demand));
    its.reserves = its.reserves || demand.reserved_cpus() > 0 || demand.reserved_memory() > 0 ||
                   !demand.uses.empty();
  }
  shares_->meet(waiting_, capacity_->now_ns);
}

StartingOrder::Sharers StartingOrder::sharers(LaneId::Pool pool, int priority) const {
  Sharers all{.lanes = free_lanes(pool, *capacity_)};
  bool may_lack_more = false;
  for (const auto& [party, its] : waiting_) {
    if (party.pool != pool || party.priority != priority || its.is_barred) continue;
    all.weight += its.weight;
    all.lanes += shares_->lanes(party);
    may_lack_more = may_lack_more || its.reserves;
  }
  for (const auto& [party, its] : waiting_) {
    if (party.pool != pool || party.priority != priority || its.is_barred) continue;
    const bool is_wide = its.widest * all.weight > its.weight * all.lanes;
    if (is_wide && (its.widest > kWholeGpu || may_lack_more)) all.has_parts = false;
  }
  return all;
}

StartingOrder::Room StartingOrder::room_in(const Sharers& all, const FairShare::Party& its,
                                           const Demand& demand) const {
  const FairShare::Waiting& waiting = waiting_.at(its);
  const bool has_parts = all.has_parts && its.pool != LaneId::Pool::Sweep;
  if (waiting.is_barred || !has_parts) return Room::None;
  const std::int64_t lanes = shares_->lanes(its);
  const std::int64_t part = waiting.weight * all.lanes;  // times all.weight
  if ((lanes + thousandths_taken(demand)) * all.weight <= part) return Room::ForTheJob;
  return lanes * all.weight < part ? Room::ForSomeOfIt : Room::None;
}

/// Those that share from here on, which is where the oldest of them stands.
void StartingOrder::gather(int priority) {
  const Sharers on_gpus = sharers(LaneId::Pool::Gpu, priority);
  const Sharers on_cpus = sharers(LaneId::Pool::Cpu, priority);
  for (const ReadyQueue::Head* head : sharing_) {
    if (head->priority != priority) continue;
    const ClassKey key = head->job.key();
    const Demand& demand = *queue_->demand(key);
    const FairShare::Party its(head->job.step.sweep, demand);
    const bool is_due = queue_->overtaken(key) >= kMaxOvertaken;
    const Sharers& all = its.pool == LaneId::Pool::Gpu ? on_gpus : on_cpus;
    heap_.push_back(
        {{!is_due, room_in(all, its, demand), shares_->level(its, capacity_->now_ns), heap_.size()},
         head});
  }
  std::make_heap(heap_.begin(), heap_.end());
  gathered_ = priority;
}

}  // namespace pergpu
