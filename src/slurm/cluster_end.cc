// What is to end of that which was handed over: what waits in the queue leaves it, what runs finds
// a request in its folder and is woken.
//
// Slurm may hear of it or not, and the user may change his mind meanwhile, so it is asked again
// until its task is closed.
#include <algorithm>
#include <memory>
#include <utility>

#include "slurm/cluster.h"
#include "store/end_request.h"
#include "store/result_file.h"

namespace pergpu {
namespace {

/// After an order that did not come through, twice as long each time.
constexpr std::int64_t kShortestEndPause = 5 * kSecond;
constexpr std::int64_t kLongestEndPause = 120 * kSecond;

/// A person has asked for it.  What its task ends for another reason is ignored.
bool is_cancelled(const Job& job) {
  return job.state == JobState::Stopping && job.last->stop == StopCause::Cancel;
}

bool is_not_to_run(const Job& job) {
  return job.state == JobState::Cancelled || job.state == JobState::Skipped ||
         job.state == JobState::Held;
}

}  // namespace

struct Cluster::EndOrder {
  TaskName name = {};
  std::string folder = {};
  mode_t mode = 0;  // of the request
  slurm::ArrayTask task = {};
  store::EndRequests requests = {};
  bool all = true;        // of the task's jobs are to end
  bool releases = false;  // it was held in Slurm's queue, to be taken out of it, and is to run now
};

void Cluster::leave(JobId id) {
  if (auto it = wanted_.find(parts_.world->job(id)->sweep); it != wanted_.end()) {
    it->second.erase(id);
    if (it->second.empty()) wanted_.erase(it);
  }
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  const Array& array = arrays_.at(place->second.array);
  const Job& job = *parts_.world->job(id);
  const bool was_not_run = is_not_to_run(job) || job.state == JobState::Queued;
  if (!was_not_run || array.tasks.at(place->second.task).closed) return;  // it has reported its end
  if (!array.others.empty() && job.state != JobState::Cancelled) return;  // that was not asked for
  to_end_.insert({array.key, place->second.task});
}

void Cluster::stop(JobId id) {
  const auto place = places_.find(id);
  if (place != places_.end()) to_end_.insert({place->second.array, place->second.task});
}

/// What was to end before a restart may not have got the request.
void Cluster::end_again(SweepId sweep) {
  std::vector<JobId> jobs;  // those that newer ones have replaced, too
  for (const auto& [id, place] : places_) {
    const bool is_ours = arrays_.at(place.array).others.empty();
    if (is_ours && parts_.world->job(id)->sweep == sweep) jobs.push_back(id);
  }
  for (const JobId id : jobs) {
    const Job& job = *parts_.world->job(id);
    if (is_cancelled(job)) stop(id);
    if (is_not_to_run(job)) leave(id);
  }
}

/// Held in Slurm's queue by us, to be taken out of it, although some of it is to run.
bool Cluster::is_held_in_vain(const Task& task) const {
  return task.was_held && task.seen && task.seen->state == "PENDING" &&
         task.seen->reason.starts_with("JobHeld") &&
         std::any_of(task.jobs.begin(), task.jobs.end(),
                     [this](JobId id) { return parts_.world->job(id)->state == JobState::Queued; });
}

Cluster::EndOrder Cluster::order_of(const TaskName& name, const Array& array, Task& task) const {
  EndOrder order{.name = name,
                 .folder = array.folder,
                 .mode = mode_of(array.step.sweep),
                 .task = {array.number, name.second}};
  for (const JobId id : task.jobs) {
    const Job& job = *parts_.world->job(id);
    const bool stops = is_cancelled(job);
    const bool ends = stops || (!is_live(job.state) && job.state != JobState::Queued);
    order.all = order.all && ends;
    if (!ends) continue;
    order.requests.jobs.push_back({.job = array.handed(id),
                                   .kill = stops && job.last->stop_at_once,
                                   .unless_begun = job.state == JobState::Held,
                                   .words = stops ? job.last->stop_reason : job.reason});
    task.told_to_end.insert(id);
  }
  order.releases = !order.all && is_held_in_vain(task);
  return order;
}

/// False: there is no task to notify, yet.
bool Cluster::end_tasks() {
  std::vector<EndOrder> orders;
  std::map<std::string, std::size_t> ending;  // tasks by array
  for (auto it = to_end_.begin(); it != to_end_.end();) {
    const auto at = arrays_.find(it->first);
    if (at != arrays_.end() && at->second.number == 0) {
      ++it;  // it is being submitted
      continue;
    }
    if (at != arrays_.end() && !at->second.tasks.at(it->second).closed) {
      orders.push_back(order_of(*it, at->second, at->second.tasks.at(it->second)));
      ending[it->first] += orders.back().all ? 1 : 0;
    }
    it = to_end_.erase(it);
  }
  if (orders.empty()) return false;
  std::set<std::int64_t> whole_arrays;
  for (const auto& [key, count] : ending) {
    const Array& array = arrays_.at(key);
    if (count == array.open) whole_arrays.insert(array.number);
  }
  for (EndOrder& order : orders) {
    Task& task = arrays_.at(order.name.first).tasks.at(order.name.second);
    // One by one they are held first (slurm_client.h).
    task.was_held = task.was_held || (order.all && !whole_arrays.contains(order.task.array));
    order.requests.was_held = task.was_held;
  }
  ask_soon();
  busy_ = true;
  auto send = [this, orders = std::move(orders),
               whole_arrays = std::move(whole_arrays)]() -> std::function<void()> {
    const Told told = tell(orders, whole_arrays);
    return [this, orders, told] {
      busy_ = false;
      heard(orders, told);
    };
  };
  // Else a restart could take what Slurm was asked for as another user's doing.
  parts_.when_durable([this, send = std::move(send)] { parts_.errands->run(send); });
  return true;
}

void Cluster::heard(const std::vector<EndOrder>& orders, const Told& told) {
  if (told.by_slurm) {
    for (const EndOrder& order : orders) {
      const auto it = arrays_.find(order.name.first);
      if (order.releases && it != arrays_.end()) {
        it->second.tasks.at(order.name.second).was_held = false;
      }
    }
  } else {
    trouble_ = told.by_slurm.error().message;
  }
  if (told.by_slurm && told.by_folder) {
    end_pause_ns_ = 0;
    return;
  }
  end_pause_ns_ = std::clamp(2 * end_pause_ns_, kShortestEndPause, kLongestEndPause);
  next_end_ns_ = parts_.clock->now().boot_ns + end_pause_ns_;
  for (const EndOrder& order : orders) to_end_.insert(order.name);
}

/// For an errand.  The requests first: who is woken looks for them.
Cluster::Told Cluster::tell(const std::vector<EndOrder>& orders,
                            const std::set<std::int64_t>& whole_arrays) {
  std::vector<slurm::ArrayTask> leaving;
  std::vector<slurm::ArrayTask> coming_back;
  std::vector<slurm::ArrayTask> all;
  Told told;
  for (const EndOrder& order : orders) {
    Result<void> one =
        store::write_result_file(order.folder, store::end_request_name(order.task.index),
                                 to_text(order.requests), order.mode, false);
    // A folder that was removed is not looked into.
    if (!one && one.error().kind != ErrorKind::NotFound) told.by_folder = one;
    all.push_back(order.task);
    if (order.releases) coming_back.push_back(order.task);
    if (order.all && !whole_arrays.contains(order.task.array)) leaving.push_back(order.task);
  }
  if (steps_) return told;  // a step looks for itself: a signal would reach its jobs, too
  Result<void>& heard = told.by_slurm;
  for (const std::int64_t array : whole_arrays) {
    if (heard) heard = client_.cancel_pending(array);
  }
  if (heard) heard = client_.cancel_pending(leaving);
  if (heard) heard = client_.release(coming_back);
  if (heard) heard = client_.signal(all, "USR1");
  return told;
}

}  // namespace pergpu
