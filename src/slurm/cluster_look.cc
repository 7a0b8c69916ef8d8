// Looks at what a cluster and the tasks on its nodes report: the records as they appear, the queue
// less often.  What a task reported itself counts; what Slurm says of it decides only where it
// reported nothing.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "slurm/array_call.h"
#include "slurm/cluster.h"
#include "slurm/handover_news.h"
#include "store/result_file.h"

namespace pergpu {
namespace {

constexpr std::int64_t kClusterLookPause = kSecond;
constexpr std::int64_t kShortestQueuePause = 2 * kSecond;
constexpr std::int64_t kLongestQueuePause = 30 * kSecond;
/// Looks at the folder after the cluster said that a task has ended: its last words may still be on
/// their way from another machine.
constexpr int kLooksAfterEnd = 3;
/// What runs is shown by figures that are this old at most; a task sends them every ten seconds.
constexpr std::int64_t kClusterPresentPause = 5 * kSecond;
constexpr int kMostWordless = 3;

}  // namespace

// ---- what the nodes report ------------------------------------------------------------------

struct Cluster::Seen {
  std::vector<HandoverNews> news = {};
  std::optional<Result<std::vector<slurm::QueueRecord>>> queue = std::nullopt;
  std::optional<slurm::Config> config = std::nullopt;
  std::vector<slurm::AllocationNode> nodes = {};
};

void Cluster::look() {
  const std::int64_t now = parts_.clock->now().boot_ns;
  next_look_ns_ = now + kClusterLookPause;
  const bool asks = now >= next_queue_ns_;
  if (asks) {
    queue_pause_ns_ = std::clamp(queue_pause_ns_ * 3 / 2, kShortestQueuePause, kLongestQueuePause);
    next_queue_ns_ = now + queue_pause_ns_;
  }
  const bool sees = now >= next_present_ns_;
  if (sees) next_present_ns_ = now + kClusterPresentPause;
  std::vector<WatchedHandover> watched;
  std::map<HandedTask, std::string> open;
  for (const auto& [key, array] : arrays_) {
    const Sweep* sweep = parts_.world->sweep(array.step.sweep);
    WatchedHandover one{.key = key,
                        .folder = array.folder,
                        .home = sweep == nullptr ? "/" : sweep->root,
                        .is_step = !array.node.empty()};
    for (const auto& [index, task] : array.tasks) {
      if (task.closed) continue;
      one.read.emplace(index, task.read);
      if (has_accounting_ && array.number != 0 && array.others.empty())
        open.emplace(HandedTask(array.number, index), key);
    }
    watched.push_back(std::move(one));
  }
  busy_ = true;
  const bool needs_site = !knows_site();
  std::vector<std::string> paths;
  if (needs_site && asks) paths = search_paths();
  parts_.errands->run([this, asks, sees, needs_site, paths = std::move(paths),
                       open = std::move(open),
                       watched = std::move(watched)]() -> std::function<void()> {
    auto seen = std::make_shared<Seen>();
    search_in(paths);
    // The queue first: what a task that has ended by then had to report lies in the folder.
    if (asks) seen->queue = ask_queue();
    if (seen->queue && *seen->queue) add_forgotten(client_, open, **seen->queue);
    if (needs_site && asks && steps_) {
      Result<std::vector<slurm::AllocationNode>> nodes = steps_->nodes();
      if (nodes) seen->nodes = *std::move(nodes);
    } else if (needs_site && asks) {
      if (Result<slurm::Config> config = client_.config()) seen->config = *std::move(config);
    }
    for (const WatchedHandover& one : watched) seen->news.push_back(news_of(one, sees));
    return [this, seen] {
      answers_.push_back([this, seen] { absorb(std::move(*seen)); });
      busy_ = false;
    };
  });
}

void Cluster::absorb(Seen seen) {
  if (seen.config) {
    const slurm::Config& config = *seen.config;
    const int most = config.max_array_tasks > 0 ? config.max_array_tasks : config.max_array_size;
    array_size_ = std::max(1, std::min(config.max_array_size, most));
    has_accounting_ = seen.config->has_accounting;
  }
  if (!seen.nodes.empty()) nodes_ = std::move(seen.nodes);
  std::vector<ToldLife> lives;
  for (HandoverNews& news : seen.news) {
    for (store::Life& life : news.lives) lives.emplace_back(news.key, std::move(life));
  }
  absorb(lives);
  for (const HandoverNews& news : seen.news) {
    const auto it = arrays_.find(news.key);
    if (it == arrays_.end()) continue;
    Array& array = it->second;
    array.unread = news.unread;
    for (auto& [index, task] : array.tasks) task.is_silent = news.is_silent;
    for (const auto& [index, told] : news.present) see_present(array, index, told);
    if (!news.owner || *news.owner == parts_.from) continue;
    disown(array, *news.owner);
    close_as_told(array, news.closed);
  }
  if (!seen.queue) return;
  // From its answer on: it may have taken a minute.
  next_queue_ns_ = std::max(next_queue_ns_, parts_.clock->now().boot_ns + queue_pause_ns_);
  if (!*seen.queue) {
    trouble_ = seen.queue->error().message;
    return;
  }
  trouble_.clear();
  see_queue(**seen.queue);
}

/// Whether the job does not know of it yet: records are read again after a restart.
bool Cluster::is_news(const store::Record& record, JobId id) const {
  const Job* job = parts_.world->job(id);
  if (job == nullptr) return false;
  const bool is_its_attempt = job->last && job->last->number == record.attempt.number;
  return std::visit(
      Overloaded{
          [&](const event::Starting& e) {
            return job->state == JobState::Queued && e.attempt == job->attempts + 1;
          },
          [&](const event::Started&) {
            return is_its_attempt && is_live(job->state) && job->last->started_at == Instant{};
          },
          [&](const event::Stopping& e) {
            return is_its_attempt && is_live(job->state) && job->last->stop != e.cause;
          },
          [&](const event::Ended&) { return is_its_attempt && is_live(job->state); },
          [&](const event::Held&) {
            return job->state == JobState::Queued && job->attempts == record.attempt.number &&
                   record.at.wall_ns > job->queued_at.wall_ns;
          },
          [&](const event::Cancelled&) {
            return job->state == JobState::Queued && job->attempts == record.attempt.number &&
                   record.at.wall_ns > job->queued_at.wall_ns;
          },
          [](const auto&) { return false; },
      },
      record.event);
}

/// A job that was held or cancelled here just when its task began it, did begin; one that another
/// coordinator had seen the end of, and begun again, did so.  Why it is to be cancelled once more;
/// "": it is not.
std::string Cluster::bring_back(const store::Record& record, JobId id) {
  const auto* starting = std::get_if<event::Starting>(&record.event);
  const Job* job = parts_.world->job(id);
  if (starting == nullptr || job == nullptr || starting->attempt != job->attempts + 1) return {};
  if (is_live(job->state)) end(id, {.lost = true, .lost_why = "its result was never reported"});
  if (job->state == JobState::Queued) return {};
  // Of a repeat, whose job is then done as before.
  const bool was_repeat = !repeat_words(*job).empty();
  const bool was_cancelled = job->state == JobState::Cancelled || was_repeat;
  const std::string reason = job->reason.empty() ? "cancelled" : job->reason;
  parts_.record(id, event::Requeued{"its task had already started it"}, record.at);
  return was_cancelled ? reason : std::string();
}

/// In the order in which it happened, by the nodes' clocks; what happened in one task stays in its
/// order whatever they say.  Of what is taken up nothing is left in them.
void Cluster::absorb(std::vector<ToldLife>& lives) {
  struct Item {
    std::int64_t wall_ns = 0;
    std::int64_t number = 0;  // of the array: what others need has the lower one
    store::Record* record = nullptr;
    JobId job = {};
    const Task* task = nullptr;
  };
  std::vector<Item> items;
  std::vector<std::pair<Array*, store::Life*>> open;
  for (ToldLife& told : lives) {
    store::Life& life = told.second;
    const auto it = arrays_.find(told.first);
    if (it == arrays_.end()) continue;
    const auto task = it->second.tasks.find(life.task);
    if (task == it->second.tasks.end() || task->second.closed) continue;
    open.emplace_back(&it->second, &life);
    std::map<JobId, JobId> here;
    for (const JobId job : task->second.jobs) here.emplace(it->second.handed(job), job);
    std::int64_t wall_ns = 0;
    for (store::Record& record : life.file.records) {
      wall_ns = std::max(wall_ns, record.at.wall_ns);
      translate(record.at, life.number, task->second);
      const auto job = here.find(record.attempt.job);
      if (job == here.end()) continue;  // it is of an older file, or not ours
      items.push_back({wall_ns, it->second.number, &record, job->second, &task->second});
    }
    std::erase_if(life.file.usage, [&](row::Usage& usage) {
      const auto job = here.find(usage.job);
      if (job == here.end()) return true;
      usage.job = job->second;
      translate(usage.at, life.number, task->second);
      return false;
    });
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tie(a.wall_ns, a.number) < std::tie(b.wall_ns, b.number);
  });
  for (const Item& item : items) absorb(*item.record, item.job, *item.task);
  for (const auto& [array, life] : open) {
    Task& task = array->tasks.at(life->task);
    for (row::Usage& usage : life->file.usage) parts_.keep(std::move(usage));
    task.read = {life->task, life->number, life->whole ? kAllParts : life->parts};
    task.looks_after_end = 0;
    if (life->whole && life->file.closed) give_back(*array, task);
  }
}

void Cluster::absorb(const store::Record& record, JobId id, const Task& task) {
  const std::string cancelled = bring_back(record, id);
  // Its task has only done what it was asked to.
  const bool is_ours =
      std::holds_alternative<event::Cancelled>(record.event) && task.told_to_end.contains(id);
  if (!is_ours && is_news(record, id)) {
    JobEvent e = record.event;
    if (auto* starting = std::get_if<event::Starting>(&e)) {
      const SweepId sweep = parts_.world->job(id)->sweep;
      starting->placement.lane = {LaneId::Pool::Sweep, sweep,
                                  lanes_of(sweep).take(record.at.wall_ns)};
      wordless_.erase(id);
    }
    if (std::holds_alternative<event::Ended>(e)) {
      leave_lane(id, record.at.wall_ns);
      present_.erase(id);
    }
    parts_.record(id, std::move(e), record.at);
  }
  if (!cancelled.empty()) parts_.cancel(id, cancelled);
}

/// To this machine's clock since its boot.  The same shift for a whole life, so that what lasted
/// for a second there did so here.
void Cluster::translate(Instant& at, std::int32_t life, Task& task) const {
  if (task.shifted_life != life) {
    const Instant now = parts_.clock->now();
    task.shifted_life = life;
    task.shift_ns = (now.boot_ns - now.wall_ns) - (at.boot_ns - at.wall_ns);
  }
  at.boot_ns += task.shift_ns;
}

ClusterLanes& Cluster::lanes_of(SweepId id) {
  const auto [it, is_new] = lanes_.try_emplace(id);
  const Sweep* sweep = parts_.world->sweep(id);
  if (!is_new || sweep == nullptr) return it->second;
  for (const Step& step : sweep->steps) {
    for (const JobId current : step.current) {
      const Job* job = current ? parts_.world->job(current) : nullptr;
      if (job == nullptr || !job->last || job->last->placement.node.empty()) continue;
      const std::int32_t lane = job->last->placement.lane.slot;
      if (is_live(job->state)) {
        it->second.occupy(lane);
      } else {
        it->second.leave(lane, job->last->ended_at.wall_ns);
      }
    }
  }
  return it->second;
}

void Cluster::leave_lane(JobId id, std::int64_t end_ns) {
  const Job& job = *parts_.world->job(id);
  if (job.last) lanes_of(job.sweep).leave(job.last->placement.lane.slot, end_ns);
}

/// Not a newer handover of it, whose attempt the live one then is.
bool Cluster::is_place_of(const Array& array, JobId id) const {
  const auto place = places_.find(id);
  return place != places_.end() && place->second.array == array.key;
}

/// It ended without a record.
void Cluster::end(JobId id, const Evidence& evidence) {
  leave_lane(id, parts_.clock->now().wall_ns);
  present_.erase(id);
  const auto place = places_.find(id);
  const bool is_others = place != places_.end() && !arrays_.at(place->second.array).others.empty();
  parts_.end(id, evidence, !is_others);
}

/// Its jobs are ours again.
void Cluster::give_back(Array& array, Task& task) {
  if (task.closed) return;
  task.closed = true;
  --array.open;
  for (const JobId job : task.jobs) {
    if (is_place_of(array, job)) places_.erase(job);
  }
  const std::vector<JobId> jobs = task.jobs;
  for (const JobId job : jobs) {
    parts_.refresh(job);
    if (!array.others.empty()) hold_for(array.others, job);
  }
}

/// The same where its own records do not say so.
void Cluster::close(Array& array, std::int32_t index, Task& task) {
  if (task.closed) return;
  mark_when_durable(array, closed_name(index));
  give_back(array, task);
}

/// What is closed is not read again: only when all that it reported is in the store.
void Cluster::mark_when_durable(const Array& array, const std::string& name) {
  parts_.when_durable([this, folder = array.folder, name, mode = mode_of(array.step.sweep)] {
    parts_.errands->run([folder, name, mode] {
      (void)store::write_result_file(folder, name, "", mode, false);
      return [] {};
    });
  });
}

void Cluster::forget_closed() {
  for (auto it = arrays_.begin(); it != arrays_.end();) {
    if (it->second.open > 0) {
      ++it;
      continue;
    }
    if (it->second.others.empty()) mark_when_durable(it->second, kClosed);
    it = arrays_.erase(it);
  }
}

// ---- what the cluster reports ---------------------------------------------------------------

void Cluster::add_forgotten(slurm::Client& client, const std::map<HandedTask, std::string>& open,
                            std::vector<slurm::QueueRecord>& queue) {
  std::map<HandedTask, std::string> forgotten = open;
  for (const slurm::QueueRecord& record : queue) {
    for (const int task : record.tasks) forgotten.erase({record.array_job_id, task});
  }
  if (forgotten.empty()) return;
  std::set<std::int64_t> arrays;
  for (const auto& [task, key] : forgotten) arrays.insert(task.first);
  const Result<std::vector<slurm::QueueRecord>> known =
      client.accounting({arrays.begin(), arrays.end()});
  if (!known) return;  // without a word of Slurm's they are lost, too
  for (const slurm::QueueRecord& record : *known) {
    for (const int task : record.tasks) {
      const auto it = forgotten.find({record.array_job_id, task});
      // What the accounting takes for open and the queue does not know has not ended in its eyes.
      if (it == forgotten.end() || !slurm::is_over(record.state)) continue;
      slurm::QueueRecord& added = queue.emplace_back(record);
      added.tasks = {task};
      added.comment = it->second;
    }
  }
}

void Cluster::see_present(const Array& array, std::int32_t index,
                          const std::vector<store::Present>& told) {
  for (const JobId id : array.tasks.at(index).jobs) {
    const JobId handed = array.handed(id);
    const auto one = std::find_if(told.begin(), told.end(), [&](const store::Present& present) {
      return present.attempt.job == handed;
    });
    const Job& job = *parts_.world->job(id);
    if (one == told.end() || !is_place_of(array, id)) continue;
    if (!is_live(job.state) || !job.last || job.last->number != one->attempt.number) continue;
    store::Present seen = *one;
    seen.attempt.job = id;
    store::Present& last = present_[id];
    seen.reading.boot_ns = last.reading.boot_ns;
    if (last == seen) continue;  // it was read before
    seen.reading.boot_ns = parts_.clock->now().boot_ns;
    last = std::move(seen);
    parts_.touch(id);
  }
}

const store::Present* Cluster::present(AttemptId attempt) const {
  const auto found = present_.find(attempt.job);
  return found == present_.end() || found->second.attempt != attempt ? nullptr : &found->second;
}

/// For an errand.
Result<std::vector<slurm::QueueRecord>> Cluster::ask_queue() {
  return steps_ ? steps_->list() : client_.queue();
}

void Cluster::see_queue(const std::vector<slurm::QueueRecord>& queue) {
  for (auto& [key, array] : arrays_) {
    for (auto& [index, task] : array.tasks) {
      if (task.seen && !slurm::is_over(task.seen->state)) task.seen.reset();
    }
  }
  for (const slurm::QueueRecord& record : queue) {
    const auto it = arrays_.find(record.comment);
    if (it == arrays_.end()) continue;
    Array& array = it->second;
    if (array.number == 0) {
      array.number = record.array_job_id;
      pauses_.taken(array.step.sweep, array_size_);  // it was heard after all
    }
    slurm::QueueRecord one = record;
    one.tasks.clear();
    for (const int index : record.tasks) {
      if (auto task = array.tasks.find(index); task != array.tasks.end()) task->second.seen = one;
    }
    if (!record.is_cut) continue;
    for (auto& [index, task] : array.tasks) {
      if (!task.closed && !task.seen) task.seen = one;  // it may be among them
    }
  }
  std::vector<std::pair<std::string, std::int32_t>> open;
  for (const auto& [key, array] : arrays_) {
    for (const auto& [index, task] : array.tasks) {
      // What it may have reported counts first.
      const bool is_read = array.others.empty() && array.unread.empty();
      if (!task.closed && is_read) open.emplace_back(key, index);
    }
  }
  for (const auto& [key, index] : open) {
    const auto it = arrays_.find(key);
    if (it == arrays_.end()) continue;
    Task& task = it->second.tasks.at(index);
    if (!task.closed) judge(it->second, index, task);
  }
}

/// The task may have ended without a last word.
void Cluster::judge(Array& array, std::int32_t index, Task& task) {
  if (task.seen && task.seen->state == "PENDING" && task.read.life <= task.seen->restarts) {
    // What it was running is gone; the task's next life says the same.
    for (const JobId id : task.jobs) {
      if (is_place_of(array, id) && is_live(parts_.world->job(id)->state)) {
        end(id, {.lost = true, .lost_why = "Slurm requeued its task"});
      }
    }
  }
  if (is_held_in_vain(task)) to_end_.insert({array.key, index});
  const bool is_over = !task.seen || slurm::is_over(task.seen->state);
  if (!is_over) {
    task.looks_after_end = 0;
    if (task.seen->state == "COMPLETING") ask_soon();  // and then it is over, or in the queue again
    return;
  }
  ask_soon();
  if (++task.looks_after_end < kLooksAfterEnd) return;
  if (array.doubtful && array.number == 0) {
    to_withdraw_.insert(array.key);
    return;
  }
  const std::string name = task_name(array, index);
  const std::string output = fmt::format("{}/task-{}.txt", array.folder, index);
  const TaskEnd over = steps_ ? step_end(name, output) : task_end(task.seen, name, output);
  // With what it needed: the same may come again and again.
  const bool was_dropped = task.seen && task.seen->reason.find("Dependency") != std::string::npos;
  const Instant now = parts_.clock->now();
  for (const JobId id : task.jobs) {
    const Job& job = *parts_.world->job(id);
    if (!is_place_of(array, id)) continue;
    if (is_live(job.state)) {
      Evidence evidence = over.evidence;
      if (job.last->stop) {
        evidence.stop = job.last->stop;
        evidence.stop_reason = job.last->stop_reason;
      }
      end(id, evidence);
    } else if (job.state == JobState::Queued && !task.told_to_end.contains(id) &&
               !array.withdrawn) {
      if (over.cancels) {
        parts_.record(id, event::Cancelled{over.words}, now);
      } else if (over.holds && !task.is_silent) {
        parts_.record(id, event::Held{over.words}, now);
      } else if (task.read == store::RecordName{index, 1, 0} && !was_dropped) {
        give_up_on(id, over.words);
      }
    }
  }
  close(array, index, task);
}

/// It is handed over again, but not forever.
void Cluster::give_up_on(JobId id, const std::string& words) {
  if (++wordless_[id] < kMostWordless) return;
  wordless_.erase(id);
  parts_.record(id,
                event::Held{fmt::format("its task ended {} times before the job could start: {}",
                                        kMostWordless, words)},
                parts_.clock->now());
}

void Cluster::ask_soon() {
  queue_pause_ns_ = 0;
  next_queue_ns_ = std::min(next_queue_ns_, parts_.clock->now().boot_ns + kShortestQueuePause);
}

}  // namespace pergpu
