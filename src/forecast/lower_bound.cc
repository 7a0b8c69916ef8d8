// Heads (the longest chain before a job) are found in an order in which each job comes after those
// it waits for, tails (the longest chain from its start on) in the reverse one.
#include "forecast/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace pergpu {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

bool is_known(const ForecastJob& job) {
  return job.kind != ForecastJob::Kind::Held && job.duration_ns != ForecastJob::kForever;
}

struct Chains {
  std::vector<std::uint32_t> order = {};   // those that can end
  std::vector<std::int64_t> head = {};     // by job
  std::vector<std::uint32_t> before = {};  // by job: the last of the chain before it
  std::vector<std::int64_t> after = {};    // by job: the longest chain behind its end
};

Chains chains_of(const ForecastJobs& all, const ForecastLinks& links) {
  const std::size_t count = all.jobs.size();
  Chains out{.head = std::vector<std::int64_t>(count, 0),
             .before = std::vector<std::uint32_t>(count, kNobody),
             .after = std::vector<std::int64_t>(count, 0)};
  std::vector<std::uint32_t> waits = links.waits;
  std::vector<std::size_t> left;
  std::vector<std::pair<std::int64_t, std::uint32_t>> last;  // by barrier: its latest member's end
  for (const auto& barrier : all.barriers) left.push_back(barrier.size());
  last.assign(all.barriers.size(), {0, kNobody});

  for (std::uint32_t i = 0; i < count; ++i) {
    const bool is_live = all.jobs[i].kind == ForecastJob::Kind::Live;
    if (!is_live) out.head[i] = std::clamp<std::int64_t>(all.jobs[i].not_before_ns, 0, kFarthest);
    if (waits[i] == 0 && is_known(all.jobs[i])) out.order.push_back(i);
  }
  for (std::size_t at = 0; at < out.order.size(); ++at) {
    const std::uint32_t job = out.order[at];
    const std::int64_t end = later_by(out.head[job], all.jobs[job].duration_ns);
    const auto follow = [&](std::uint32_t follower, std::int64_t from, std::uint32_t whom) {
      if (from >= out.head[follower]) {  // else it may not begin before
        out.head[follower] = from;
        out.before[follower] = whom;
      }
      if (--waits[follower] == 0 && is_known(all.jobs[follower])) out.order.push_back(follower);
    };
    for (const std::uint32_t follower : links.followers[job]) follow(follower, end, job);
    for (const std::uint32_t barrier : links.member_of[job]) {
      last[barrier] = std::max(last[barrier], {end, job});
      if (--left[barrier] > 0) continue;
      for (const std::uint32_t follower : links.behind[barrier]) {
        follow(follower, last[barrier].first, last[barrier].second);
      }
    }
  }

  std::vector<std::int64_t> behind(all.barriers.size(), 0);  // the longest tail behind a barrier
  for (auto it = out.order.rbegin(); it != out.order.rend(); ++it) {
    const ForecastJob& job = all.jobs[*it];
    for (const std::uint32_t barrier : links.member_of[*it]) {
      out.after[*it] = std::max(out.after[*it], behind[barrier]);
    }
    if (job.kind == ForecastJob::Kind::Live) continue;
    const std::int64_t tail = later_by(out.after[*it], job.duration_ns);
    for (const std::uint32_t need : job.needs) out.after[need] = std::max(out.after[need], tail);
    for (const std::uint32_t barrier : job.barriers) {
      behind[barrier] = std::max(behind[barrier], tail);
    }
  }
  return out;
}

std::int64_t whole(double ns) {
  return static_cast<std::int64_t>(std::min(ns, static_cast<double>(kFarthest)));
}

/// Work that has to go through something of which there is only so much.
struct Strait {
  LowerBound bound = {};
  double work = 0;  // ns × units
  std::int64_t head = ForecastJob::kForever;
  std::int64_t after = ForecastJob::kForever;

  void add(double ns_times_units, std::int64_t its_head, std::int64_t its_after) {
    work += ns_times_units;
    head = std::min(head, its_head);
    after = std::min(after, its_after);
  }
  LowerBound result() const {
    LowerBound out = bound;
    out.work_ns = whole(work);
    const std::uint64_t at_once = std::max<std::uint64_t>(out.at_once, 1);
    out.ns = later_by(later_by(head, after), whole(work / static_cast<double>(at_once)));
    return out;
  }
};

/// As choose() has it: one that others use is nothing for jobs that avoid them, and stays so.
bool may_use(const Demand& demand, const GpuLane& gpu) {
  if (is_kept_off(demand, gpu)) return false;
  if (!gpu_name_matches(demand.gpu_pattern, gpu.name)) return false;
  return demand.devices.empty() ||
         std::find(demand.devices.begin(), demand.devices.end(), gpu.uuid) != demand.devices.end();
}

/// All straits, each job poured through those that it passes.
class Straits {
 public:
  explicit Straits(const ForecastMachine& machine) : machine_(machine) {
    const std::vector<GpuLane>& gpus = machine.capacity.gpus;
    has_outsiders_ = std::any_of(gpus.begin(), gpus.end(),
                                 [](const GpuLane& gpu) { return !gpu.outsiders.empty(); });
  }

  void pour(const ForecastJob& job, const Demand& demand, std::int64_t head, std::int64_t after) {
    const auto ns = static_cast<double>(job.duration_ns);
    pour_lanes(job, demand, ns, head, after);
    const auto through = [&](LowerBound::By by, const std::string& name, std::uint64_t at_once,
                             double units) {
      const bool of_step = by == LowerBound::By::MaxParallel || by == LowerBound::By::MaxStarting;
      Strait& strait = straits_[{by, name, of_step ? job.step : StepKey{}}];
      strait.bound.by = by;
      strait.bound.limit = name;
      strait.bound.step = job.step;
      strait.bound.at_once = at_once;
      strait.add(units, head, after);
    };
    using By = LowerBound::By;
    if (demand.max_parallel) {
      through(By::MaxParallel, "", static_cast<std::uint64_t>(std::max(1, *demand.max_parallel)),
              ns);
    }
    if (demand.max_starting && job.kind == ForecastJob::Kind::Queued) {
      const auto step = machine_.steps.find(job.step);
      const std::int64_t ready = step == machine_.steps.end() ? 0 : step->second.ready_ns;
      through(By::MaxStarting, "", static_cast<std::uint64_t>(std::max(1, *demand.max_starting)),
              static_cast<double>(std::min(ready, job.duration_ns)));
    }
    for (const std::string& name : demand.uses) {
      const auto limit = machine_.capacity.limits.find(name);
      if (limit == machine_.capacity.limits.end()) continue;
      through(By::Limit, name, static_cast<std::uint64_t>(std::max(1, limit->second.value)), ns);
    }
    if (demand.reserved_cpus() > 0 && machine_.capacity.cpus > 0) {
      through(By::Cpus, "", static_cast<std::uint64_t>(machine_.capacity.cpus),
              ns * demand.reserved_cpus());
    }
    if (demand.reserved_memory() > 0 && machine_.capacity.memory_bytes > 0) {
      through(By::Memory, "", machine_.capacity.memory_bytes,
              ns * static_cast<double>(demand.reserved_memory()));
    }
  }

  /// The one that takes longest.
  void raise(LowerBound& bound) const {
    for (const auto& [key, strait] : straits_) {
      const LowerBound found = strait.result();
      if (found.ns > bound.ns) bound = found;
    }
    for (const auto& [key, strait] : lanes_) {
      const LowerBound found = strait.result();
      if (found.ns > bound.ns) bound = found;
    }
  }

 private:
  void pour_lanes(const ForecastJob& job, const Demand& demand, double ns, std::int64_t head,
                  std::int64_t after) {
    pour_pool(job, demand, ns, head, after);
    const bool is_choosy = !demand.gpu_pattern.empty() || !demand.devices.empty() ||
                           demand.sharing == Sharing::Mig || avoids(demand);
    if (demand.pool != LaneId::Pool::Gpu || !is_choosy) return;
    Demand any = demand;
    any.gpu_pattern.clear();
    any.devices.clear();
    any.sharing = Sharing::Time;
    any.outsiders = Outsiders::Ignore;
    pour_pool(job, any, ns, head, after);
  }

  void pour_pool(const ForecastJob& job, const Demand& demand, double ns, std::int64_t head,
                 std::int64_t after) {
    const bool is_own = demand.pool == LaneId::Pool::Sweep;
    std::string kind;
    if (demand.pool == LaneId::Pool::Gpu) {
      kind = demand.gpu_pattern;
      for (const std::string& uuid : demand.devices) kind += "\n" + uuid;
      if (demand.sharing == Sharing::Mig) kind += "\non instances";
      if (avoids(demand)) {
        kind += demand.outsiders == Outsiders::Avoid
                    ? "\navoids others"
                    : fmt::format("\nbeside others with {}", needed_beside_others(demand));
      }
    }
    const auto [at, is_new] =
        lanes_.try_emplace({demand.pool, is_own ? job.step.sweep : SweepId{}, kind});
    Strait& strait = at->second;
    if (is_new) {
      strait.bound.by = LowerBound::By::Lanes;
      strait.bound.pool = demand.pool;
      strait.bound.step = job.step;
      strait.bound.at_once = lanes_for(demand, job.step.sweep);
    }
    strait.add(ns * lanes_taken(demand), head, after);
  }

  /// And there are some.
  bool avoids(const Demand& demand) const {
    return has_outsiders_ && demand.outsiders != Outsiders::Ignore;
  }

  std::uint64_t lanes_for(const Demand& demand, SweepId sweep) const {
    const Capacity& capacity = machine_.capacity;
    const auto of_pool = [](const LanePool& pool) {
      return static_cast<std::uint64_t>(std::max(pool.size, 1));
    };
    switch (demand.pool) {
      case LaneId::Pool::Gpu:
        return static_cast<std::uint64_t>(std::count_if(
            capacity.gpus.begin(), capacity.gpus.end(),
            [&](const GpuLane& gpu) { return gpu.busy.empty() && may_use(demand, gpu); }));
      case LaneId::Pool::Cpu:
        return of_pool(capacity.cpu_lanes);
      case LaneId::Pool::Sweep: {
        const auto own = capacity.sweep_lanes.find(sweep);
        return own == capacity.sweep_lanes.end() ? 1 : of_pool(own->second);
      }
    }
    return 1;
  }

  const ForecastMachine& machine_;
  bool has_outsiders_ = false;
  std::map<std::tuple<LowerBound::By, std::string, StepKey>, Strait> straits_;
  std::map<std::tuple<LaneId::Pool, SweepId, std::string>, Strait> lanes_;
};

}  // namespace

LowerBound lower_bound(const ForecastJobs& jobs, const ForecastLinks& links,
                       const ForecastMachine& machine, const std::vector<bool>& asked) {
  const Chains chains = chains_of(jobs, links);
  LowerBound bound;
  std::uint32_t last = kNobody;
  Straits straits(machine);
  for (const std::uint32_t i : chains.order) {
    if (!asked[i]) continue;
    const ForecastJob& job = jobs.jobs[i];
    const std::int64_t end = later_by(chains.head[i], job.duration_ns);
    if (last == kNobody || end > bound.ns) {
      bound.ns = end;
      last = i;
    }
    const auto step = machine.steps.find(job.step);
    if (job.hold) {
      straits.pour(job, job.hold->demand, chains.head[i], chains.after[i]);
    } else if (step != machine.steps.end()) {
      straits.pour(job, grown(step->second.demand, job.growths), chains.head[i], chains.after[i]);
    }
  }
  if (last == kNobody) return bound;
  bound.by = LowerBound::By::Chain;
  for (std::uint32_t i = last; i != kNobody; i = chains.before[i]) bound.chain.push_back(i);
  std::reverse(bound.chain.begin(), bound.chain.end());
  straits.raise(bound);
  return bound;
}

}  // namespace pergpu
