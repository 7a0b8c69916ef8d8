// The first forecast is the plan; those behind it only show how long it would take otherwise.
#include "forecast/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "ascii.h"
#include "job/gpu_slot.h"
#include "spec/text/suggest.h"

namespace pergpu {
namespace {

using Kind = ForecastJob::Kind;

/// Events of all questions together: beyond it some numbers of lanes are left out.
constexpr std::size_t kMostForeseen = 400'000;

}  // namespace

Result<std::unique_ptr<Planning>> Planning::of(ForecastInput input, Facts facts) {
  std::unique_ptr<Planning> planning(new Planning(std::move(input), std::move(facts)));
  if (Result<void> whole = planning->check(); !whole) return std::move(whole).error();
  planning->ask_questions();
  return planning;
}

Planning::Planning(ForecastInput input, Facts facts)
    : input_(std::move(input)), facts_(std::move(facts)), links_(input_.jobs), main_(main_lanes()) {
  if (facts_.on > 0 && main_.scales) {
    input_.machine = with_lanes(facts_.on);
    main_.count = facts_.on;
  }
  bound_ = lower_bound(input_.jobs, links_, input_.machine, input_.asked);
}

std::vector<Planning::Missing> Planning::missing(const ForecastInput& input) {
  std::map<std::pair<std::string, std::string>, std::size_t> steps;
  for (std::size_t i = 0; i < input.jobs.jobs.size(); ++i) {
    const ForecastJob& job = input.jobs.jobs[i];
    const bool is_unknown = job.duration_ns == ForecastJob::kForever;
    if (!input.asked[i] || job.kind == Kind::Held || !is_unknown) continue;
    ++steps[{input.names[i].sweep, input.names[i].step}];
  }
  std::vector<Missing> out;
  for (const auto& [where, count] : steps) {
    out.push_back({.sweep = where.first, .step = where.second, .jobs = count});
  }
  return out;
}

Result<void> Planning::check_given(const ForecastInput& input, const Facts& facts) {
  std::set<std::string_view> steps(facts.steps.begin(), facts.steps.end());
  for (std::size_t i = 0; i < input.names.size(); ++i) {
    if (input.asked[i]) steps.insert(input.names[i].step);
  }
  for (const auto& [step, duration] : facts.given) {
    if (steps.contains(step)) continue;
    return Error{ErrorKind::Invalid, 0,
                 fmt::format("--expect {}=…: there is no such step{}", step,
                             did_you_mean(step, {steps.begin(), steps.end()}))};
  }
  return {};
}

Result<void> Planning::check() const {
  if (facts_.on > 0 && main_.any && !main_.scales) {
    return Error{ErrorKind::Invalid, 0,
                 "--on works for lanes of one kind, but the jobs run on several kinds (GPUs, CPU "
                 "lanes, lanes of a sweep); name one sweep, or one step of it: SWEEP/*/STEP"};
  }
  return {};
}

// ---- lanes ---------------------------------------------------------------------------------

Planning::MainLanes Planning::main_lanes() const {
  std::set<std::pair<LaneId::Pool, SweepId>> pools;
  for (std::size_t i = 0; i < input_.jobs.jobs.size(); ++i) {
    const ForecastJob& job = input_.jobs.jobs[i];
    if (!input_.asked[i] || job.kind == Kind::Held) continue;
    const auto step = input_.machine.steps.find(job.step);
    const bool is_live = job.hold.has_value();
    if (!is_live && step == input_.machine.steps.end()) continue;
    const LaneId::Pool pool = is_live ? job.hold->lane.pool : step->second.demand.pool;
    pools.insert({pool, pool == LaneId::Pool::Sweep ? job.step.sweep : SweepId{}});
  }
  MainLanes main;
  if (pools.contains({LaneId::Pool::Gpu, SweepId{}})) {
    main.pool = LaneId::Pool::Gpu;
    main.count = static_cast<int>(usable_gpus(input_.machine).size());
    return main;
  }
  main.any = !pools.empty();
  main.scales = pools.size() == 1;
  if (!main.scales) return main;
  std::tie(main.pool, main.sweep) = *pools.begin();
  const Capacity& capacity = input_.machine.capacity;
  main.count = capacity.cpu_lanes.size;
  if (main.pool == LaneId::Pool::Sweep) {
    const auto own = capacity.sweep_lanes.find(main.sweep);
    main.count = own == capacity.sweep_lanes.end() ? 0 : own->second.size;
  }
  return main;
}

/// Those that are open, and that what is asked about may use.
std::vector<std::string> Planning::usable_gpus(const ForecastMachine& machine) const {
  std::set<StepKey> asked;
  for (std::size_t i = 0; i < input_.jobs.jobs.size(); ++i) {
    if (input_.asked[i]) asked.insert(input_.jobs.jobs[i].step);
  }
  std::vector<std::string> usable;
  for (const GpuLane& gpu : machine.capacity.gpus) {
    const bool may = std::any_of(asked.begin(), asked.end(), [&](const StepKey& key) {
      const auto step = machine.steps.find(key);
      if (step == machine.steps.end()) return true;
      const Demand& demand = step->second.demand;
      return demand.pool == LaneId::Pool::Gpu && !is_kept_off(demand, gpu) &&
             (demand.devices.empty() || contains(demand.devices, gpu.uuid));
    });
    if (gpu.busy.empty() && may) usable.push_back(gpu.uuid);
  }
  return usable;
}

/// The machine as it would be with `count` main lanes.  Of GPUs those stay that run jobs; a job on
/// one that is not to stay ends there.  More of them are like the last one.
ForecastMachine Planning::with_lanes(int count) const {
  ForecastMachine machine = input_.machine;
  if (main_.pool == LaneId::Pool::Cpu) machine.capacity.cpu_lanes.size = count;
  if (main_.pool == LaneId::Pool::Sweep) machine.capacity.sweep_lanes[main_.sweep].size = count;
  if (main_.pool != LaneId::Pool::Gpu) return machine;

  std::vector<std::string> usable = usable_gpus(machine);
  std::set<std::string> held;
  for (const ForecastJob& job : input_.jobs.jobs) {
    if (job.hold) held.insert(job.hold->gpus.begin(), job.hold->gpus.end());
  }
  std::stable_partition(usable.begin(), usable.end(),
                        [&](const std::string& uuid) { return held.contains(uuid); });
  std::vector<GpuLane>& gpus = machine.capacity.gpus;
  for (std::size_t i = static_cast<std::size_t>(count); i < usable.size(); ++i) {
    if (held.contains(usable[i])) {
      machine.leaving.push_back(usable[i]);
      continue;
    }
    const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const GpuLane& g) { return g.uuid == usable[i]; });
    gpu->busy = "doesn't exist";
  }
  GpuLane like;
  for (const GpuLane& gpu : gpus) {
    if (contains(usable, gpu.uuid)) like = gpu;
  }
  std::int32_t last_slot = -1;
  for (const GpuLane& gpu : gpus) {
    const bool is_alike = is_instance(gpu.id.slot) == is_instance(like.id.slot);
    if (is_alike) last_slot = std::max(last_slot, gpu.id.slot);
  }
  for (int more = static_cast<int>(usable.size()); more < count; ++more) {
    GpuLane gpu = like;
    gpu.id = {.pool = LaneId::Pool::Gpu, .slot = ++last_slot};
    gpu.uuid = fmt::format("additional GPU {}", more);
    for (auto& [key, step] : machine.steps) {
      if (!step.demand.devices.empty()) step.demand.devices.push_back(gpu.uuid);
    }
    gpus.push_back(std::move(gpu));
  }
  return machine;
}

// ---- questions -----------------------------------------------------------------------------

void Planning::ask_questions() {
  questions_.push_back({});
  with_expect_ = input_.jobs;
  bool differs = false;
  for (std::size_t i = 0; i < with_expect_.jobs.size(); ++i) {
    ForecastJob& job = with_expect_.jobs[i];
    if (!input_.asked[i] || job.kind != Kind::Queued || job.duration_ns == job.order_ns) continue;
    if (job.cores > 0 && job.order_ns > 0) continue;  // known, and reported for a job that is alone
    job.order_ns = job.duration_ns;
    differs = true;
  }
  if (differs) questions_.push_back({.kind = Question::Kind::WithExpect});
  if (main_.scales && main_.count > 0) {
    const auto most = static_cast<std::size_t>(main_.count) * 2;
    const std::size_t jobs = std::max<std::size_t>(input_.jobs.jobs.size(), 1);
    std::set<int> counts;
    const bool all = most * jobs <= kMostForeseen;
    for (int n = 1; n <= 2 * main_.count; n = all ? n + 1 : n * 2) counts.insert(n);
    counts.insert({main_.count, 2 * main_.count});
    for (const int n : counts) {
      questions_.push_back({.kind = Question::Kind::WithLanes, .lanes = n});
    }
  }
  begin(questions_.front());
}

void Planning::begin(const Question& question) {
  switch (question.kind) {
    case Question::Kind::AsItIs:
      forecast_ = std::make_unique<Forecast>(input_.jobs, links_, input_.machine);
      return;
    case Question::Kind::WithExpect:
      forecast_ = std::make_unique<Forecast>(with_expect_, links_, input_.machine);
      return;
    case Question::Kind::WithLanes:
      forecast_ = std::make_unique<Forecast>(input_.jobs, links_, with_lanes(question.lanes));
      return;
  }
}

bool Planning::advance(std::size_t events) {
  if (asking_ == questions_.size()) return true;
  if (!forecast_->advance(events)) return false;
  Question& asked = questions_[asking_];
  asked.total_ns = total_of(*forecast_);
  if (asked.kind == Question::Kind::AsItIs) as_it_is_ = std::move(forecast_);
  ++asking_;
  // That many there are: it has been answered.
  if (asking_ < questions_.size() && questions_[asking_].kind == Question::Kind::WithLanes &&
      questions_[asking_].lanes == main_.count) {
    questions_[asking_++].total_ns = questions_.front().total_ns;
  }
  if (asking_ == questions_.size()) return true;
  begin(questions_[asking_]);
  return false;
}

std::optional<std::int64_t> Planning::total_of(const Forecast& forecast) const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < input_.jobs.jobs.size(); ++i) {
    if (!input_.asked[i] || input_.jobs.jobs[i].kind == Kind::Held) continue;
    const Forecast::Span& span = forecast.spans()[i];
    if (!span.ends()) return std::nullopt;
    total = std::max(total, span.end_ns);
  }
  return total;
}

}  // namespace pergpu
