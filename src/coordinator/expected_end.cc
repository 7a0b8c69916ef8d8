// When what is open is expected to end: the forecast that `plan` shows, over all that is open.
//
// It is asked for by clients that watch, and made again at most once a second when jobs have
// changed, else every five seconds.  A forecast costs some microseconds a job, where jobs share
// cores some tens, in one turn of the loop, so it is made of kMostForetold jobs and no more.
// Beyond that the work that is left, divided by the lanes it goes through, says as much: a schedule
// of that many jobs is longer by less than one of them.  That sweeps share
// (job/schedule/fair_share.h) it does not know: the older ones are shown too early an end.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/expected_ends.h"
#include "coordinator/running_attempts.h"
#include "forecast/expectation.h"
#include "forecast/forecast_input.h"
#include "spec/templates/placeholders.h"

namespace pergpu {
namespace {

constexpr std::int64_t kMostForetold = 1'000;
constexpr std::int64_t kMostOpen = 10'000;  // held ones, too: they are looked at, and no more
constexpr std::int64_t kAfterChanges = kSecond;
constexpr std::int64_t kWithoutChanges = 5 * kSecond;
constexpr std::size_t kSamples = 64;

/// How long a job of the step takes, on average; 0: not known.  Where that differs from run to run,
/// of some runs.
double mean_ns(const Sweep& sweep, const Step& step, const Learnt& learnt) {
  if (step.spec.expect.empty()) {
    if (const std::int64_t mean = learnt_ns(step); mean > 0) return static_cast<double>(mean);
    const std::optional<Estimate> like = learnt.estimate_of_step(step.spec);
    return like ? like->duration_s * static_cast<double>(kSecond) : 0;
  }
  const bool differs = !step.spec.once && has_placeholders(step.spec.expect);
  if (!differs || step.current.empty()) {
    return static_cast<double>(expected_ns(step.spec, nullptr, 0, nullptr));
  }
  const std::size_t count = std::min(kSamples, sweep.runs.size());
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t run = i * sweep.runs.size() / count;
    const RunSpec parameters = sweep.runs[run].spec();
    total += static_cast<double>(
        expected_ns(step.spec, &parameters, static_cast<std::int64_t>(run), nullptr));
  }
  return count == 0 ? 0 : total / static_cast<double>(count);
}

/// Work that was asked for so far of the lanes of a pool.
struct PoolWork {
  double ns = 0;
  bool known = true;
};

}  // namespace

const Coordinator::ExpectedEnds& Coordinator::expected_ends() const {
  const std::int64_t now = parts_.clock->now().boot_ns;
  if (ends_) {
    const std::int64_t age = now - ends_->made_ns;
    const std::int64_t may_be = ends_->changes == changes_ ? kWithoutChanges : kAfterChanges;
    if (age < may_be) return *ends_;
  }
  ends_ = std::make_unique<ExpectedEnds>();
  ends_->made_ns = now;
  ends_->changes = changes_;
  if (!parts_.gpus->discovered()) return *ends_;  // which lanes there are is not known
  std::int64_t open = 0;
  for (const auto& [id, sweep] : parts_.world->sweeps()) open += sweep.open;
  const std::int64_t to_run = parts_.world->queued() + static_cast<std::int64_t>(live_.size());
  if (to_run <= kMostForetold && open <= kMostOpen) {
    foretell(*ends_);
  } else {
    estimate(*ends_);
  }
  return *ends_;
}

void Coordinator::foretell(ExpectedEnds& out) const {
  ForecastInputBuilder builder({.world = parts_.world,
                                .running = running_attempts(live_),
                                .learnt = &learnt_,
                                .telemetry = parts_.telemetry,
                                .now = parts_.clock->now()});
  builder.add_world({}, [](JobId) { return true; });
  ForecastInput input = builder.build();
  ForecastMachine machine = forecast_machine(nullptr);
  add_steps(machine, input.jobs, nullptr, queue_);
  const ForecastLinks links(input.jobs);
  Forecast forecast(input.jobs, links, std::move(machine));
  while (!forecast.advance(std::numeric_limits<std::size_t>::max())) {
  }
  for (std::size_t i = 0; i < input.jobs.jobs.size(); ++i) {
    const ForecastJob& job = input.jobs.jobs[i];
    if (job.kind == ForecastJob::Kind::Held) continue;
    const Forecast::Span& span = forecast.spans()[i];
    const auto [at, is_first] = out.sweeps.try_emplace(job.step.sweep, out.made_ns);
    if (!span.ends()) {
      at->second.reset();
      continue;
    }
    const std::int64_t end = later_by(out.made_ns, span.end_ns);
    out.jobs[input.ids[i]] = end;
    if (at->second) at->second = std::max(*at->second, end);
  }
}

/// By priority and age: a sweep's work comes after that of those before it, also where they share.
void Coordinator::estimate(ExpectedEnds& out) const {
  std::vector<std::pair<int, const Sweep*>> order;
  for (const auto& [id, sweep] : parts_.world->sweeps()) {
    if (sweep.open == 0) continue;
    int priority = std::numeric_limits<int>::min();
    for (const Step& step : sweep.steps) priority = std::max(priority, step.spec.priority);
    order.emplace_back(-priority, &sweep);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::map<StepKey, double> spent;  // by those that run
  for (const auto& [id, live] : live_) {
    const std::int64_t started = parts_.world->job(id)->last->started_at.boot_ns;
    if (started > 0) spent[live.key] += static_cast<double>(out.made_ns - started);
  }

  std::map<std::pair<LaneId::Pool, SweepId>, PoolWork> pools;
  for (const auto& [priority, sweep] : order) {
    double longest = 0;
    bool known = true;
    bool has_any = false;
    for (std::size_t slot = 0; slot < sweep->steps.size(); ++slot) {
      const Step& step = sweep->steps[slot];
      const int left =
          step.total - step.ended - step.in_state[static_cast<std::size_t>(JobState::Held)];
      if (left <= 0) continue;
      has_any = true;
      const StepKey key{sweep->id, static_cast<std::int16_t>(slot)};
      const bool is_elsewhere = sweep->context.engine == kSlurm;
      const Demand there = demand_on_cluster(step.spec);
      const Demand* demand = is_elsewhere ? &there : queue_.demand(key);
      if (demand == nullptr) continue;
      const bool is_own = demand->pool == LaneId::Pool::Sweep;
      PoolWork& pool = pools[{demand->pool, is_own ? sweep->id : SweepId{}}];
      const double mean = mean_ns(*sweep, step, learnt_);
      if (mean <= 0) pool.known = false;
      const double all = mean * left;
      const double work = all - std::min(spent[key], all);
      pool.ns += work * lanes_taken(*demand);
      known = known && pool.known;
      const std::size_t lanes = demand->pool == LaneId::Pool::Gpu ? parts_.gpus->count()
                                : is_own ? static_cast<std::size_t>(lanes_of(*sweep))
                                         : static_cast<std::size_t>(capacity_.cpu_lanes.size);
      longest = std::max(longest, pool.ns / static_cast<double>(std::max<std::size_t>(lanes, 1)));
      if (demand->max_parallel)
        longest = std::max(longest, work / std::max(1, *demand->max_parallel));
    }
    if (!has_any) continue;
    std::optional<std::int64_t>& end = out.sweeps[sweep->id];
    if (known && longest < static_cast<double>(kFarthest)) {
      end = later_by(out.made_ns, static_cast<std::int64_t>(longest));
    }
  }
}

std::optional<std::int64_t> Coordinator::expected_end(SweepId sweep) const {
  const Sweep* asked = parts_.world->sweep(sweep);
  if (asked == nullptr || asked->open == 0) return std::nullopt;
  const bool is_tried = std::any_of(asked->steps.begin(), asked->steps.end(),
                                    [](const Step& step) { return step.held_by_breaker > 0; });
  if (is_tried) return std::nullopt;  // how many of them will run is not known
  const ExpectedEnds& ends = expected_ends();
  const auto found = ends.sweeps.find(sweep);
  return found == ends.sweeps.end() ? std::nullopt : found->second;
}

std::optional<std::int64_t> Coordinator::expected_end(JobId job) const {
  const JobState state = parts_.world->job(job)->state;
  if (is_ended(state) || state == JobState::Held) return std::nullopt;
  const ExpectedEnds& ends = expected_ends();
  const auto found = ends.jobs.find(job);
  if (found == ends.jobs.end()) return std::nullopt;
  return found->second;
}

}  // namespace pergpu
