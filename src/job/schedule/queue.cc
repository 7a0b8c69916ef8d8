// heads_ holds exactly one element for each class with a ready job: that of its first entry.
#include "job/schedule/queue.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <tuple>
#include <utility>

namespace pergpu {

Demand demand_of(const StepSpec& step, LaneId::Pool pool) {
  return Demand{
      .step_name = step.name,
      .pool = pool,
      .gpus = pool == LaneId::Pool::Gpu ? step.gpus : 0,
      .share = pool == LaneId::Pool::Gpu ? step.gpu_share : 0,
      .is_auto = pool == LaneId::Pool::Gpu && step.gpu_auto,
      .gpu_pattern = step.gpu,
      .sharing = step.sharing,
      .outsiders = step.outsiders,
      .cpus = step.cpus,
      .memory_bytes = step.memory_bytes,
      .gpu_memory_bytes = pool == LaneId::Pool::Gpu ? step.gpu_memory_bytes : std::nullopt,
      .growth = step.grow,
      .overcommit = step.overcommit,
      .max_parallel = step.max_parallel,
      .max_starting = step.max_starting,
      .uses = step.uses,
      .priority = step.priority,
      .weight = step.weight};
}

Demand grown(Demand demand, Growths growths) {
  if (demand.memory_bytes) {
    demand.memory_bytes =
        grown(*demand.memory_bytes, demand.growth.memory, growths.memory, demand.most_memory);
  }
  if (demand.gpu_memory_bytes) {
    demand.gpu_memory_bytes = grown(*demand.gpu_memory_bytes, demand.growth.gpu_memory,
                                    growths.gpu_memory, demand.most_gpu_memory);
  }
  for (int i = 0; i < growths.gpu_memory; ++i) demand.share = std::min(2 * demand.share, kWholeGpu);
  demand.promise_bytes = grown(demand.promise_bytes, 2, growths.gpu_memory, demand.most_gpu_memory);
  return demand;
}

bool ReadyQueue::Entry::operator<(const Entry& other) const {
  return std::tie(other.expected_ns, run, id) < std::tie(expected_ns, other.run, other.id);
}

bool ReadyQueue::Head::operator<(const Head& other) const {
  return std::tie(other.priority, job.step.sweep, other.expected_ns, job.run, job.step.step,
                  job.id) < std::tie(priority, other.job.step.sweep, expected_ns, other.job.run,
                                     other.job.step.step, other.job.id);
}

/// How long the jobs take that are still to start, if each took as long as the first.
std::int64_t ReadyQueue::expected_of(const Class& c) {
  const std::int64_t first = c.ready.begin()->expected_ns;
  if (!c.demand.max_parallel) return first;
  const std::int64_t at_once = std::max(1, *c.demand.max_parallel);
  const std::int64_t rounds = std::max<std::int64_t>((c.left + at_once - 1) / at_once, 1);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return first > kMost / rounds ? kMost : first * rounds;
}

ReadyJob ReadyQueue::job_of(const ClassKey& key, const Entry& entry) {
  return {.id = entry.id,
          .step = key.step,
          .run = entry.run,
          .expected_ns = entry.expected_ns,
          .growths = key.growths,
          .shape = key.shape};
}

void ReadyQueue::update_head(ClassKey key, Class& c) {
  std::optional<Head> now;
  if (!c.ready.empty() && c.pauses == 0) {
    const Entry& first = *c.ready.begin();
    now = Head{.priority = c.demand.priority,
               .expected_ns = expected_of(c),
               .job = job_of(key, first),
               .weight = c.demand.weight};
  }
  const bool same =
      now && c.head && !(*now < *c.head) && !(*c.head < *now) && now->weight == c.head->weight;
  if (same || (!now && !c.head)) return;
  drop_head(c);
  if (now) heads_.insert(*now);
  if (now && now->weight > 0) ++sharing_;
  c.head = std::move(now);
}

void ReadyQueue::drop_head(Class& c) {
  if (!c.head) return;
  heads_.erase(*c.head);
  if (c.head->weight > 0) --sharing_;
  c.head.reset();
}

void ReadyQueue::declare(StepKey key, const Demand& demand,
                         const std::map<GpuShape, Demand>& shapes) {
  const auto usual = classes_.try_emplace(key).first;
  for (const auto& [shape, its] : shapes) {
    const auto [c, is_new] = classes_.try_emplace({key, {}, shape});
    if (!is_new) continue;
    c->second.left = usual->second.left;
    c->second.pauses = usual->second.pauses;
  }
  for (auto it = usual; it != classes_.end() && it->first.step == key;) {
    Class& c = it->second;
    const auto its = shapes.find(it->first.shape);
    if (it->first.shape != 0 && its == shapes.end() && c.ready.empty()) {
      it = classes_.erase(it);
      continue;
    }
    c.demand = grown(its == shapes.end() ? demand : its->second, it->first.growths);
    update_head(it->first, c);
    ++it;
  }
}

/// Null: its step is not declared.
ReadyQueue::Class* ReadyQueue::class_of(const ReadyJob& job) {
  if (const auto found = classes_.find(job.key()); found != classes_.end()) return &found->second;
  auto usual = classes_.find({job.step, {}, job.shape});
  if (usual == classes_.end()) usual = classes_.find(job.step);
  if (usual == classes_.end()) return nullptr;
  Class& c = classes_[job.key()];
  c.demand = grown(usual->second.demand, job.growths);
  c.left = usual->second.left;
  c.pauses = usual->second.pauses;
  return &c;
}

void ReadyQueue::pause(StepKey key, bool pauses, PauseCause cause) {
  const auto bit = static_cast<unsigned>(cause);
  for (auto it = classes_.find(key); it != classes_.end() && it->first.step == key; ++it) {
    const unsigned others = it->second.pauses & ~bit;
    it->second.pauses = static_cast<std::uint8_t>(pauses ? others | bit : others);
    update_head(it->first, it->second);
  }
}

void ReadyQueue::set_left(StepKey key, std::int64_t jobs) {
  for (auto it = classes_.find(key); it != classes_.end() && it->first.step == key; ++it) {
    if (it->second.left == jobs) continue;
    it->second.left = jobs;
    update_head(it->first, it->second);
  }
}

void ReadyQueue::insert(const ReadyJob& job) {
  Class* c = class_of(job);
  assert(c != nullptr);
  if (c == nullptr) return;
  const Entry entry{.expected_ns = job.expected_ns, .run = job.run, .id = job.id};
  if (!c->ready.insert(entry).second) return;
  ++size_;
  update_head(job.key(), *c);
}

bool ReadyQueue::erase(ReadyJob job) {
  const auto found = classes_.find(job.key());
  if (found == classes_.end()) return false;
  Class& c = found->second;
  const Entry entry{.expected_ns = job.expected_ns, .run = job.run, .id = job.id};
  if (c.ready.erase(entry) == 0) return false;
  --size_;
  if (c.ready.empty()) c.overtaken = 0;
  update_head(job.key(), c);
  return true;
}

void ReadyQueue::take(ReadyJob job, const std::vector<ClassKey>& overtaken) {
  erase(job);
  if (const auto own = classes_.find(job.key()); own != classes_.end()) {
    own->second.overtaken = 0;
    set_left(job.step, std::max<std::int64_t>(own->second.left - 1, 0));
  }
  for (const ClassKey& key : overtaken) {
    if (const auto other = classes_.find(key); other != classes_.end()) ++other->second.overtaken;
  }
}

void ReadyQueue::untake(ReadyJob job, int overtaken_before,
                        const std::vector<ClassKey>& overtaken) {
  const auto own = classes_.find(job.key());
  if (own != classes_.end() && !own->second.ready.empty()) {
    own->second.overtaken = std::max(own->second.overtaken, overtaken_before);
  }
  for (const ClassKey& key : overtaken) {
    const auto other = classes_.find(key);
    if (other != classes_.end() && other->second.overtaken > 0) --other->second.overtaken;
  }
}

void ReadyQueue::move(ReadyJob job, GpuShape shape) {
  const int before = overtaken(job.key());
  if (!erase(job)) return;
  job.shape = shape;
  insert(job);
  int& its = classes_.at(job.key()).overtaken;
  its = std::max(its, before);
}

std::size_t ReadyQueue::size(StepKey key) const {
  std::size_t size = 0;
  for (auto it = classes_.find(key); it != classes_.end() && it->first.step == key; ++it) {
    size += it->second.ready.size();
  }
  return size;
}

std::vector<ReadyJob> ReadyQueue::ready(StepKey key) const {
  std::vector<ReadyJob> out;
  for (auto it = classes_.find(key); it != classes_.end() && it->first.step == key; ++it) {
    for (const Entry& entry : it->second.ready) out.push_back(job_of(it->first, entry));
  }
  return out;
}

const Demand* ReadyQueue::demand(ClassKey key) const {
  const auto found = classes_.find(key);
  return found == classes_.end() ? nullptr : &found->second.demand;
}

std::optional<ReadyJob> ReadyQueue::first_within(ClassKey key, std::int64_t ns) const {
  const auto found = classes_.find(key);
  if (found == classes_.end() || found->second.pauses != 0 || ns <= 0) return std::nullopt;
  const std::set<Entry>& ready = found->second.ready;
  const auto first = ready.lower_bound(
      {.expected_ns = ns, .run = std::numeric_limits<std::int32_t>::min(), .id = {}});
  if (first == ready.end() || first->expected_ns == 0) return std::nullopt;
  return job_of(key, *first);
}

int ReadyQueue::overtaken(ClassKey key) const {
  const auto found = classes_.find(key);
  return found == classes_.end() ? 0 : found->second.overtaken;
}

}  // namespace pergpu
