// One errand at a time: what it brings may change what is to be asked next.
#include "coordinator/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/array_call.h"
#include "os/file.h"
#include "os/random.h"
#include "run/slurm_words.h"
#include "store/end_request.h"

namespace pergpu {
namespace {

/// Pauses after a submit that was not taken.
constexpr std::int64_t kShortestSubmitPause = 5 * kSecond;
constexpr std::int64_t kLongestSubmitPause = 120 * kSecond;
/// … after an order to end that did not come through.
constexpr std::int64_t kEndPause = 5 * kSecond;

}  // namespace

Cluster::Cluster(Parts parts) : parts_(std::move(parts)) {
  if (!parts_.allocation.empty()) steps_.emplace(parts_.allocation);
}

void Cluster::want(JobId job) {
  if (holds(job)) return;
  wanted_[parts_.world->job(job)->sweep].insert(job);
  may_plan_ = true;
}

void Cluster::leave(JobId id) {
  if (auto it = wanted_.find(parts_.world->job(id)->sweep); it != wanted_.end()) {
    it->second.erase(id);
    if (it->second.empty()) wanted_.erase(it);
  }
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  Array& array = arrays_.at(place->second.array);
  Task& task = array.tasks.at(place->second.task);
  const JobState state = parts_.world->job(id)->state;
  const bool was_not_run = state == JobState::Cancelled || state == JobState::Skipped ||
                           state == JobState::Held || state == JobState::Queued;
  if (!was_not_run || task.closed) return;  // its task has told of its end
  if (!array.others.empty() && state != JobState::Cancelled) return;  // nobody has asked for that
  to_end_.insert({array.key, place->second.task});
}

void Cluster::stop(JobId id, bool kill) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  if (kill) to_kill_.insert(id);
  to_end_.insert({place->second.array, place->second.task});
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
  if (!to_withdraw_.empty() && now >= next_withdrawal_ns_) return withdraw();
  const bool needs_site = !knows_site() && (steps_ || !wanted_.empty());
  if (!needs_site && now >= next_submit_ns_ && may_plan_) {
    if (steps_ ? hand_over_step() : hand_over_next()) return;
    may_plan_ = now < next_submit_ns_;  // else not until something has changed
  }
  const bool looks = !arrays_.empty() || needs_site;
  if (looks && now >= next_look_ns_) return look();
  if (looks) return wake_at(next_look_ns_);
  std::int64_t next = std::numeric_limits<std::int64_t>::max();
  if (!to_recover_.empty()) next = next_recovery_ns_;
  if (may_plan_ && !wanted_.empty()) next = std::min(next, next_submit_ns_);
  if (next != std::numeric_limits<std::int64_t>::max()) wake_at(next);
}

bool Cluster::idle() const {
  const bool waits = !knows_site() || may_plan_;  // else for what only people can bring about
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

/// False: nothing of what is wanted can be handed over now.
bool Cluster::hand_over_next() {
  std::set<SweepId> not_now = to_recover_;
  for (const auto& [key, array] : arrays_) {
    // What is next may have to wait for it.
    const bool has_no_name = array.number == 0 && array.open > 0 && array.others.empty();
    if (has_no_name) not_now.insert(array.step.sweep);
  }
  const ClusterSite site{
      .array_size = array_size_,
      .most_tasks = most_tasks_,
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
    troubles_[sweep.id] = environment.error().message;
    next_submit_ns_ = parts_.clock->now().boot_ns + kShortestSubmitPause;
    return false;
  }
  troubles_.erase(sweep.id);
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
  plan.handover.at_wall_ns = parts_.clock->now().wall_ns;
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
  ask_soon();
  if (number) {
    array.number = *number;
    trouble_.clear();
    submit_pause_ns_ = 0;
    if (most_tasks_ > 0) most_tasks_ = 2 * most_tasks_ < array_size_ ? 2 * most_tasks_ : 0;
    for (const auto& [index, task] : array.tasks) {
      for (const JobId job : task.jobs) parts_.touch(job);
    }
    return;
  }
  const ErrorKind kind = number.error().kind;
  if (!surely_not_taken(kind)) {
    trouble_ = number.error().message;
    array.doubtful = true;  // the queue tells
    return;
  }
  if (kind == ErrorKind::Busy) {
    const SweepId sweep = array.step.sweep;
    for (auto& [index, task] : array.tasks) give_back(array, task);
    return leave_rest_to(number.error().message, sweep);
  }
  trouble_ = number.error().message;
  // A shorter one may have a place yet.
  if (kind == ErrorKind::Full) {
    most_tasks_ = std::max(1, static_cast<int>(array.tasks.size()) / 2);
  }
  pause_submits();
  if (kind == ErrorKind::Invalid) {
    // Asking again would be refused again.
    for (const auto& [index, task] : array.tasks) {
      for (const JobId job : task.jobs) {
        if (parts_.world->job(job)->state != JobState::Queued) continue;
        parts_.record(job, event::Held{"Slurm refuses it: " + trouble_}, parts_.clock->now());
      }
    }
  }
  for (auto& [index, task] : array.tasks) give_back(array, task);
}

void Cluster::pause_submits() {
  submit_pause_ns_ = std::clamp(2 * submit_pause_ns_, kShortestSubmitPause, kLongestSubmitPause);
  next_submit_ns_ = parts_.clock->now().boot_ns + submit_pause_ns_;
}

void Cluster::add(Array array) {
  array.open = 0;
  for (const auto& [index, task] : array.tasks) {
    if (!task.closed) ++array.open;
    for (const JobId job : task.jobs) {
      if (task.closed) continue;
      places_[job] = {array.key, index};
      if (auto it = wanted_.find(array.step.sweep); it != wanted_.end()) it->second.erase(job);
    }
  }
  arrays_.emplace(array.key, std::move(array));
}

// ---- ending ------------------------------------------------------------------------------------

/// What is to end: what waits in the queue leaves it, what runs finds a request and is woken.
/// False: there is nobody to tell, yet.
bool Cluster::end_tasks() {
  struct Order {
    std::string key = {};
    std::string folder = {};
    slurm::ArrayTask task = {};
    std::vector<store::EndRequest> requests = {};
    std::vector<JobId> kills = {};
    bool all = true;  // of the task's jobs are to end
  };
  std::vector<Order> orders;
  for (auto it = to_end_.begin(); it != to_end_.end();) {
    const auto at = arrays_.find(it->first);
    const bool is_known = at != arrays_.end() && at->second.number != 0;
    if (at != arrays_.end() && !is_known) {
      ++it;  // it is being submitted
      continue;
    }
    if (is_known && !at->second.tasks.at(it->second).closed) {
      Array& array = at->second;
      Order order{.key = array.key, .folder = array.folder, .task = {array.number, it->second}};
      for (const JobId id : array.tasks.at(it->second).jobs) {
        const Job& job = *parts_.world->job(id);
        const bool ends = job.state == JobState::Stopping ||
                          (!is_live(job.state) && job.state != JobState::Queued);
        if (ends) {
          const bool stops = job.state == JobState::Stopping;
          const bool kills = to_kill_.erase(id) > 0;
          if (kills) order.kills.push_back(id);
          order.requests.push_back(
              {array.handed(id), kills, stops ? job.last->stop_reason : job.reason});
          array.tasks.at(it->second).told_to_end.insert(id);
        }
        order.all = order.all && ends;
      }
      orders.push_back(std::move(order));
    }
    it = to_end_.erase(it);
  }
  if (orders.empty()) return false;
  std::map<std::string, std::size_t> ending;  // tasks by array
  for (const Order& order : orders) ending[order.key] += order.all ? 1 : 0;
  std::vector<std::int64_t> whole_arrays;
  for (const auto& [key, count] : ending) {
    const Array& array = arrays_.at(key);
    if (count == array.open) whole_arrays.push_back(array.number);
  }
  ask_soon();
  busy_ = true;
  auto send = [this, orders = std::move(orders),
               whole_arrays = std::move(whole_arrays)]() -> std::function<void()> {
    std::vector<slurm::ArrayTask> whole;
    std::vector<slurm::ArrayTask> all;
    Result<void> written;
    for (const Order& order : orders) {
      Result<void> one =
          os::write_file_atomic(order.folder + "/" + store::end_request_name(order.task.index),
                                to_text(order.requests), 0644, false);
      if (!one) written = one;
      all.push_back(order.task);
      const bool is_in_whole_array = std::find(whole_arrays.begin(), whole_arrays.end(),
                                               order.task.array) != whole_arrays.end();
      if (order.all && !is_in_whole_array) whole.push_back(order.task);
    }
    // A step looks for itself: a signal of Slurm's would reach its jobs, too.
    Result<void> told;
    for (const std::int64_t array : whole_arrays) {
      if (told && !steps_) told = client_.cancel_pending(array);
    }
    if (told && !steps_) told = client_.cancel_pending(whole);
    if (told && !steps_) told = client_.signal(all, "USR1");
    if (told) told = written;
    return [this, orders, told] {
      busy_ = false;
      if (told || told.error().kind == ErrorKind::Invalid) return;  // it is not there any more
      trouble_ = told.error().message;
      next_end_ns_ = parts_.clock->now().boot_ns + kEndPause;
      for (const Order& order : orders) {
        to_end_.insert({order.key, order.task.index});
        to_kill_.insert(order.kills.begin(), order.kills.end());
      }
    };
  };
  // Else a restart could take what Slurm was told for somebody else's doing.
  parts_.when_durable([this, send = std::move(send)] { parts_.errands->run(send); });
  return true;
}

void Cluster::wake_at(std::int64_t boot_ns) {
  if (timer_ != 0) parts_.timers->cancel(timer_);
  timer_ = parts_.timers->at(boot_ns, [this] { timer_ = 0; });
}

// ---- words ------------------------------------------------------------------------------------

std::string Cluster::why(JobId id) const {
  const auto place = places_.find(id);
  const JobId older = parts_.world->replaces(id);
  if (place == places_.end() && older && holds(older)) {
    return fmt::format("waits until its earlier version (job {}) has left Slurm", older.value);
  }
  if (place == places_.end() && steps_ && trouble_.empty()) {
    return fmt::format("waits for room on the nodes of Slurm job {}", steps_->allocation());
  }
  if (place == places_.end()) {
    const auto own = troubles_.find(parts_.world->job(id)->sweep);
    if (own != troubles_.end()) return "is to be handed over to Slurm, but " + own->second;
    return trouble_.empty() ? "is to be handed over to Slurm"
                            : "is to be handed over to Slurm, which does not answer: " + trouble_;
  }
  const Array& array = arrays_.at(place->second.array);
  if (array.number == 0) return "is being handed over to Slurm";
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
    return trouble == troubles_.end() ? "" : "nothing is known of its task: " + trouble->second;
  }
  const Array& array = arrays_.at(place->second.array);
  const Task& task = array.tasks.at(place->second.task);
  std::string out = task_name(array, place->second.task);
  if (task.seen && !task.seen->nodes.empty()) out += " on " + task.seen->nodes;
  if (!array.unread.empty()) out += ", whose records cannot be read: " + array.unread;
  return out;
}

}  // namespace pergpu
