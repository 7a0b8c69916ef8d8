// From queued to started: which jobs are ready, which one is next, its intent, its launch.  What
// follows is in attempts.cc; submits.cc, control.cc, explain.cc and recovery.cc hold the rest.
#include "coordinator/coordinator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "coordinator/attempt_planner.h"
#include "coordinator/expected_ends.h"
#include "coordinator/notice_facts.h"
#include "coordinator/submit_folders.h"
#include "forecast/expectation.h"
#include "gpu/pool/began.h"
#include "gpu/pool/mps_daemons.h"
#include "job/retry_wait.h"
#include "job/schedule/cpu_budget.h"
#include "slurm/cluster.h"
#include "state/readiness.h"
#include "state/simulated_sweep.h"
#include "storage_errno.h"

namespace pergpu {
namespace {

/// Any other error of the preparation is the user's; its words say enough.
int storage_errno_of(const Error& error) {
  return is_storage_errno(error.os_errno) ? error.os_errno : 0;
}

/// What is refused (ErrorKind::Denied) has whole sentences.
SpawnFailure not_prepared(const Error& error) {
  const bool is_refused = error.kind == ErrorKind::Denied;
  return {.phase = std::string(is_refused ? kProgramPhase : "prepare"),
          .os_errno = storage_errno_of(error),
          .object = error.message};
}

}  // namespace

Coordinator::Coordinator(Parts parts)
    : parts_(std::move(parts)),
      gpu_care_(parts_.world->meta(), parts_.boot_id, *parts_.clock,
                [this](row::Meta fact) { parts_.journal->record(std::move(fact)); }),
      lane_use_(parts_.clock->now().boot_ns),
      ports_(
          static_cast<std::uint32_t>(getpid() * 97 + parts_.clock->now().wall_ns / kMillisecond)),
      learnt_(parts_.world->meta(), *parts_.clock,
              [this](row::Meta fact) { parts_.journal->record(std::move(fact)); }),
      breaker_(
          {.world = parts_.world,
           .clock = parts_.clock,
           .timers = parts_.timers,
           .record = [this](JobId job, JobEvent e) { record(job, std::move(e)); },
           .note = [this](row::Meta fact) { parts_.journal->record(std::move(fact)); },
           .refresh = [this](JobId job) { refresh(job); },
           .pause = [this](StepKey step, bool pauses) { queue_.pause(step, pauses); },
           .starting = [this](StepKey step) { return count_acquiring(step); },
           .waits_for_folder =
               [this](JobId job) { return folder_waits_->has(job) || storage_waits_->holds(job); },
           .is_frozen = [this](SweepId sweep) { return frozen_ && frozen_ == sweep; },
           .probes = parts_.node.empty()}),
      planner_(std::make_unique<AttemptPlanner>(
          *parts_.world, parts_.home, parts_.share, parts_.read_environment,
          [this](row::Meta fact) { parts_.journal->record(std::move(fact)); }, parts_.tells_home)) {
  if (parts_.errands != nullptr) cluster_ = make_cluster();
  capacity_.cpus = parts_.machine.core_count();
  capacity_.memory_bytes = parts_.machine.memory_bytes;
  capacity_.cpu_lanes.size = parts_.machine.core_count();
  parts_.gpus->attend(&gpu_care_);
  notices_ = std::make_unique<Notices>(Notices::Parts{
      .world = parts_.world,
      .clock = parts_.clock,
      .timers = parts_.timers,
      .record = [this](row::Meta fact) { parts_.journal->record(std::move(fact)); },
      .then = [this](std::function<void()> effect) { parts_.journal->then(std::move(effect)); },
      .fetch =
          [this](std::vector<SweepId> sweeps, std::function<void(Result<void>)> done) {
            fetch(std::move(sweeps), std::move(done));
          },
      .compose =
          [this](const Sweep& sweep, const NotifyChannel& channel, const NoticeDebt& debt) {
            const std::string environment = fmt::format("{}/env/{}", parts_.home, sweep.id.value);
            return notice_request(*this, environment, sweep, channel, debt);
          },
      .deliver = parts_.deliver,
      .settled = [this](SweepId id) { drop_environment(id); }});
  folder_waits_ = make_folder_waits();
  storage_waits_ = make_storage_waits();
  look_for_outputs_by({});
  submit_folders_ = std::make_unique<SubmitFolders>(SubmitFolders::Parts{
      .world = parts_.world,
      .timers = parts_.timers,
      .clock = parts_.clock,
      .aside = parts_.aside_for_submits,
      .home = parts_.home,
      .fetch = [this](std::vector<SweepId> archived, std::function<void(Result<void>)> done) {
        fetch(std::move(archived), std::move(done));
      }});
}
Coordinator::~Coordinator() { parts_.gpus->attend(nullptr); }

// ---- the queue -----------------------------------------------------------------------------

/// A step that asks for a GPU was accepted because there was one, or because of --lanes.  That no
/// look shows one now (a restart, a hung driver) sends no job to a CPU lane, where it would fail.
LaneId::Pool Coordinator::pool_of(const Sweep& sweep, const StepSpec& step) const {
  if (step.gpus > 0 && (parts_.gpus->any() || sweep.context.lanes == 0)) return LaneId::Pool::Gpu;
  return sweep.context.lanes > 0 ? LaneId::Pool::Sweep : LaneId::Pool::Cpu;
}

void Coordinator::declare(const Sweep& sweep) {
  declare(sweep, queue_, capacity_);
  sort_by_shape(sweep);
}

void Coordinator::declare(const Sweep& sweep, ReadyQueue& queue, Capacity& capacity) const {
  if (sweep.context.engine == kSlurm) return;  // nothing of it starts here
  if (sweep.context.lanes > 0) {
    capacity.sweep_lanes[sweep.id].size = static_cast<int>(sweep.context.lanes);
  }
  for (std::size_t slot = 0; slot < sweep.steps.size(); ++slot) {
    const Step& step = sweep.steps[slot];
    Demand demand = demand_of(step.spec, pool_of(sweep, step.spec));
    demand.most_memory = capacity.memory_bytes;
    demand.most_gpu_memory = parts_.gpus->largest_memory();
    if (!sweep.context.devices.empty() && demand.pool == LaneId::Pool::Gpu) {
      auto devices = gpu::select_gpus(parts_.gpus->last_look(), sweep.context.devices, "--devices");
      // No GPU at all must not be taken for "any".
      demand.devices =
          devices && !devices->empty() ? std::move(*devices) : std::vector<std::string>{"none"};
    }
    const StepKey key{sweep.id, static_cast<std::int16_t>(slot)};
    std::map<GpuShape, Demand> by_shape;
    if (demand.is_auto) {
      const GpuShapes* shapes = learnt_.gpu_shapes(step.spec);
      fit_to_need(demand, shapes == nullptr ? nullptr : &shapes->all());
      if (shapes != nullptr && sweep.open > 0) {
        for (const auto& [shape, need] : shapes->needs()) {
          fit_to_need(by_shape[shape] = demand, &need);
        }
      }
    }
    queue.declare(key, demand, by_shape);
    queue.set_left(key, queued_of(step));
  }
  for (const auto& [name, value] : parts_.world->limits()) capacity.limits[name].value = value;
}

Coordinator::Standing Coordinator::standing_of(const Job& job) const {
  return {.expected_ns = expected_ns(*parts_.world, job, &learnt_),
          .growths = growths_of(job),
          .shape = shape_of(job)};
}

/// Of a job in queue_, or as which it would come there.
ClassKey Coordinator::class_of(const Job& job) const {
  const Standing* standing = ready_.find(job.id);
  const GpuShape shape = standing == nullptr ? shape_of(job) : standing->shape;
  return {{job.sweep, job.step}, growths_of(job), shape};
}

ReadyJob Coordinator::ready_job(const Job& job, const Standing& standing) {
  return {.id = job.id,
          .step = {job.sweep, job.step},
          .run = job.run,
          .expected_ns = standing.expected_ns,
          .growths = standing.growths,
          .shape = standing.shape};
}

void Coordinator::touch(JobId job) {
  if (touched_set_.put(job, true)) touched_.push_back(job);
}

void Coordinator::record(JobId job, JobEvent e, Instant at) {
  ++changes_;
  const Job& changing = *parts_.world->job(job);
  const bool was_active = !is_ended(changing.state) && !is_held_for_good(changing);
  const Sweep& sweep = parts_.world->sweep_of(changing);
  const bool had_ended = sweep.open == 0;
  using Change = CircuitBreaker::Change;
  const auto* ended = std::get_if<event::Ended>(&e);
  const bool is_moved = ended && ended->next.kind == Next::Kind::Again && !ended->next.charged;
  const Change change = is_moved ? Change::Moved : ended ? Change::Ended : Change::Other;
  parts_.journal->record(row::Event{.job = job, .event = std::move(e), .at = at});
  if (had_ended && sweep.open > 0) declare(sweep);  // others may have shown what it needs
  queue_.set_left({changing.sweep, changing.step}, queued_of(parts_.world->step_of(changing)));
  if (sweep.open == 0) rest_.insert(sweep.id);
  breaker_.on_event(changing, change);
  notices_->saw(changing, was_active);
  touch(job);
}

void Coordinator::leave_queue(const Job& job) {
  if (const Standing* standing = ready_.find(job.id)) {
    queue_.erase(ready_job(job, *standing));
    ready_.erase(job.id);
  }
  if (auto it = not_before_.find(job.id); it != not_before_.end()) {
    parts_.timers->cancel(it->second);
    not_before_.erase(it);
  }
}

/// Brings queue and needs in line with one job's state.  Idempotent.
void Coordinator::refresh(JobId id) {
  if (is_frozen(*parts_.world->job(id))) {
    missed_.push_back(id);
    return;
  }
  std::vector<JobId> work{id};
  while (!work.empty()) {
    const JobId next = work.back();
    work.pop_back();
    const Job& job = *parts_.world->job(next);
    const bool on_cluster = is_on_cluster(job);
    if (job.state != JobState::Queued) {
      on_cluster ? cluster_->leave(next) : leave_queue(job);
      continue;
    }
    const JobId newer = on_cluster ? parts_.world->replaced_by(next) : JobId{};
    if (newer) {  // its task had begun it, and gave it back
      record(next,
             event::Cancelled{fmt::format("not started again: replaced by job {}", newer.value)});
      cluster_->leave(next);
      work.push_back(newer);
      continue;
    }
    if (acquiring_.contains(next)) continue;
    ReadinessVerdict verdict = readiness(*parts_.world, job);
    // There it may wait behind what it needs.
    if (on_cluster && verdict.readiness == Readiness::Waits) verdict.readiness = Readiness::Ready;
    switch (verdict.readiness) {
      case Readiness::Waits:
        leave_queue(job);
        break;
      case Readiness::Doomed:
        on_cluster ? cluster_->leave(next) : leave_queue(job);
        record(next, event::Skipped{std::move(verdict.words)});
        visit_dependents(*parts_.world, job, [&](JobId d) { work.push_back(d); });
        break;
      case Readiness::Ready: {
        if (job.attempts == std::numeric_limits<std::int16_t>::max()) {
          record(next,
                 event::Held{fmt::format("it has had {} attempts, the maximum", job.attempts)});
          leave_queue(job);
          break;
        }
        if (folder_waits_->has(next)) break;
        if (storage_waits_->holds(next)) {
          leave_queue(job);
          break;
        }
        const Instant now = parts_.clock->now();
        const std::int64_t wait = retry_wait_ns(job, now, began_ns(lane_use_, now.boot_ns));
        if (wait > 0) {
          if (!not_before_.contains(next)) {
            not_before_[next] = parts_.timers->at(later_by(now.boot_ns, wait), [this, next] {
              not_before_.erase(next);
              refresh(next);
            });
          }
          break;
        }
        if (on_cluster) {
          cluster_->want(next);
          break;
        }
        if (ready_.contains(next)) break;
        const Standing standing = standing_of(job);
        queue_.insert(ready_job(job, standing));
        ready_.put(next, standing);
        touch(next);  // its watchers know what it waited for until now
        break;
      }
    }
  }
}

/// A job ended, or was queued again: those that need it are looked at; what was skipped because of
/// it comes back when it does.
void Coordinator::dependents_of(JobId id) {
  std::vector<JobId> affected;
  bring_back_dependents(id, affected);
  for (JobId d : affected) refresh(d);
}

/// As deep as steps need each other.  One after the other: a barrier is closed by the first job of
/// its step that comes back, and those behind it are visited only then.
void Coordinator::bring_back_dependents(JobId id, std::vector<JobId>& affected) {
  const Job& job = *parts_.world->job(id);
  const bool came_back = !is_ended(job.state);
  visit_dependents(*parts_.world, job, [&](JobId d) {
    const Job& dependent = *parts_.world->job(d);
    if (came_back && (dependent.state == JobState::Skipped || dependent.repeat_skipped)) {
      record(d, event::Requeued{fmt::format("job {}, which it needs, was queued again", id.value)});
      breaker_.on_brought_back(dependent);
      bring_back_dependents(d, affected);
    }
    affected.push_back(d);
  });
}

void Coordinator::refresh_all() {
  for (const auto& [id, sweep] : parts_.world->sweeps()) declare(sweep);
  parts_.world->open_jobs().for_each([this](JobId id) {
    if (parts_.world->job(id)->state == JobState::Queued) refresh(id);
  });
}

// ---- starting ------------------------------------------------------------------------------

void Coordinator::hold_starts(std::string why) { starts_held_ = std::move(why); }

void Coordinator::use_share(std::string socket) { planner_->use_share(std::move(socket)); }

bool Coordinator::may_begin() const {
  return parts_.journal->writable() && !leaving_ && starts_held_.empty();
}

void Coordinator::settle() {
  Journal& journal = *parts_.journal;
  if (may_begin()) breaker_.settle();
  parts_.gpus->search(misses_gpu());
  // Which lanes a job may use, and how many CPU lanes there are, is not known before the first
  // look; what runs already, not before the keepers of before have said so.
  if (parts_.gpus->discovered() && parts_.local->may_start() && may_begin() && !frozen_) {
    storage_waits_->settle();
    parts_.gpus->fill(capacity_);
    const auto avoided = [this](JobId id) { return failed_on(id); };
    capacity_.now_ns = parts_.clock->now().boot_ns;
    while (std::optional<Choice> choice = choose(queue_, capacity_, avoided)) {
      const int overtaken = queue_.overtaken(choice->job.key());
      queue_.take(choice->job, choice->overtaken);
      ready_.erase(choice->job.id);
      storage_waits_->on_start(choice->job.id);
      const Demand& demand = *queue_.demand(choice->job.key());
      capacity_.occupy(choice->job.step, demand, choice->lane, choice->gpus,
                       fmt::format("runs job {}", choice->job.id.value),
                       expected_end_ns(capacity_.now_ns, choice->job.expected_ns));
      if (choice->lane.pool == LaneId::Pool::Gpu) {
        acquire(*choice, overtaken);
      } else {
        begin(*choice, demand);
      }
      breaker_.on_start(choice->job.step);
    }
  }
  // Whatever keeps jobs from starting, leases that nothing was chosen for go.
  const bool may_start = may_begin();
  parts_.gpus->settle([&](const std::string& uuid) { return may_start && wants_gpu(uuid); });
  if (cluster_) cluster_->settle(may_start && !frozen_);
  notices_->settle();
  archive_ended();
  if (!touched_.empty()) {
    std::vector<JobId> changed = std::exchange(touched_, {});
    for (const JobId job : changed) touched_set_.put(job, false);
    journal.then([this, changed = std::move(changed)] { parts_.changed(changed); });
  }
  journal.flush();
  // The disk is busy now: time to prepare what it will allow.
  for (Prepared& p : std::exchange(to_plan_, {})) {
    const Job& job = *parts_.world->job(p.job);
    const LiveAttempt& live = live_.at(p.job);
    Result<AttemptPlan> plan = planner_->plan(job, live.demand, mps_client(live));
    if (plan) {
      *p.plan = std::move(*plan);
    } else {
      *p.failure = plan.error();
    }
  }
  journal.flush();  // which code was seen first
  if (!journal.writable() && !store_retry_armed_) {
    store_retry_armed_ = true;
    parts_.timers->at(parts_.clock->now().boot_ns + kSecond, [this] {
      store_retry_armed_ = false;
      parts_.journal->retry();
    });
  }
  run_submits();
}

/// Where the processes of one attempt may meet: free now, and no other live attempt's.  0: none is.
int Coordinator::meeting_port() {
  std::set<int> taken;
  for (const auto& [id, live] : live_) taken.insert(parts_.world->job(id)->last->placement.port);
  return ports_.next([&](int port) { return !taken.contains(port) && os::is_free_port(port); });
}

/// The intent: recorded now, durable before anything is started.
void Coordinator::begin(const Choice& choice, const Demand& demand) {
  const JobId id = choice.job.id;
  const Job& job = *parts_.world->job(id);
  const Sweep& sweep = parts_.world->sweep_of(job);
  const Step& step = parts_.world->step_of(job);

  LiveAttempt live{.id = {id, job.attempts + 1},
                   .engine = &engine_of(sweep),
                   .key = choice.job.step,
                   .demand = demand,
                   .lane = choice.lane,
                   .gpus = choice.gpus};
  const os::ProcessAttributes* shell = sweep.context.shell ? &*sweep.context.shell : nullptr;
  const CoreShare share = cores_within(parts_.machine, shell ? shell->cpus : std::vector<int>());
  live.cpus = cpu_budget(step.spec.cpus, share.count, lanes_of(sweep), lanes_taken(demand));
  std::vector<LiveBudget> budgets;
  for (const auto& [other, attempt] : live_) budgets.push_back({attempt.cpus, attempt.cpu_list});
  Placement placement{.lane = live.lane,
                      .gpus = live.gpus,
                      .share = demand.share,
                      .promise_bytes = demand.promise_bytes,
                      .cpus = live.cpus,
                      .node = parts_.node};
  std::vector<int> near_cpus;
  for (const std::string& uuid : choice.gpus) {
    if (const gpu::GpuLane* gpu = parts_.gpus->facts(uuid)) {
      near_cpus.insert(near_cpus.end(), gpu->near_cpus.begin(), gpu->near_cpus.end());
      if (choice.gpus.size() > 1) placement.slots.push_back(gpu->id.slot);
    }
    parts_.gpus->occupy(uuid, id, demand, choice.lane);
  }
  meet(live);
  placement.mps = joins_mps(job, live);
  placement.cpu_list = live.cpu_list = choose_cores(live.cpus, share.cores, near_cpus, budgets);
  if (choice.gpus.size() > 1) placement.port = meeting_port();
  for (const LaneId& lane : pergpu::lanes_of(placement)) {
    lane_use_.occupy(lane, parts_.clock->now().boot_ns);
  }

  record(id, event::Starting{.attempt = live.id.number,
                             .placement = std::move(placement),
                             .keeper = live.engine->assign(live.lane)});
  const AttemptId attempt = live.id;
  live_.emplace(id, std::move(live));
  foldered_.erase(id);

  auto plan = std::make_shared<AttemptPlan>();
  auto failure = std::make_shared<Error>();
  to_plan_.push_back({plan, failure, id});
  parts_.journal->then([this, attempt, plan, failure] {
    auto it = live_.find(attempt.job);
    if (it == live_.end() || it->second.id != attempt) return;
    launch(attempt.job, plan, *failure);
  });
}

void Coordinator::launch(JobId id, const std::shared_ptr<AttemptPlan>& plan, const Error& failure) {
  LiveAttempt& live = live_.at(id);
  const Job& job = *parts_.world->job(id);
  const bool is_stopped = job.state == JobState::Stopping;  // while its intent was being stored
  const bool has_failed = !failure.message.empty();
  if ((is_stopped || has_failed) && is_frozen(job)) {
    const SpawnFailure why = not_prepared(failure);
    return defer(engine_event::SpawnFailed{
        .id = live.id, .phase = why.phase, .os_errno = why.os_errno, .object = why.object});
  }
  if (is_stopped) {
    end_attempt(id, Evidence{.stop = job.last->stop, .stop_reason = job.last->stop_reason});
    return;
  }
  if (has_failed) {
    end_attempt(id, Evidence{.spawn_failure = not_prepared(failure)});
    return;
  }
  if (!job.last->placement.mps) return send(live, plan);
  hold_mps(live, [this, plan](LiveAttempt& its) {
    if (!parts_.world->job(its.id.job)->last->stop) return send(its, plan);
    on_engine(engine_event::SpawnFailed{.id = its.id, .phase = "prepare", .object = ""});
  });
}

void Coordinator::send(LiveAttempt& live, const std::shared_ptr<AttemptPlan>& plan) {
  for (const std::string& uuid : live.gpus) {
    const int fd = parts_.gpus->lease_fd(uuid);
    if (fd >= 0) plan->lease_fds.push_back(fd);
  }
  live.record_path = plan->record_path;
  live.sent = true;
  live.engine->start(live.lane, std::move(*plan));
  await_lull();
}

/// Work that nothing waits for is done a moment later: the keepers and the store, just woken, often
/// get this thread's core only when it sleeps.
void Coordinator::await_lull() {
  constexpr std::int64_t kLull = 1'000'000;
  if (std::exchange(lull_armed_, true)) return;
  parts_.timers->at(parts_.clock->now().boot_ns + kLull, [this] {
    lull_armed_ = false;
    const std::vector<std::function<void()>> farewells = std::exchange(farewells_, {});
    for (const std::function<void()>& farewell : farewells) farewell();
    // Where jobs end by the dozen there is no idle moment to use; START makes the folder anyway.
    if (farewells.size() <= 1) prepare_next();
  });
}

/// Folders of the jobs that will come next, made while their lanes are still busy.
void Coordinator::prepare_next() {
  constexpr std::size_t kAhead = 4;
  std::size_t looked = 0;
  for (const ReadyQueue::Head& head : queue_.heads()) {
    if (++looked > kAhead) return;
    const JobId id = head.job.id;
    if (foldered_.contains(id)) continue;
    const Job& job = *parts_.world->job(id);
    const Sweep& sweep = parts_.world->sweep_of(job);
    auto neighbour = std::find_if(live_.begin(), live_.end(), [&](const auto& entry) {
      return entry.second.key.sweep == sweep.id && entry.second.sent;
    });
    if (neighbour == live_.end()) continue;
    Result<FolderPlan> folder = planner_->folder(job);
    if (!folder) continue;
    foldered_.insert(id);
    engine_of(sweep).prepare(neighbour->second.lane, *folder);
  }
}

// ---- facts ------------------------------------------------------------------------------------

Engine& Coordinator::engine_of(const Sweep& sweep) const {
  return sweep.context.engine == kFake ? *parts_.fake : *parts_.local;
}

int Coordinator::lanes_of(const Sweep& sweep) const {
  if (sweep.context.engine == kSlurm && cluster_) return cluster_->lanes_of(sweep);
  if (sweep.context.lanes > 0) return static_cast<int>(sweep.context.lanes);
  if (parts_.gpus->any()) return static_cast<int>(parts_.gpus->count());
  return capacity_.cpu_lanes.size;
}

const LiveAttempt* Coordinator::live(JobId job) const {
  auto it = live_.find(job);
  return it == live_.end() ? nullptr : &it->second;
}

bool Coordinator::idle() const {
  return live_.empty() && (!cluster_ || cluster_->idle()) && told_all() && acquiring_.empty() &&
         ready_.empty() && not_before_.empty() && folder_waits_->empty() &&
         storage_waits_->empty() && breaker_.idle() && submits_.empty() && !submitting_ &&
         notices_->idle() && parts_.journal->idle() && parts_.journal->writable() &&
         !parts_.journal->fetches();
}

void Coordinator::when_durable(std::function<void()> effect) {
  parts_.journal->then(std::move(effect));
}

bool Coordinator::is_ours(const GpuProcess& process) const {
  std::vector<std::int32_t> roots{getpid()};
  for (const auto& [id, live] : live_) {
    const Job& job = *parts_.world->job(id);
    if (job.last->pid > 0) roots.push_back(job.last->pid);
  }
  for (std::int32_t pid : parts_.local->keeper_pids()) roots.push_back(pid);
  if (parts_.mps != nullptr) {
    for (std::int32_t pid : parts_.mps->pids()) roots.push_back(pid);
  }
  return gpu::descends_from(process, roots);
}

/// A process of that attempt's tree, which its keeper inherits.
bool Coordinator::is_of(const LiveAttempt& live, const GpuProcess& process) const {
  return gpu::descends_from(process, roots_of(live));
}

std::optional<JobId> Coordinator::job_of(const GpuProcess& process) const {
  const auto owner = std::find_if(live_.begin(), live_.end(),
                                  [&](const auto& entry) { return is_of(entry.second, process); });
  return owner == live_.end() ? std::nullopt : std::optional(owner->first);
}

void Coordinator::gpus_discovered() {
  if (parts_.gpus->any()) {
    const int lanes = static_cast<int>(parts_.gpus->count());
    const int cores = parts_.machine.core_count();
    capacity_.cpu_lanes.size = machine_cpu_lanes(cores, lanes, cpu_budget({}, cores, lanes));
  }
  if (!parts_.node.empty()) hold_unfit();
  refresh_all();
}

}  // namespace pergpu
