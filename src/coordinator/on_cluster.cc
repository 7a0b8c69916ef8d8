// The part of the coordinator that has to do with sweeps which a cluster runs: what its tasks
// report happens to their jobs here, in the same events as if they ran on this machine.
#include <fmt/format.h>

#include <utility>

#include "coordinator/attempt_end.h"
#include "coordinator/coordinator.h"
#include "os/process/paths.h"
#include "slurm/cluster.h"

namespace pergpu {

std::unique_ptr<Cluster> Coordinator::make_cluster() {
  return std::make_unique<Cluster>(Cluster::Parts{
      .world = parts_.world,
      .clock = parts_.clock,
      .timers = parts_.timers,
      .errands = parts_.errands,
      .from = fmt::format("{}:{}", os::host_name(), parts_.home),
      .pergpu = parts_.program,
      .allocation = parts_.allocation,
      .read_environment = parts_.read_environment,
      .record = [this](JobId id, JobEvent e,
                       Instant at) { take_from_cluster(id, std::move(e), at); },
      .keep = [this](row::Usage usage) { parts_.journal->record(std::move(usage)); },
      .end = [this](JobId id, const Evidence& evidence,
                    bool writes) { end_on_cluster(id, evidence, writes); },
      .cancel = [this](JobId id, const std::string& reason) { cancel({id}, false, reason); },
      .refresh = [this](JobId id) { refresh(id); },
      .touch = [this](JobId id) { touch(id); },
      .when_durable = [this](std::function<void()> effect) { when_durable(std::move(effect)); },
      .when_ended = parts_.when_ended});
}

const store::Present* Coordinator::present(AttemptId attempt) const {
  return cluster_ ? cluster_->present(attempt) : nullptr;
}

bool Coordinator::is_on_cluster(const Job& job) const {
  return cluster_ && parts_.world->sweep_of(job).context.engine == kSlurm;
}

void Coordinator::take_from_cluster(JobId id, JobEvent e, Instant at) {
  const bool is_end = std::holds_alternative<event::Ended>(e);
  const bool is_back = std::holds_alternative<event::Requeued>(e);
  record(id, std::move(e), at);
  is_end ? mind_needs(id) : refresh(id);
  if (is_back) dependents_of(id);  // they were skipped when it had failed
}

void Coordinator::stop_on_cluster(const Job& job, StopCause cause, const std::string& reason,
                                  StopHow how) {
  const bool at_once = how == StopHow::Kill;
  if (job.state != JobState::Stopping || (at_once && !job.last->stop_at_once)) {
    record(job.id, event::Stopping{cause, reason, at_once});
  }
  cluster_->stop(job.id);
}

/// The cluster says that its task is over, and the records say nothing of its end.
void Coordinator::end_on_cluster(JobId id, const Evidence& evidence, bool writes) {
  const Job& job = *parts_.world->job(id);
  Outcome outcome = classify(evidence);
  const Next next = what_follows(job, outcome);
  record(id, event::Ended{std::move(outcome), next});
  if (!writes) return mind_needs(id);
  // Its task cannot write that down any more.
  AttemptRecord end{.id = {id, job.last->number}, .placement = job.last->placement};
  tell_end(job, end);
  const auto mode = static_cast<mode_t>(0666 & ~parts_.world->sweep_of(job).context.umask);
  when_durable([this, folder = parts_.world->out_of(job), end = std::move(end), mode] {
    parts_.errands->run([folder, end, mode] {
      close_record(folder, end, mode);
      return [] {};
    });
  });
  mind_needs(id);
}

/// On a node: what its allocation can never run.  On this machine no submit lets that in.
void Coordinator::hold_unfit() {
  parts_.gpus->fill(capacity_);
  std::vector<std::pair<JobId, std::string>> unfit;
  parts_.world->open_jobs().for_each([&](JobId id) {
    const Job& job = *parts_.world->job(id);
    if (job.state != JobState::Queued) return;
    const StepSpec& step = parts_.world->step_of(job).spec;
    const Demand demand = demand_of(step, pool_of(parts_.world->sweep_of(job), step));
    std::string why = never_fits(demand, capacity_);
    if (!why.empty()) unfit.emplace_back(id, std::move(why));
  });
  for (auto& [id, why] : unfit) record(id, event::Held{"in its allocation: " + std::move(why)});
}

void Coordinator::mind_needs(JobId id) {
  const Job& job = *parts_.world->job(id);
  const bool is_told_of = !parts_.world->sweep_of(job).spec.notify.empty();
  if (job.state == JobState::Done && !is_told_of) drop_environment(job.sweep);
  refresh(id);
  dependents_of(id);
}

}  // namespace pergpu
