// `plan`: the world, or what a submit would make of it, given to the forecast.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/running_attempts.h"
#include "forecast/plan_hint.h"
#include "forecast/planning.h"
#include "plural.h"

namespace pergpu {
namespace {

/// Some milliseconds even where nothing was optimized.
constexpr std::size_t kEventsOfATurn = 500;

Error too_many(std::size_t jobs) {
  return Error{ErrorKind::Invalid, 0,
               fmt::format("{} jobs would be open, but a plan covers at most {}; for larger "
                           "sweeps, the status view shows the expected end",
                           jobs, kMostPlanned)};
}

}  // namespace

/// The lanes as they are, with nothing booked.  Those that are closed now are taken to stay so.
ForecastMachine Coordinator::forecast_machine(std::vector<std::string>* notes) const {
  ForecastMachine machine;
  Capacity& capacity = machine.capacity;
  machine.cores = parts_.machine.core_count();
  capacity.cpus = capacity_.cpus;
  capacity.memory_bytes = capacity_.memory_bytes;
  capacity.cpu_lanes.size = capacity_.cpu_lanes.size;
  for (const auto& [sweep, pool] : capacity_.sweep_lanes) {
    capacity.sweep_lanes[sweep].size = pool.size;
  }
  for (const auto& [id, sweep] : parts_.world->sweeps()) {
    if (sweep.context.engine == kSlurm) capacity.sweep_lanes[id].size = lanes_of(sweep);
  }
  for (const auto& [name, use] : capacity_.limits) capacity.limits[name].value = use.value;
  capacity.shares = capacity_.shares.history(parts_.clock->now().boot_ns);
  parts_.gpus->fill(capacity);
  for (GpuLane& gpu : capacity.gpus) {  // jobs that have one now are booked by the forecast itself
    gpu.ends = false;
    gpu.free_at_ns = 0;
    gpu.parts = {};
  }
  for (const LaneSnapshot& lane : parts_.gpus->lanes()) {
    const auto gpu = std::find_if(capacity.gpus.begin(), capacity.gpus.end(),
                                  [&](const GpuLane& g) { return g.uuid == lane.uuid; });
    if (gpu == capacity.gpus.end()) continue;
    const bool runs_ours = lane.job.has_value();
    if (lane.state == "free" || lane.state == "busy" || runs_ours) gpu->busy.clear();
    if (runs_ours && !lane.why.empty()) machine.leaving.push_back(lane.uuid);
    if (notes != nullptr && !lane.why.empty() && lane.state != "free" && lane.state != "busy") {
      notes->push_back(fmt::format("{} is {}: {}", lane.name, lane.state, lane.why));
    }
  }
  return machine;
}

/// What their steps ask for.
void Coordinator::add_steps(ForecastMachine& machine, const ForecastJobs& jobs,
                            const Sweep* planned, const ReadyQueue& declared) const {
  for (const ForecastJob& job : jobs.jobs) {
    if (machine.steps.contains(job.step)) continue;
    const bool is_planned = planned != nullptr && planned->id == job.step.sweep;
    const Sweep* sweep = is_planned ? planned : parts_.world->sweep(job.step.sweep);
    const Demand* demand = (is_planned ? declared : queue_).demand(job.step);
    const auto slot = static_cast<std::size_t>(job.step.step);
    if (sweep == nullptr || slot >= sweep->steps.size()) continue;
    const StepSpec& spec = sweep->steps[slot].spec;
    const bool is_elsewhere = sweep->context.engine == kSlurm;
    if (!is_elsewhere && demand == nullptr) continue;
    machine.steps[job.step] = {.demand = is_elsewhere ? demand_on_cluster(spec) : *demand,
                               .ready_ns = std::chrono::nanoseconds(spec.ready).count()};
  }
}

Result<ForecastInput> Coordinator::plan_input(const PlanRequest& request,
                                              std::vector<std::string>* notes) {
  const World& world = *parts_.world;
  const Instant now = parts_.clock->now();
  std::size_t open = 0;
  for (const auto& [id, sweep] : world.sweeps()) open += static_cast<std::size_t>(sweep.open);
  if (request.file) open += request.file->runs.size() * request.file->steps.size();
  if (open > kMostPlanned) return too_many(open);

  ForecastInputBuilder builder({.world = parts_.world,
                                .running = running_attempts(live_),
                                .learnt = &learnt_,
                                .telemetry = parts_.telemetry,
                                .now = now,
                                .given = request.given,
                                .with_names = true});
  ReadyQueue declared;
  ForecastInput input;
  std::vector<std::string> closed;  // lanes
  ForecastMachine machine = forecast_machine(&closed);
  if (request.file) {
    const SweepSpec& file = *request.file;
    if (request.context.add) {
      return Error{ErrorKind::Invalid, 0, "a plan needs the whole file, without --add"};
    }
    // GPUs that are only imagined cannot be checked.
    const bool imagined = request.on > 0 && !parts_.gpus->any();
    SubmitContext context = with_remembered(world, file, request.context).context;
    context.overrides = false;  // the plan is that of the rows that the file has now
    Result<SubmitPlan> plan = imagined ? plan_submit(world, file, context, now, {}, request.lost)
                                       : plan_checked(file, context, {}, request.lost);
    if (!plan) return with_plan_hint(std::move(plan).error(), file, context, parts_.gpus->any());
    const PlannedJobs planned(world, file, *plan, now);
    const Sweep sweep = planned.as_sweep(plan->sweep, context);
    declare(sweep, declared, machine.capacity);
    if (sweep.context.engine == kSlurm) {
      machine.capacity.sweep_lanes[sweep.id].size = lanes_of(sweep);
    }
    for (const auto& [name, value] : file.limits) machine.capacity.limits[name].value = value;
    builder.add_world(plan->sweep, [](JobId) { return false; });
    builder.add_planned(file, *plan, planned);
    input = builder.build();
    add_steps(machine, input.jobs, &sweep, declared);
    for (const std::string& warning : plan->reply.warnings) notes->push_back(warning);
  } else {
    std::unordered_set<JobId> asked;
    if (request.jobs) asked.insert(request.jobs->begin(), request.jobs->end());
    builder.add_world({}, [&](JobId id) { return !request.jobs || asked.contains(id); });
    input = builder.build();
    add_steps(machine, input.jobs, nullptr, declared);
  }
  std::size_t unknown = 0;
  bool uses_gpus = false;
  for (std::size_t i = 0; i < input.jobs.jobs.size(); ++i) {
    const ForecastJob& job = input.jobs.jobs[i];
    const auto step = machine.steps.find(job.step);
    const bool is_on_gpu =
        step != machine.steps.end() && step->second.demand.pool == LaneId::Pool::Gpu;
    uses_gpus = uses_gpus || (input.asked[i] && is_on_gpu);
    const bool is_unknown = job.duration_ns == ForecastJob::kForever;
    unknown += !input.asked[i] && is_unknown && job.kind != ForecastJob::Kind::Held ? 1 : 0;
  }
  if (uses_gpus && !parts_.gpus->driver_trouble().empty()) {
    closed.push_back("no jobs start on GPUs now: " + parts_.gpus->driver_trouble());
  }
  if (uses_gpus) notes->insert(notes->end(), closed.begin(), closed.end());
  if (unknown > 0) {
    notes->push_back(
        fmt::format("the duration of {} is unknown: the plan assumes that each keeps "
                    "its lane forever",
                    counted(unknown, "other job")));
  }
  input.machine = std::move(machine);
  return input;
}

void Coordinator::plan(const PlanRequest& request,
                       const std::function<void(Result<nlohmann::json>)>& done) {
  Planning::Facts facts{.given = request.given, .on = request.on};
  if (request.file) {
    for (const StepSpec& step : request.file->steps) facts.steps.push_back(step.name);
  }
  Result<ForecastInput> input = plan_input(request, &facts.notes);
  if (!input) return done(std::move(input).error());
  if (Result<void> known = Planning::check_given(*input, facts); !known) {
    return done(std::move(known).error());
  }
  nlohmann::json missing = nlohmann::json::array();
  for (const Planning::Missing& one : Planning::missing(*input)) {
    missing.push_back({{"sweep", one.sweep}, {"step", one.step}, {"jobs", one.jobs}});
  }
  if (!missing.empty()) return done(nlohmann::json{{"missing", std::move(missing)}});
  Result<std::unique_ptr<Planning>> planning = Planning::of(*std::move(input), std::move(facts));
  if (!planning) return done(std::move(planning).error());
  go_on_planning(std::shared_ptr<Planning>(std::move(*planning)), done);
}

/// Some of it in each turn: a plan answers as many questions as there are numbers of lanes.
void Coordinator::go_on_planning(const std::shared_ptr<Planning>& planning,
                                 const std::function<void(Result<nlohmann::json>)>& done) {
  if (planning->advance(kEventsOfATurn)) return done(planning->answer());
  parts_.timers->at(parts_.clock->now().boot_ns,
                    [this, planning, done] { go_on_planning(planning, done); });
}

}  // namespace pergpu
