// Rendering happens while the intent is being stored (coordinator.cc, settle()), so it costs no
// hand-over time.  What is the same for all jobs of a sweep is read once and kept.
#include "coordinator/attempt_planner.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "api/snapshot.h"
#include "coordinator/attempt_end.h"
#include "coordinator/code_place.h"
#include "forecast/expectation.h"
#include "gpu/amd_uuid.h"
#include "gpu/processes.h"
#include "job/classify.h"
#include "job/gpu_slot.h"
#include "job/redact.h"
#include "os/fs/expected_files.h"
#include "os/fs/written_file.h"
#include "run/record.h"
#include "run/root_note.h"
#include "spec/templates/placeholders.h"
#include "spec/templates/start_size.h"
#include "spec/text/units.h"
#include "state/declared_outputs.h"
#include "storage_errno.h"

namespace pergpu {
namespace {

// Of larger files (a model as an argument) only size and time are noted.
constexpr std::uint64_t kMaxHashed = 16u << 20;
constexpr std::string_view kDefaultMetrics = "{metrics}";

std::string absolute(const std::string& path, const std::string& folder) {
  return path.empty() || path.front() == '/' ? path : folder + "/" + path;
}

std::string hash_of_content(const std::string& content) {
  const XXH128_hash_t h = XXH3_128bits(content.data(), content.size());
  return fmt::format("xxh128:{:016x}{:016x}", h.high64, h.low64);
}

/// Everything but `metrics`, which depends on the rest.
Result<RenderScope> scope_without_metrics(const World& world, const Job& job, int attempt) {
  const Sweep& sweep = world.sweep_of(job);
  RenderScope scope;
  if (job.run >= 0) {
    const Run& run = sweep.runs[static_cast<std::size_t>(job.run)];
    Result<RenderScope> of_run = scope_of(run.spec());
    if (!of_run) return of_run;
    scope = std::move(*of_run);
    scope.run_folder = run.folder();
    scope.index = job.run;
  }
  scope.attempt = attempt;
  scope.out = world.out_of(job);
  scope.config = scope.out + "/config.json";
  scope.metrics = scope.out + "/metrics.jsonl";  // what {metrics} is in the key of that name
  scope.step_out = [&world, &sweep, run = job.run](std::string_view step) {
    std::optional<int> slot = sweep.slot_of(step);
    return slot ? world.out_of(sweep, *slot, run) : std::string();
  };
  scope.runs_lines = [&sweep] {
    std::string lines;
    for (const Run& run : sweep.runs) {
      if (run.listed) lines.append(run.json()).append("\n");
    }
    return lines;
  };
  return scope;
}

std::string working_folder(const Sweep& sweep, const StepSpec& step, const std::string& cwd) {
  const std::string& folder = step.copy.empty() ? sweep.spec.folder : step.copy;
  return cwd.empty() ? folder : absolute(cwd, folder);
}

/// A job's metrics file; relative to where the job runs, as `outputs` are.
Result<std::string> rendered_metrics(const World& world, const Job& job, const RenderScope& scope) {
  const StepSpec& step = world.step_of(job).spec;
  if (step.metrics == kDefaultMetrics) return scope.metrics;
  Result<std::string> path = render(step.metrics, scope);
  if (!path || path->empty()) return path;
  if (path->front() == '/') return path;
  Result<std::string> cwd = render(step.cwd, scope);
  if (!cwd) return cwd;
  return absolute(*path, working_folder(world.sweep_of(job), step, *cwd));
}

Result<RenderScope> scope_of_job(const World& world, const Job& job, int attempt) {
  Result<RenderScope> scope = scope_without_metrics(world, job, attempt);
  if (!scope) return scope;
  Result<std::string> metrics = rendered_metrics(world, job, *scope);
  if (!metrics) return std::move(metrics).error();
  scope->metrics = *std::move(metrics);
  return scope;
}

/// `cwd`: where the job runs, absolute.
Result<DeclaredOutputs> declared_outputs(const StepSpec& step, const RenderScope& scope,
                                         const std::string& cwd) {
  DeclaredOutputs out;
  std::size_t bytes = 0;
  for (const Template& output : step.outputs) {
    const bool is_pattern = has_wildcards(output);
    Result<std::string> path = is_pattern ? render_pattern(output, scope) : render(output, scope);
    if (!path) return std::move(path).error();
    bytes += path->size();
    if (bytes > kMostStartBytes) return too_long(output, bytes);
    if (is_pattern) {
      out.patterns.push_back(absolute(*path, os::escape_pattern(cwd)));
    } else {
      out.paths.push_back(absolute(*path, cwd));
    }
  }
  return out;
}

}  // namespace

Result<DeclaredOutputs> outputs_of(const World& world, const Job& job) {
  const StepSpec& step = world.step_of(job).spec;
  Result<RenderScope> scope = scope_of_job(world, job, std::max(1, static_cast<int>(job.attempts)));
  if (!scope) return std::move(scope).error();
  Result<std::string> cwd = render(step.cwd, *scope);
  if (!cwd) return std::move(cwd).error();
  return declared_outputs(step, *scope, working_folder(world.sweep_of(job), step, *cwd));
}

std::string metrics_of(const World& world, const Job& job) {
  const std::string usual = world.out_of(job) + "/metrics.jsonl";
  if (world.step_of(job).spec.metrics == kDefaultMetrics) return usual;  // thousands in a table
  Result<RenderScope> scope = scope_of_job(world, job, std::max(1, static_cast<int>(job.attempts)));
  return scope ? scope->metrics : usual;
}

AttemptPlanner::AttemptPlanner(const World& world, std::string home, std::string share,
                               ReadEnvironment read_environment, Record record, bool tells_home)
    : world_(world),
      home_(std::move(home)),
      share_(std::move(share)),
      user_(gpu::user_name(::geteuid())),
      tells_home_(tells_home),
      read_environment_(std::move(read_environment)),
      code_(world, std::move(record),
            [this](const Job& job, const std::string& path) { return uses(job, path); }) {}
void AttemptPlanner::forget(SweepId sweep) { environments_.erase(sweep); }

void AttemptPlanner::forget_root(const Sweep& sweep) const {
  ::unlink(root_note(home_, sweep.folder()).c_str());
}

Result<AttemptPlanner::Environment> AttemptPlanner::environment(SweepId sweep) {
  if (auto it = environments_.find(sweep); it != environments_.end()) return it->second;
  Result<std::string> text = read_environment_(sweep);
  if (!text) {
    const bool is_disk = is_storage_errno(text.error().os_errno);
    return Error{ErrorKind::Invalid, text.error().os_errno,
                 fmt::format("can't read the sweep's environment: {}{}", text.error().message,
                             is_disk ? "" : "; submit the sweep again")};
  }
  Environment shared = std::make_shared<std::vector<std::string>>(entries_of(*text));
  environments_.emplace(sweep, shared);
  return shared;
}

Result<FolderPlan> AttemptPlanner::folder(const Job& job) const {
  const Sweep& sweep = world_.sweep_of(job);
  FolderPlan folder{.out = world_.out_of(job),
                    .attempt = is_live(job.state) ? job.attempts : job.attempts + 1,
                    .umask = static_cast<std::uint32_t>(sweep.context.umask)};
  if (job.run >= 0) {
    folder.files.push_back(
        {.path = folder.out + "/config.json",
         .content = std::string(sweep.runs[static_cast<std::size_t>(job.run)].json()) + "\n",
         .keep_if_same = true});
  }
  return folder;
}

/// Whether the file is among its arguments.
bool AttemptPlanner::uses(const Job& job, const std::string& path) const {
  const Result<RenderScope> scope = scope_of_job(world_, job, job.attempts);
  if (!scope) return false;
  const Result<std::vector<std::string>> argv = render_argv(world_.step_of(job).spec, *scope);
  return argv && std::find(argv->begin(), argv->end(), path) != argv->end();
}

std::vector<std::pair<std::string, std::string>> AttemptPlanner::hash_files(
    const Job& job, const std::vector<std::string>& argv, const std::string& cwd) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& arg : argv) {
    if (arg.find_first_of("./") == std::string::npos || arg.size() > 4096) continue;
    const std::string path = absolute(arg, cwd);
    // What the sweep itself makes (models, configurations) differs by design; a copy of the code
    // lies there, too.
    const std::string& copy = world_.step_of(job).spec.copy;
    const bool is_code = !copy.empty() && path.starts_with(copy + "/");
    const bool is_made = path.starts_with(world_.sweep_of(job).folder() + "/");
    if ((is_made && !is_code) || !os::is_regular(path)) continue;
    Result<os::FileIdentity> identity = os::file_identity(path);
    if (!identity) continue;
    Hashed& known = hashes_[path];
    if (known.hash.empty() || !(known.identity == *identity)) {
      known.identity = *identity;
      if (identity->size > kMaxHashed) {
        known.hash = fmt::format("size:{},mtime_ns:{}", identity->size, identity->mtime_ns);
      } else {
        Result<std::string> content = os::read_file(path, kMaxHashed);
        known.hash = content ? hash_of_content(*content) : std::string("unreadable");
      }
    }
    out.emplace_back(arg, known.hash);
  }
  return out;
}

std::vector<std::string> AttemptPlanner::warnings_of(const Job& job) {
  return code_.warnings_of(job);
}

/// What the templates of the job's step give for its newest attempt.
Result<AttemptPlanner::Rendered> AttemptPlanner::rendered(const Job& job) {
  const Sweep& sweep = world_.sweep_of(job);
  const StepSpec& step = world_.step_of(job).spec;
  Result<RenderScope> scope = scope_of_job(world_, job, job.last->number);
  if (!scope) return std::move(scope).error();
  Result<std::vector<std::string>> argv = render_argv(step, *scope);
  if (!argv) return std::move(argv).error();
  auto step_env = render_env(step, *scope);
  if (!step_env) return std::move(step_env).error();
  Result<std::string> cwd = render(step.cwd, *scope);
  if (!cwd) return std::move(cwd).error();
  Result<Environment> captured = environment(sweep.id);
  if (!captured) return std::move(captured).error();
  return Rendered{.scope = *std::move(scope),
                  .argv = *std::move(argv),
                  .env = *std::move(step_env),
                  .cwd = working_folder(sweep, step, *cwd),
                  .captured = *std::move(captured)};
}

JobEnvironment AttemptPlanner::environment_of(const Job& job, const Rendered& r, LaneId::Pool pool,
                                              std::optional<MpsClient> mps) const {
  const StepSpec& step = world_.step_of(job).spec;
  const Attempt& attempt = *job.last;
  const AttemptId id{job.id, attempt.number};
  EnvironmentRequest request{.captured = r.captured.get(),
                             .env_pass = step.env_pass,
                             .step_env = r.env,
                             .cpus = attempt.placement.cpus,
                             .gpus = attempt.placement.gpus,
                             .gpu_share = attempt.placement.share,
                             .mps = std::move(mps),
                             .port = attempt.placement.port,
                             // A GPU step on a CPU lane stands for one without a GPU, too.
                             .hide_gpus = true,
                             .cache_root = home_ + "/cache",
                             .attempt = id,
                             .sweep = world_.sweep_of(job).name,
                             .run = r.scope.run_folder,
                             .step = step.name,
                             .config = job.run < 0 ? std::string() : r.scope.config,
                             .out = r.scope.out,
                             .metrics = r.scope.metrics,
                             .share = share_,
                             .home = tells_home_ ? home_ : std::string(),
                             .marker = fmt::format("{}/{}", home_, to_string(id)),
                             .parameters = param_env(r.scope.parameters, step)};
  if (step.signal) request.signal = signal_name(step.signal->number).substr(3);  // of "SIGUSR1"
  // An AMD GPU is chosen by its UUID in any case, and has a number for HIP beside that.
  const bool is_amd = gpu::are_amd_uuids(attempt.placement.gpus);
  if (pool == LaneId::Pool::Gpu && step.gpu_env == GpuEnv::Index && !is_amd) {
    request.gpus.clear();
    for (const LaneId& lane : lanes_of(attempt.placement)) {
      const GpuPlace place = place_of(lane.slot);
      if (place.instance < 0) request.gpus.push_back(std::to_string(place.gpu));
    }
    // An instance has no number for CUDA.
    if (request.gpus.empty()) request.gpus = attempt.placement.gpus;
  }
  return build_environment(request);
}

/// attempt.json as it is at the start.
AttemptRecord AttemptPlanner::record_of(const Job& job, const Rendered& r,
                                        const JobEnvironment& environment) {
  const Sweep& sweep = world_.sweep_of(job);
  const Attempt& attempt = *job.last;
  AttemptRecord record;
  record.id = {job.id, attempt.number};
  record.home = home_;
  record.sweep = sweep.name;
  record.run = r.scope.run_folder;
  record.step = world_.step_of(job).spec.name;
  record.argv = r.argv;
  record.cwd = r.cwd;
  for (const std::string& entry : environment.all)
    record.env_names.push_back(entry.substr(0, entry.find('=')));
  for (const auto& [name, value] : environment.set_by_us) {
    std::erase(record.env_names, name);
    record.env_set.emplace_back(name, is_secret_name(name) ? std::string(kRedacted) : value);
  }
  record.placement = attempt.placement;
  record.git_commit = sweep.context.git_commit;
  record.git_dirty = sweep.context.git_dirty;
  record.files = hash_files(job, r.argv, r.cwd);
  record.starting_at = rfc3339(attempt.starting_at.wall_ns);
  record.state = "running";
  return record;
}

Result<AttemptPlan> AttemptPlanner::plan(const Job& job, const Demand& demand,
                                         std::optional<MpsClient> mps) {
  const Sweep& sweep = world_.sweep_of(job);
  const StepSpec& step = world_.step_of(job).spec;
  const Attempt& attempt = *job.last;

  if (!step.copy.empty()) {
    if (Result<void> may = check_copy(step.copy); !may) return std::move(may).error();
  }
  Result<Rendered> r = rendered(job);
  if (!r) return std::move(r).error();
  Result<FolderPlan> folder = this->folder(job);
  if (!folder) return std::move(folder).error();

  AttemptPlan plan;
  plan.id = {job.id, attempt.number};
  plan.folder = std::move(*folder);
  plan.argv = r->argv;
  plan.cwd = r->cwd;
  plan.log_path = r->scope.out + "/log.txt";
  plan.record_path = r->scope.out + "/attempt.json";
  for (const auto& [resource, soft] : sweep.context.limits) plan.limits.push_back({resource, soft});
  plan.shell = sweep.context.shell;
  if (plan.shell && step.signal) {  // what the step asks for arrives
    const std::uint64_t asked = std::uint64_t{1} << (step.signal->number - 1);
    plan.shell->ignored &= ~asked;
    plan.shell->blocked &= ~asked;
  }
  plan.cpu_list = attempt.placement.cpu_list;
  plan.memory_bytes = demand.memory_bytes.value_or(0);
  if (step.cpus && plan.cpu_list.empty()) plan.cpu_milli = 1000 * *step.cpus;
  if (step.max_starting) plan.ready_path = r->scope.metrics;
  plan.grace = step.grace;
  plan.idle = step.idle_timeout.value_or(std::chrono::milliseconds(0));
  plan.stall = step.stall.value_or(std::chrono::milliseconds(0));
  plan.holder = fmt::format("job {} of sweep {} of user {} (home {})", job.id.value, sweep.name,
                            user_, home_);
  Result<DeclaredOutputs> outputs = declared_outputs(step, r->scope, plan.cwd);
  if (!outputs) return std::move(outputs).error();
  plan.outputs = std::move(outputs->paths);
  plan.output_patterns = std::move(outputs->patterns);
  plan.fake_duration = std::chrono::milliseconds(1000);
  if (!step.fake.duration.empty()) {
    Result<std::string> text = render(step.fake.duration, r->scope);
    if (!text) return std::move(text).error();
    if (Result<std::chrono::milliseconds> d = parse_duration(*text)) plan.fake_duration = *d;
  } else if (const std::int64_t expected = expected_ns(world_, job); expected > 0) {
    plan.fake_duration = std::chrono::milliseconds(expected / 1'000'000);
  }
  if (!step.fake.exit.empty()) {
    Result<std::string> text = render(step.fake.exit, r->scope);
    if (text) plan.fake_exit = std::atoi(text->c_str());
  }

  JobEnvironment environment = environment_of(job, *r, demand.pool, std::move(mps));
  auto live = std::make_shared<AttemptRecord>(record_of(job, *r, environment));
  code_.saw(job, live->files);
  plan.env = std::move(environment.all);
  plan.record_at_start = to_json_text(*live);
  live_[job.id] = std::move(live);
  return plan;
}

namespace {

/// Of an attempt that an earlier coordinator started: as it was written then.
std::shared_ptr<AttemptRecord> record_at_start(AttemptId id, const std::string& out) {
  constexpr std::size_t kLongest = 4u << 20;
  for (const std::string& path :
       {out + "/attempt.json", fmt::format("{}/attempt.{}.json", out, id.number)}) {
    const Result<std::string> text = os::read_written(path, os::Writer::Keeper, kLongest);
    std::optional<AttemptRecord> record = text ? attempt_record_of(*text) : std::nullopt;
    if (record && record->id == id) return std::make_shared<AttemptRecord>(*std::move(record));
  }
  return nullptr;
}

}  // namespace

/// Of an attempt whose start left no record (its keeper was killed at once): rendered again.
AttemptRecord AttemptPlanner::rendered_record(const Job& job) {
  const Attempt& attempt = *job.last;
  if (Result<Rendered> r = rendered(job)) {
    return record_of(job, *r, environment_of(job, *r, attempt.placement.lane.pool, std::nullopt));
  }
  const Sweep& sweep = world_.sweep_of(job);
  AttemptRecord record;
  record.id = {job.id, attempt.number};
  record.home = home_;
  record.sweep = sweep.name;
  record.step = world_.step_of(job).spec.name;
  record.git_commit = sweep.context.git_commit;
  record.git_dirty = sweep.context.git_dirty;
  record.starting_at = rfc3339(attempt.starting_at.wall_ns);
  if (Result<RenderScope> s = scope_of_job(world_, job, attempt.number)) {
    record.run = s->run_folder;
    if (auto argv = render_argv(world_.step_of(job).spec, *s)) record.argv = std::move(*argv);
  }
  record.cwd = sweep.spec.folder;
  return record;
}

std::shared_ptr<const AttemptRecord> AttemptPlanner::final_record(const Job& job) {
  const Attempt& attempt = *job.last;
  const AttemptId id{job.id, attempt.number};
  std::shared_ptr<AttemptRecord> record;
  if (auto it = live_.find(job.id); it != live_.end()) {
    if (it->second->id == id) record = std::move(it->second);
    live_.erase(it);
  }
  if (!record) record = record_at_start(id, world_.out_of(job));
  if (record && !record->home.empty() && record->home != home_) record = nullptr;  // another's
  if (!record) record = std::make_shared<AttemptRecord>(rendered_record(job));
  record->placement = attempt.placement;
  tell_end(job, *record);
  return record;
}

}  // namespace pergpu
