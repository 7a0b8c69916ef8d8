// Texts are as the user wrote them, but for what looks like a secret; nothing of the environment
// ever appears here.
#include "coordinator/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "coordinator/attempt_planner.h"
#include "coordinator/describe_usage.h"
#include "forecast/expectation.h"
#include "job/classify.h"
#include "job/redact.h"
#include "job/retry.h"
#include "job/schedule/gpu_limit.h"
#include "job/text.h"
#include "spec/schema/limit_keys.h"
#include "spec/templates/run_parameters.h"
#include "spec/text/exact_json.h"
#include "spec/text/units.h"
#include "state/simulated_sweep.h"
#include "store/present.h"

namespace pergpu {

std::string left_running(const Job& job) {
  if (!job.last || !job.last->outcome) return {};
  const Outcome& outcome = *job.last->outcome;
  return outcome.cls == OutcomeClass::Ok ? outcome.reason : outcome.left_running;
}

namespace {

std::string words_of_done(const Job& job) {
  const std::string left = left_running(job);
  const std::string repeat = repeat_words(job);
  return left + (left.empty() || repeat.empty() ? "" : "; ") + repeat;
}

}  // namespace

JobSnapshot describe(const Coordinator& coordinator, const Job& job) {
  const World& world = coordinator.world();
  const Sweep& sweep = world.sweep_of(job);
  const Step& step = world.step_of(job);
  JobSnapshot s{.id = job.id.value,
                .sweep = sweep.name,
                .sweep_id = sweep.id.value,
                .step = step.spec.name,
                .state = std::string(to_string(job.state)),
                .attempt = job.attempts,
                .queued_at = job.queued_at.wall_ns,
                .out = world.out_of(job)};
  if (job.run >= 0) {
    s.run = sweep.runs[static_cast<std::size_t>(job.run)].folder();
    s.index = job.run;
  }
  const bool was_done = job.state == JobState::Done;
  s.reason = was_done ? words_of_done(job) : coordinator.why(job);
  s.log = s.out + "/log.txt";
  s.metrics = metrics_of(world, job);
  s.retries_left = std::max(0, step.spec.retries.max - job.retries_used);
  s.replaced = !world.is_current(job);
  s.listed = world.is_listed(job.id);
  if (const std::int64_t expected = foreseen_ns(world, job, &coordinator.learnt()); expected > 0) {
    s.expected_s = static_cast<double>(expected) / 1e9;
  }
  if (const std::optional<std::int64_t> end = coordinator.expected_end(job.id)) {
    const Instant now = coordinator.now();
    s.expected_end_at = now.wall_ns + (*end - now.boot_ns);
  }
  if (job.last) {
    const Attempt& attempt = *job.last;
    s.started_at = attempt.started_at.wall_ns;
    s.ended_at = attempt.ended_at.wall_ns;
    s.gpus = attempt.placement.gpus;
    s.lane = to_string(attempt.placement.lane);
    s.lanes = lane_names(attempt.placement);
    if (!attempt.placement.node.empty()) s.node = attempt.placement.node;
    if (attempt.outcome) {
      s.cls = std::string(to_string(attempt.outcome->cls));
      s.exit = attempt.outcome->exit_code;
      s.signal = attempt.outcome->signal;
      if (attempt.started_at.boot_ns != 0) {
        s.duration_s =
            static_cast<double>(attempt.ended_at.boot_ns - attempt.started_at.boot_ns) / 1e9;
      }
    } else if (attempt.started_at.boot_ns != 0) {
      s.duration_s =
          static_cast<double>(coordinator.now().boot_ns - attempt.started_at.boot_ns) / 1e9;
    }
  }
  if (const LiveAttempt* live = coordinator.live(job.id)) {
    s.status = live->status;
    s.progress = live->progress;
    tell_usage(coordinator, live->id, s);
  } else if (job.last && !job.last->outcome) {
    const AttemptId attempt{job.id, job.last->number};
    if (const store::Present* present = coordinator.present(attempt)) {
      s.status = present->status;
      s.progress = present->progress;
    }
    tell_usage(coordinator, attempt, s);
  }
  s.warnings = coordinator.warnings_of(job);
  return s;
}

SweepSnapshot describe(const Coordinator& coordinator, const Sweep& sweep) {
  SweepSnapshot s = describe_but_runs(coordinator, sweep);
  describe_runs(sweep, sweep.runs.size(), s);
  return s;
}

SweepSnapshot describe_but_runs(const Coordinator& coordinator, const Sweep& sweep) {
  SweepSnapshot s{.id = sweep.id.value,
                  .name = sweep.name,
                  .root = sweep.root,
                  .columns = sweep.spec.columns,
                  .lanes = coordinator.lanes_of(sweep)};
  if (sweep.context.engine == kFake) s.warnings.emplace_back(kSimulated);
  const World& world = coordinator.world();
  std::array<std::int64_t, kJobStates> counts{};
  std::vector<const Step*> steps;
  for (const Step& step : sweep.steps) {
    if (step.listed) steps.push_back(&step);
    for (JobId id : step.current) {
      const Job* job = world.job(id);
      if (job != nullptr) ++counts[static_cast<std::size_t>(job->state)];
    }
  }
  world.live_jobs().for_each([&](JobId id) {  // what ran when the file was changed goes on
    const Job& job = *world.job(id);
    if (job.sweep != sweep.id || world.is_current(job)) return;
    ++counts[static_cast<std::size_t>(job.state)];
  });
  for (std::size_t state = 0; state < counts.size(); ++state) {
    if (counts[state] == 0) continue;
    s.counts[std::string(to_string(static_cast<JobState>(state)))] = counts[state];
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step* a, const Step* b) { return a->file_order < b->file_order; });
  for (const Step* step : steps) s.steps.push_back(step->spec.name);
  if (const std::optional<std::int64_t> end = coordinator.expected_end(sweep.id)) {
    s.remaining_s =
        static_cast<double>(std::max<std::int64_t>(*end - coordinator.now().boot_ns, 0)) / 1e9;
  }
  return s;
}

void describe_runs(const Sweep& sweep, std::size_t count, SweepSnapshot& out) {
  const std::size_t end = std::min(sweep.runs.size(), out.runs.size() + count);
  while (out.runs.size() < end) {
    const Run& run = sweep.runs[out.runs.size()];
    std::vector<std::string> row;
    if (Result<RunParameters> parameters = RunParameters::parse(run.spec())) {
      for (const std::string& column : sweep.spec.columns) {
        const std::string* text = parameters->text(column);
        row.push_back(text == nullptr ? "" : *text);
      }
    }
    out.runs.emplace_back(run.folder());
    out.rows.push_back(std::move(row));
  }
}

namespace {

/// "SIGUSR1 2m before the timeout, and before the SIGTERM of a cancel"
std::string signal_words(const StepSpec& step) {
  const std::string ahead = format_duration(step.signal->ahead);
  const std::string name = signal_name(step.signal->number);
  return fmt::format("{} {} before {}the SIGTERM of a cancel", name, ahead,
                     step.timeout ? "the timeout, and before " : "");
}

constexpr char kMemoryWatched[] = "checked every 0.5 s; the job is killed above it";

std::string memory_group(int version) {
  return version == 2 ? "enforced by cgroup v2 (memory.max)"
                      : "enforced by cgroup v1 (memory.limit_in_bytes)";
}

std::string cpu_group(int version) {
  return version == 2 ? "enforced by cgroup v2 (cpu.max)"
                      : "enforced by cgroup v1 (cpu.cfs_quota_us)";
}

std::string gpu_memory_words(const Coordinator& coordinator, const Job& job) {
  const Demand asked = coordinator.asked_by(job);
  if (!asked.gpu_memory_bytes && asked.share == 0) return "not enforced: it runs without a GPU";
  const bool is_told = !coordinator.gpu_lanes().last_look().in_container;
  if (!is_told && (asked.share > 0 || asked.outsiders != Outsiders::Avoid)) {
    return "not enforced: other processes may use the GPU, and in a container the driver doesn't "
           "report memory per process";
  }
  std::string most = share_text(asked.share) + " of the GPU's memory";
  if (asked.promise_bytes > 0)
    most = format_size(asked.promise_bytes) + " if other jobs reserve the rest";
  if (asked.gpu_memory_bytes) most = format_size(ended_above(*asked.gpu_memory_bytes));
  return fmt::format("checked every second: memory of its {}; the job is ended above {}",
                     is_told ? "processes on the GPU" : "GPU", most);
}

/// By what each limit of a live job is held; of others, by what the next attempt's will be.
nlohmann::json held_by(const Coordinator& coordinator, const Job& job, const StepSpec& step) {
  const os::CgroupSite& groups = coordinator.groups();
  const LiveAttempt* live = coordinator.live(job.id);
  const bool runs = live != nullptr && job.state != JobState::Starting;
  nlohmann::json out = nlohmann::json::object();
  if (step.timeout) out["timeout"] = "enforced by pergpu";
  if (step.signal) out["signal"] = signal_words(step);
  if (step.idle_timeout) out["idle_timeout"] = "checks log output";
  if (step.stall) {
    out["stall"] =
        std::string("checks log output, CPU time") + (step.gpus > 0 ? ", GPU utilization" : "");
  }
  if (step.gpu_memory_bytes || coordinator.asked_by(job).share > 0) {
    out["gpu_memory"] = gpu_memory_words(coordinator, job);
  }
  if (step.memory_bytes) {
    const int version = runs ? live->memory_held : groups.memory.version;
    out["memory"] = version == 0 ? kMemoryWatched : memory_group(version);
  }
  if (step.cpus && runs) {
    if (!live->cpu_list.empty()) {
      out["cpus"] = "enforced by CPU affinity to cores " + ranges_text(live->cpu_list);
    } else {
      out["cpus"] =
          live->cpu_held == 0 ? "passed to the job, not enforced" : cpu_group(live->cpu_held);
    }
  } else if (step.cpus) {
    out["cpus"] = "by CPU affinity if the shares of all running jobs fit the cores, else " +
                  (groups.cpu ? cpu_group(groups.cpu.version) : "passed to the job, not enforced");
  }
  return out;
}

/// As in the sweep file.
const char* scope_suffix(Need::Scope scope) {
  switch (scope) {
    case Need::Scope::SameRun:
      return "";
    case Need::Scope::All:
      return ":all";
    case Need::Scope::Ended:
      return ":ended";
  }
  return "";
}

}  // namespace

nlohmann::json describe_whole(const Coordinator& coordinator, const Job& job) {
  const World& world = coordinator.world();
  const Sweep& sweep = world.sweep_of(job);
  const StepSpec& step = world.step_of(job).spec;
  nlohmann::json j = describe(coordinator, job);
  nlohmann::json params = nlohmann::json::object();
  if (job.run >= 0) {
    const std::string_view text = sweep.runs[static_cast<std::size_t>(job.run)].json();
    params = exact_json(text);
    if (!params.is_object()) params = nlohmann::json::object();  // a number beyond any double
  }
  for (const auto& [name, value] : params.items()) {
    if (is_secret_name(name)) value = kRedacted;
  }
  j["params"] = std::move(params);
  j["command"] = step.shell.empty() ? nlohmann::json(redact_words(step.command))
                                    : nlohmann::json(redact_text(step.shell));
  if (step.copy.empty()) {
    j["cwd"] = step.cwd.empty() ? sweep.spec.folder : step.cwd;
  } else {
    j["cwd"] = step.cwd.empty() ? step.copy : step.copy + "/" + step.cwd;
  }
  j["file"] = sweep.spec.file;
  j["git_commit"] = sweep.context.git_commit;
  j["git_dirty"] = sweep.context.git_dirty;
  nlohmann::json limits = nlohmann::json::object();
  if (step.timeout) limits["timeout"] = format_duration(*step.timeout);
  if (step.idle_timeout) limits["idle_timeout"] = format_duration(*step.idle_timeout);
  if (step.stall) limits["stall"] = format_duration(*step.stall);
  if (step.signal) limits["signal"] = signal_text(*step.signal);
  const Demand asked = coordinator.asked_by(job);
  if (asked.memory_bytes) limits["memory"] = format_size(*asked.memory_bytes);
  if (step.gpu_memory_bytes) {
    limits["gpu_memory"] = format_size(asked.gpu_memory_bytes.value_or(*step.gpu_memory_bytes));
  }
  if (step.cpus) limits["cpus"] = *step.cpus;
  if (step.max_parallel) limits["max_parallel"] = *step.max_parallel;
  if (step.priority != 0) limits["priority"] = step.priority;
  if (step.weight != 0) limits["weight"] = step.weight;
  limits["gpus"] = step.gpus;
  if (asked.share > 0) limits["gpus"] = asked.share / static_cast<double>(kWholeGpu);
  limits["grace"] = format_duration(step.grace);
  j["limits"] = std::move(limits);
  j["limits_held"] = held_by(coordinator, job, step);
  nlohmann::json needs = nlohmann::json::array();
  for (const Need& need : step.needs) {
    needs.push_back(sweep.steps[static_cast<std::size_t>(need.step)].spec.name +
                    scope_suffix(need.scope));
  }
  j["needs"] = std::move(needs);
  if (job.last) {
    const Attempt& a = *job.last;
    nlohmann::json attempt{{"number", a.number},
                           {"pid", a.pid},
                           {"cpus", a.placement.cpus},
                           {"cpu_list", a.placement.cpu_list},
                           {"starting_at", rfc3339(a.starting_at.wall_ns)}};
    if (a.outcome) {
      attempt["peak_memory_bytes"] = a.outcome->peak_memory_bytes;
      attempt["cpu_s"] = static_cast<double>(a.outcome->cpu_ns) / 1e9;
    }
    j["last_attempt"] = std::move(attempt);
    j["usage"] = describe_usage(coordinator, job);
  }
  if (const std::optional<Estimate> learnt = learnt_of(world, job, coordinator.learnt())) {
    j["learnt"] = describe_learnt(*learnt);
  }
  if (!sweep.spec.notify.empty()) j["notify"] = coordinator.notices().words_of(sweep);
  if (JobId old = world.replaces(job.id)) j["replaces"] = old.value;
  if (JobId newer = world.replaced_by(job.id)) j["replaced_by"] = newer.value;
  j["why"] = coordinator.why(job);
  return j;
}

nlohmann::json describe_why(const Coordinator& coordinator, const Job& job) {
  std::string why = coordinator.why(job);
  for (const std::string& warning : coordinator.warnings_of(job)) why += "\nwarning: " + warning;
  return {{"id", job.id.value},
          {"name", coordinator.world().path_of(job)},
          {"state", to_string(job.state)},
          {"why", std::move(why)}};
}

nlohmann::json describe_gpus(const Coordinator& coordinator) {
  nlohmann::json gpus = nlohmann::json::array();
  for (GpuSnapshot& gpu : coordinator.gpu_lanes().gpus()) {
    tell_usage(coordinator, gpu);
    gpus.push_back(gpu);
  }
  nlohmann::json lanes = nlohmann::json::array();
  for (const LaneSnapshot& lane : coordinator.gpu_lane_snapshots()) lanes.push_back(lane);
  return {{"schema", 1},
          {"gpus", std::move(gpus)},
          {"lanes", std::move(lanes)},
          {"trouble", coordinator.gpu_lanes().trouble()},
          {"cpu_lanes", coordinator.machine().core_count()}};
}

}  // namespace pergpu
