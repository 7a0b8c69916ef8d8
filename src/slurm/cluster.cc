// One errand at a time: what it brings may change what is to be asked next.
#include "slurm/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "os/fs/file.h"
#include "os/random.h"
#include "slurm/array_call.h"
#include "slurm/slurm_words.h"

namespace pergpu {
Cluster::Cluster(Parts parts) : parts_(std::move(parts)) {
  if (!parts_.allocation.empty()) steps_.emplace(parts_.allocation);
}

void Cluster::want(JobId job) {
  if (holds(job)) return;
  wanted_[parts_.world->job(job)->sweep].insert(job);
  may_plan_ = true;
}

void Cluster::settle(bool may_change) {
  if (may_change) {
    for (const auto& answer : std::exchange(answers_, {})) {
      answer();
      may_plan_ = true;
    }
  }
  forget_closed();
  if (busy_ || !may_change) return;
  const std::int64_t now = parts_.clock->now().boot_ns;
  if (!to_recover_.empty() && now >= next_recovery_ns_) return ask_what_was();
  if (!to_end_.empty() && now >= next_end_ns_ && end_tasks()) return;
  if (!to_withdraw_.empty() && now >= next_withdrawal_ns_ && withdraw()) return;
  const bool needs_site = !knows_site() && (steps_ || !wanted_.empty());
  if (!needs_site && (may_plan_ || now >= next_plan_ns_)) {
    may_plan_ = false;  // not until something has changed, or a pause is over
    if (steps_ ? hand_over_step() : hand_over_next()) return;
    next_plan_ns_ = next_after_pause(now);
  }
  const bool looks = !arrays_.empty() || needs_site;
  if (looks && now >= next_look_ns_) return look();
  if (looks) return wake_at(next_look_ns_);
  std::int64_t next = next_plan_ns_;
  if (!to_recover_.empty()) next = std::min(next, next_recovery_ns_);
  if (next != kNever) wake_at(next);
}

/// When the next of those that wait for a pause may be handed over.
std::int64_t Cluster::next_after_pause(std::int64_t now_ns) const {
  std::int64_t next = kNever;
  for (const auto& [sweep, jobs] : wanted_) {
    const std::int64_t its = pauses_.next_ns(sweep);
    if (its > now_ns) next = std::min(next, its);
  }
  return next;
}

bool Cluster::idle() const {
  // Else for what only people can bring about.
  const bool waits = !knows_site() || may_plan_ || next_plan_ns_ != kNever;
  return to_recover_.empty() && !busy_ && answers_.empty() && arrays_.empty() &&
         (wanted_.empty() || !waits);
}

bool Cluster::has_open(SweepId sweep) const {
  return to_recover_.contains(sweep) ||
         std::any_of(arrays_.begin(), arrays_.end(), [&](const auto& entry) {
           const Array& array = entry.second;
           return array.step.sweep == sweep && array.open > 0 && array.others.empty();
         });
}

std::string Cluster::why_not_gone(const Sweep& sweep, bool strictly) const {
  const auto trouble = troubles_.find(sweep.id);
  if (to_recover_.contains(sweep.id) && trouble == troubles_.end()) {
    return "its state in Slurm isn't known yet";
  }
  if (to_recover_.contains(sweep.id) && strictly) {
    return "its state in Slurm isn't known: " + trouble->second;
  }
  const auto has_told = [this](JobId id) {
    const JobState state = parts_.world->job(id)->state;
    return state == JobState::Done || state == JobState::Failed || state == JobState::Timeout;
  };
  for (const auto& [key, array] : arrays_) {
    const bool counts = strictly || array.others.empty();
    if (array.step.sweep != sweep.id || !counts) continue;
    for (const auto& [index, task] : array.tasks) {
      if (task.closed || std::all_of(task.jobs.begin(), task.jobs.end(), has_told)) continue;
      return array.others.empty() ? "some of its tasks are still in Slurm"
                                  : "Slurm still has tasks that were submitted by pergpu on " +
                                        words_of_owner(array.others);
    }
  }
  return "";
}

/// False: nothing of what is wanted can be handed over now.
bool Cluster::hand_over_next() {
  std::set<SweepId> not_now = to_recover_;
  const std::int64_t now = parts_.clock->now().boot_ns;
  for (const auto& [sweep, jobs] : wanted_) {
    if (pauses_.next_ns(sweep) > now) not_now.insert(sweep);
  }
  for (const auto& [key, array] : arrays_) {
    // What is next may have to wait for it.
    const bool has_no_name = array.number == 0 && array.open > 0 && array.others.empty();
    if (has_no_name) not_now.insert(array.step.sweep);
  }
  ClusterSite site{
      .array_size = array_size_,
      .place = [this](JobId job) -> std::optional<HandedPlace> {
        const auto it = places_.find(job);
        if (it == places_.end()) return std::nullopt;
        const Array& array = arrays_.at(it->second.array);
        if (array.number == 0) return std::nullopt;
        return HandedPlace{array.number, it->second.task, array.jobs_each, array.handed(job)};
      },
      .arrays =
          [this](StepKey step) {
            std::vector<std::int64_t> numbers;
            for (const auto& [key, array] : arrays_) {
              const bool counts = array.step == step && array.open > 0 && array.number != 0;
              if (counts) numbers.push_back(array.number);
            }
            return numbers;
          },
      .is_handed = [this](JobId job) { return holds(job); }};
  for (const auto& [id, jobs] : wanted_) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr || not_now.contains(id)) continue;
    site.most_tasks = pauses_.most_tasks(id);
    std::optional<ArrayPlan> plan =
        next_array(*parts_.world, *sweep, {jobs.begin(), jobs.end()}, site);
    if (plan && hand_over(*sweep, *std::move(plan))) return true;
  }
  return false;
}

// ---- handing over -----------------------------------------------------------------------------

/// False: not now; it is tried again after a pause.
bool Cluster::hand_over(const Sweep& sweep, ArrayPlan plan) {
  const Result<std::string> environment = parts_.read_environment(sweep.id);
  if (!environment) {
    pauses_.refused(sweep.id, environment.error().message, parts_.clock->now().boot_ns);
    return false;
  }
  Array array{.key = fmt::format("{}-{}", sweep.name, os::random_hex(8)),
              .step = plan.step,
              .jobs_each = plan.handover.jobs_each};
  array.folder = folder_of(sweep) + "/" + array.key;
  array.node = plan.handover.node;
  for (const store::HandedJob& job : plan.handover.jobs) {
    array.tasks[job.task].jobs.push_back(job.job.id);
    array.tasks[job.task].read = {job.task, 1, 0};
    wanted_[sweep.id].erase(job.job.id);
  }
  if (wanted_[sweep.id].empty()) wanted_.erase(sweep.id);
  plan.handover.key = array.key;
  plan.handover.from = parts_.from;
  plan.handover.at_wall_ns = array.at_wall_ns = parts_.clock->now().wall_ns;
  std::function<std::function<void()>()> send =
      steps_ ? start_of(sweep, plan, array, *environment)
             : submit_of(sweep, std::move(plan), array, *environment);
  add(std::move(array));
  busy_ = true;
  // Else a restart could know less of a job than its task does.
  parts_.when_durable([this, send = std::move(send)] { parts_.errands->run(send); });
  return true;
}

/// What hands it over, for an errand.
std::function<std::function<void()>()> Cluster::submit_of(const Sweep& sweep, ArrayPlan plan,
                                                          const Array& array,
                                                          const std::string& environment) {
  ArrayCall call = array_call(sweep, plan, array.folder, parts_.pergpu, environment);
  plan.handover.last_start_ms = call.last_start_ms;
  return [this, key = array.key, call = std::move(call),
          text = to_text(plan.handover)]() -> std::function<void()> {
    Result<std::int64_t> number = send_array(client_, call, text);
    return [this, key, number = std::move(number)] {
      answers_.push_back([this, key, number] { submitted(key, number); });
      busy_ = false;
    };
  };
}

void Cluster::submitted(const std::string& key, Result<std::int64_t> number) {
  const auto it = arrays_.find(key);
  if (it == arrays_.end()) return;
  Array& array = it->second;
  const SweepId sweep = array.step.sweep;
  const std::int64_t now = parts_.clock->now().boot_ns;
  ask_soon();
  if (number) {
    array.number = *number;
    trouble_.clear();
    pauses_.taken(sweep, array_size_);
    for (const auto& [index, task] : array.tasks) {
      for (const JobId job : task.jobs) parts_.touch(job);
    }
    return;
  }
  const std::string words = number.error().message;
  switch (number.error().kind) {
    case ErrorKind::Busy:
      break;
    case ErrorKind::Invalid:
      refuse(array, words);
      break;
    case ErrorKind::Full:
      pauses_.had_too_many(sweep, static_cast<int>(array.tasks.size()));
      [[fallthrough]];
    case ErrorKind::Unavailable:
      pauses_.refused(sweep, words, now);
      break;
    default:
      trouble_ = words;
      pauses_.unheard(now);
      array.doubtful = true;  // the queue shows it
      return;
  }
  for (auto& [index, task] : array.tasks) give_back(array, task);
  if (number.error().kind == ErrorKind::Busy) leave_rest_to(words, sweep);
}

/// Asking again would be refused again.
void Cluster::refuse(const Array& array, const std::string& words) {
  for (const auto& [index, task] : array.tasks) {
    for (const JobId job : task.jobs) {
      if (parts_.world->job(job)->state != JobState::Queued) continue;
      parts_.record(job, event::Held{"Slurm rejected it: " + words}, parts_.clock->now());
    }
  }
}

void Cluster::add(Array array) {
  array.open = 0;
  for (const auto& [index, task] : array.tasks) {
    if (!task.closed) ++array.open;
    for (const JobId job : task.jobs) {
      const auto place = places_.find(job);
      const bool has_newer =
          place != places_.end() && arrays_.at(place->second.array).at_wall_ns > array.at_wall_ns;
      if (task.closed || has_newer) continue;
      places_[job] = {array.key, index};
      if (auto it = wanted_.find(array.step.sweep); it != wanted_.end()) it->second.erase(job);
    }
  }
  arrays_.emplace(array.key, std::move(array));
}

void Cluster::wake_at(std::int64_t boot_ns) {
  if (timer_ != 0) parts_.timers->cancel(timer_);
  timer_ = parts_.timers->at(boot_ns, [this] { timer_ = 0; });
}

// ---- words ------------------------------------------------------------------------------------

std::string Cluster::why_not_handed(JobId id) const {
  const JobId older = parts_.world->replaces(id);
  if (older && holds(older)) {
    return fmt::format("waits for its earlier version (job {}) to leave Slurm", older.value);
  }
  const SweepId sweep = parts_.world->job(id)->sweep;
  const auto own = troubles_.find(sweep);
  if (own != troubles_.end()) return "waits to be submitted to Slurm: " + own->second;
  const std::string refusal = pauses_.words(sweep);
  if (!refusal.empty()) return "waits to be submitted to Slurm: " + refusal;
  if (!trouble_.empty()) {
    const bool is_unknown = trouble_.starts_with(slurm::kNoConfiguration);
    return fmt::format("waits to be submitted to Slurm{}: {}",
                       is_unknown ? "" : ", which doesn't respond", trouble_);
  }
  return steps_ ? fmt::format("waits for free resources on the nodes of Slurm job {}",
                              steps_->allocation())
                : "waits to be submitted to Slurm";
}

std::string Cluster::why(JobId id) const {
  const auto place = places_.find(id);
  if (place == places_.end()) return why_not_handed(id);
  const Array& array = arrays_.at(place->second.array);
  if (array.number == 0) return "is being submitted to Slurm";
  const Task& task = array.tasks.at(place->second.task);
  const std::string name = task_name(array, place->second.task);
  if (!array.unread.empty()) return fmt::format("{}: {}", name, array.unread);
  if (!task.seen) return fmt::format("waits in Slurm's queue ({})", name);
  if (task.seen->state == "PENDING") {
    return fmt::format("{} ({})", slurm::reason_words(task.seen->reason), name);
  }
  return fmt::format("{}: {}", name, slurm::state_words(task.seen->state));
}

int Cluster::lanes_of(const Sweep& sweep) const {
  const auto seen = lanes_.find(sweep.id);
  int out = seen == lanes_.end() ? 0 : seen->second.count();
  int room = 0;
  for (const Step& step : sweep.steps) {
    int of_step = 0;
    for (const slurm::AllocationNode& node : nodes_) {
      const NodeShare share = share_of(step.spec, node);
      const int by_cpus = node.cpus / std::max(1, share.cpus);
      const int gpus = static_cast<int>(node.gpus.size());
      of_step += share.gpus > 0 ? std::min(by_cpus, gpus / share.gpus) : by_cpus;
    }
    room = room == 0 || step.spec.gpus > 0 ? std::max(room, of_step) : room;
  }
  return std::max(out, room);
}

std::string Cluster::task_name(const Array& array, std::int32_t index) const {
  return steps_ ? fmt::format("a step of Slurm job {}", array.number)
                : fmt::format("Slurm job {}_{}", array.number, index);
}

std::string Cluster::where(JobId id) const {
  const auto place = places_.find(id);
  if (place == places_.end()) {
    const auto trouble = troubles_.find(parts_.world->job(id)->sweep);
    return trouble == troubles_.end()
               ? ""
               : "the state of its Slurm task is unknown: " + trouble->second;
  }
  const Array& array = arrays_.at(place->second.array);
  const Task& task = array.tasks.at(place->second.task);
  std::string out = task_name(array, place->second.task);
  const Job& job = *parts_.world->job(id);
  const std::string node = job.last ? job.last->placement.node : std::string();
  if (task.seen && !task.seen->nodes.empty()) {
    out += " on " + task.seen->nodes;
  } else if (is_live(job.state) && !node.empty()) {
    out += " on " + node;
  }
  if (!array.unread.empty()) out += "; can't read its records: " + array.unread;
  return out;
}

}  // namespace pergpu
