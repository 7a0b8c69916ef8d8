// heads_ holds exactly one element for each class with a ready job: that of its first entry.
#include "job/queue.h"

#include <cassert>
#include <tuple>
#include <utility>

namespace pergpu {

Demand demand_of(const StepSpec& step, LaneId::Pool pool) {
  return Demand{.step_name = step.name,
                .pool = pool,
                .gpus = pool == LaneId::Pool::Gpu ? step.gpus : 0,
                .gpu_pattern = step.gpu,
                .outsiders = step.outsiders,
                .cpus = step.cpus,
                .memory_bytes = step.memory_bytes,
                .overcommit = step.overcommit,
                .max_parallel = step.max_parallel,
                .max_starting = step.max_starting,
                .uses = step.uses,
                .priority = step.priority};
}

bool ReadyQueue::Entry::operator<(const Entry& other) const {
  return std::tie(other.expected_ns, run, id) < std::tie(expected_ns, other.run, other.id);
}

bool ReadyQueue::Head::operator<(const Head& other) const {
  return std::tie(other.priority, job.step.sweep, other.expected_ns, job.run, job.step.step,
                  job.id) < std::tie(priority, other.job.step.sweep, expected_ns, other.job.run,
                                     other.job.step.step, other.job.id);
}

void ReadyQueue::update_head(StepKey key, Class& c) {
  std::optional<Head> now;
  if (!c.ready.empty()) {
    const Entry& first = *c.ready.begin();
    now = Head{
        .priority = c.demand.priority,
        .expected_ns = first.expected_ns != 0 ? first.expected_ns : c.expected_ns,
        .job = {.id = first.id, .step = key, .run = first.run, .expected_ns = first.expected_ns}};
  }
  const bool same = now && c.head && !(*now < *c.head) && !(*c.head < *now);
  if (same || (!now && !c.head)) return;
  if (c.head) heads_.erase(*c.head);
  if (now) heads_.insert(*now);
  c.head = std::move(now);
}

void ReadyQueue::declare(StepKey key, Demand demand) {
  Class& c = classes_[key];
  c.demand = std::move(demand);
  update_head(key, c);
}

void ReadyQueue::forget(StepKey key) {
  const auto found = classes_.find(key);
  if (found == classes_.end()) return;
  size_ -= found->second.ready.size();
  if (found->second.head) heads_.erase(*found->second.head);
  classes_.erase(found);
}

void ReadyQueue::set_expected(StepKey key, std::int64_t expected_ns) {
  const auto found = classes_.find(key);
  if (found == classes_.end()) return;
  found->second.expected_ns = expected_ns;
  update_head(key, found->second);
}

void ReadyQueue::insert(const ReadyJob& job) {
  const auto found = classes_.find(job.step);
  assert(found != classes_.end());
  if (found == classes_.end()) return;
  Class& c = found->second;
  const Entry entry{.expected_ns = job.expected_ns, .run = job.run, .id = job.id};
  if (!c.ready.insert(entry).second) return;
  ++size_;
  update_head(job.step, c);
}

bool ReadyQueue::erase(ReadyJob job) {
  const auto found = classes_.find(job.step);
  if (found == classes_.end()) return false;
  Class& c = found->second;
  const Entry entry{.expected_ns = job.expected_ns, .run = job.run, .id = job.id};
  if (c.ready.erase(entry) == 0) return false;
  --size_;
  if (c.ready.empty()) c.overtaken = 0;
  update_head(job.step, c);
  return true;
}

void ReadyQueue::take(ReadyJob job, const std::vector<StepKey>& overtaken) {
  erase(job);
  if (const auto own = classes_.find(job.step); own != classes_.end()) own->second.overtaken = 0;
  for (StepKey key : overtaken) {
    if (const auto other = classes_.find(key); other != classes_.end()) ++other->second.overtaken;
  }
}

std::size_t ReadyQueue::size(StepKey key) const {
  const auto found = classes_.find(key);
  return found == classes_.end() ? 0 : found->second.ready.size();
}

const Demand* ReadyQueue::demand(StepKey key) const {
  const auto found = classes_.find(key);
  return found == classes_.end() ? nullptr : &found->second.demand;
}

int ReadyQueue::overtaken(StepKey key) const {
  const auto found = classes_.find(key);
  return found == classes_.end() ? 0 : found->second.overtaken;
}

}  // namespace pergpu
