// Whether the trial runs is seen in settle(), from its state: there are many ways not to begin (its
// GPU is taken, it is cancelled), and after each of them the next job is tried.
//
// A job whose start failed leaves the queue, or it would be the first one of its step each time.
#include "coordinator/storage_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "job/not_started.h"
#include "os/fs/file.h"
#include "os/fs/folder_note.h"
#include "os/fs/room.h"
#include "plural.h"
#include "result.h"
#include "run/root_note.h"
#include "state/clock_text.h"
#include "storage_errno.h"

namespace pergpu {
namespace {

constexpr std::int64_t kFirstStoragePause = 500 * kMillisecond;
constexpr std::int64_t kLongestStoragePause = 10 * kSecond;  // between looks
// After starts that looks did not predict.
constexpr std::int64_t kLongestFirstStoragePause = 300 * kSecond;
constexpr std::int64_t kNews = 10 * kSecond;  // what is over sooner is no news

/// Each job may have its own program and working folder; all of a sweep write below one
/// folder.
bool is_of_step(const SpawnFailure& failure) {
  return failure.phase == "exec" || failure.phase == "chdir";
}

/// The folder where it failed.
std::string place_of(const std::string& phase, const std::string& object) {
  const bool is_folder = phase == "mkdir" || phase.ends_with(" in");
  return is_folder ? object : object.substr(0, object.rfind('/'));
}

/// What a person can do.
std::string advice(int code, const std::string& folder) {
  switch (code) {
    case ENOSPC:
      return fmt::format("free space or inodes there (df -h {0}; df -i {0})", folder);
    case EDQUOT:
      return "free some of your quota there, or ask for more";
    case EROFS:
      return "mount it read-write";
  }
  return "check that disk or file server";
}

}  // namespace

StorageWaits::StorageWaits(Parts parts)
    : parts_(std::move(parts)), alive_(std::make_shared<bool>(true)) {}

StorageWaits::~StorageWaits() { *alive_ = false; }

// ---- failures ------------------------------------------------------------------------------

void StorageWaits::add(const Job& job, const SpawnFailure& failure) {
  const Scope scope{job.sweep, is_of_step(failure) ? job.step : kAllSteps};
  leave_other(job.id, scope);
  const bool is_new = !outages_.contains(scope);
  Outage& outage = outage_of(scope);
  const bool was_trial = outage.trial == job.id;
  refuse(scope, outage, job, failure);
  if (is_new || (!outage.is_wide && !was_trial)) {
    widen(scope, outage);
  } else if (was_trial) {
    ++outage.failed_trials;
    wait(scope, outage);
  }  // else it was on its way when the outage began, and says nothing new
  update_pauses();
}

StorageWaits::Outage* StorageWaits::find(Scope scope, int id) {
  const auto it = outages_.find(scope);
  return it == outages_.end() || it->second.id != id ? nullptr : &it->second;
}

StorageWaits::Outage& StorageWaits::outage_of(Scope scope) {
  Outage& outage = outages_[scope];
  if (outage.id == 0) outage.id = ++last_;
  return outage;
}

void StorageWaits::refuse(Scope scope, Outage& outage, const Job& job,
                          const SpawnFailure& failure) {
  outage.failure = failure;
  const auto [it, is_new] = refusals_.try_emplace(job.id);
  if (is_new) it->second = {.scope = scope, .since = parts_.clock->now()};
  it->second.failure = failure;
  if (!is_new && outage.freed != job.id) return;
  if (outage.freed == job.id) outage.freed = {};
  outage.refused.push_back(job.id);
}

/// What keeps it now is another trouble than the one that it was tried for.
void StorageWaits::leave_other(JobId job, Scope scope) {
  const auto it = refusals_.find(job);
  if (it == refusals_.end() || it->second.scope == scope) return;
  Outage& other = outages_.at(it->second.scope);
  if (other.freed == job) other.freed = {};
  if (other.trial == job) other.trial = {};
  std::erase(other.refused, job);
  refusals_.erase(it);
}

void StorageWaits::widen(Scope scope, Outage& outage) {
  outage.is_wide = true;
  outage.failed_trials = 0;
  outage.since = parts_.clock->now();
  if (outage.lasts_timer != 0) parts_.timers->cancel(outage.lasts_timer);
  outage.lasts_timer =
      parts_.timers->at(outage.since.boot_ns + kNews, [this, scope, id = outage.id] {
        Outage* its = find(scope, id);
        if (its == nullptr) return;
        its->lasts_timer = 0;
        parts_.lasts(scope.sweep);
      });
  wait(scope, outage);
  parts_.changed(scope.sweep);
}

// ---- looks ---------------------------------------------------------------------------------

/// The first pause of all, or after a trial that failed: looks say that it works, and it doesn't.
void StorageWaits::wait(Scope scope, Outage& outage) {
  outage.is_trying = false;
  outage.trial = {};
  outage.pause_ns = kFirstStoragePause;
  for (int i = 0; i < outage.failed_trials && outage.pause_ns < kLongestFirstStoragePause; ++i)
    outage.pause_ns *= 2;
  outage.pause_ns = std::min(outage.pause_ns, kLongestFirstStoragePause);
  arm(scope, outage);
}

void StorageWaits::arm(Scope scope, Outage& outage) {
  const std::int64_t now_ns = parts_.clock->now().boot_ns;
  if (outage.timer != 0) parts_.timers->cancel(outage.timer);
  outage.timer = parts_.timers->at(now_ns + outage.pause_ns,
                                   [this, scope, id = outage.id] { look(scope, id); });
  outage.pause_ns = std::min(2 * outage.pause_ns, kLongestStoragePause);
}

/// Whose failure the next look and trial are about.
const SpawnFailure& StorageWaits::subject(const Outage& outage) const {
  if (outage.is_wide || outage.refused.empty()) return outage.failure;
  return refusals_.at(outage.refused.front()).failure;
}

/// Empty: a look would say nothing.
std::string StorageWaits::place_to_look_at(Scope scope, const Outage& outage) const {
  const SpawnFailure& failure = subject(outage);
  // Where reading fails, as of a program, writing beside it says nothing.
  if (is_of_step(failure) || failure.phase == "prepare" || !failure.object.starts_with('/'))
    return {};
  const Sweep* sweep = parts_.world->sweep(scope.sweep);
  // That one job's folder is bad must not keep the others.
  if (outage.is_wide && sweep != nullptr && failure.object.starts_with(sweep->folder() + "/"))
    return sweep->folder();
  return failure.object;
}

void StorageWaits::look(Scope scope, int id) {
  Outage* outage = find(scope, id);
  if (outage == nullptr) return;
  outage->timer = 0;
  const bool is_of_root = subject(*outage).phase == kRootReplacedPhase;
  std::string place = place_to_look_at(scope, *outage);
  if (!parts_.look || (!is_of_root && place.empty())) return on_found(scope, id, {});
  turns_.ask(outage->device, [this, scope, id, is_of_root, place = std::move(place)](int turn) {
    Found found = [this, scope, id, turn, alive = alive_](Look seen) {
      if (!*alive) return;
      turns_.end(turn);
      on_found(scope, id, seen);
    };
    if (find(scope, id) == nullptr) return turns_.end(turn);
    is_of_root ? parts_.look_at_root(scope.sweep, std::move(found))
               : parts_.look(place, std::move(found));
  });
}

void StorageWaits::on_found(Scope scope, int id, const Look& found) {
  Outage* outage = find(scope, id);
  if (outage == nullptr || outage->is_trying || outage->timer != 0) return;  // it went on meanwhile
  outage->device = found.device;
  if (found.os_errno == 0) {
    outage->is_trying = true;  // settle() chooses
    return update_pauses();
  }
  if (outage->is_wide) {
    outage->failure.os_errno = found.os_errno;
  } else if (!outage->refused.empty()) {
    outage->refused.push_back(outage->refused.front());
    outage->refused.pop_front();
  }
  arm(scope, *outage);
}

// ---- trials --------------------------------------------------------------------------------

void StorageWaits::set_trial(Outage& outage, JobId job) {
  outage.trial = job;
  outage.trial_attempt = parts_.world->job(job)->attempts + 1;
}

void StorageWaits::on_start(JobId id) {
  if (outages_.empty()) return;
  const Job& job = *parts_.world->job(id);
  for (const Scope scope : {Scope{job.sweep}, Scope{job.sweep, job.step}}) {
    const auto it = outages_.find(scope);
    if (it != outages_.end() && it->second.is_trying && !it->second.trial)
      set_trial(it->second, id);
  }
  update_pauses();
}

void StorageWaits::settle() {
  if (outages_.empty()) return;
  std::vector<Scope> over;
  for (auto& [scope, outage] : outages_) {
    if (is_over(scope, outage)) over.push_back(scope);
  }
  for (const Scope scope : over) end(scope);
  update_pauses();  // a submit may have brought steps
}

bool StorageWaits::is_over(Scope scope, Outage& outage) {
  const Sweep* sweep = parts_.world->sweep(scope.sweep);
  if (sweep == nullptr || sweep->open == 0) return true;
  if (outage.trial) review_trial(scope, outage);
  if (outage.is_trying && !outage.trial) free_next(outage);
  return !outage.is_wide && outage.refused.empty() && !outage.freed;
}

void StorageWaits::review_trial(Scope scope, Outage& outage) {
  const JobId id = outage.trial;
  const Job* job = parts_.world->job(id);
  const bool runs = job == nullptr ||
                    (job->last && job->last->number >= outage.trial_attempt && job->last->pid != 0);
  const bool may_run = parts_.is_starting(id) || (outage.freed == id && parts_.is_ready(id));
  if (!runs && may_run) return;
  outage.trial = {};
  if (outage.freed == id) {
    outage.freed = {};
    refusals_.erase(id);
  }
  if (!runs) return;  // it was not started after all: another one
  outage.failed_trials = 0;
  if (std::exchange(outage.is_wide, false)) parts_.changed(scope.sweep);
}

/// While it is wide, one that failed is tried only where no other one of its step could be.
void StorageWaits::free_next(Outage& outage) {
  if (outage.freed && !parts_.is_ready(outage.freed) && !parts_.is_starting(outage.freed)) {
    refusals_.erase(outage.freed);
    outage.freed = {};
  }
  while (!outage.freed && !outage.refused.empty()) {
    const JobId id = outage.refused.front();
    const Job* job = parts_.world->job(id);
    if (outage.is_wide && job != nullptr && parts_.has_ready({job->sweep, job->step})) return;
    outage.refused.pop_front();
    outage.freed = id;
    parts_.freed(id);
    if (parts_.is_ready(id)) break;
    outage.freed = {};  // a user holds it, or it waits for something else
    refusals_.erase(id);
  }
  if (!outage.is_wide && outage.freed) set_trial(outage, outage.freed);
}

void StorageWaits::end(Scope scope) {
  auto node = outages_.extract(scope);
  const Outage& outage = node.mapped();
  for (const Timers::Id timer : {outage.timer, outage.lasts_timer}) {
    if (timer != 0) parts_.timers->cancel(timer);
  }
  refusals_.erase(outage.freed);
  for (const JobId job : outage.refused) {
    refusals_.erase(job);
    parts_.freed(job);
  }
  parts_.changed(scope.sweep);
}

void StorageWaits::update_pauses() {
  std::set<StepKey> now;
  for (const auto& [scope, outage] : outages_) {
    if (!outage.is_closed()) continue;
    const Sweep* sweep = parts_.world->sweep(scope.sweep);
    const std::size_t steps = sweep == nullptr ? 0 : sweep->steps.size();
    for (std::size_t i = 0; i < steps; ++i) {
      const auto slot = static_cast<std::int16_t>(i);
      if (scope.step == kAllSteps || scope.step == slot) now.insert({scope.sweep, slot});
    }
  }
  for (const StepKey& step : now) parts_.pause(step, true);
  for (const StepKey& step : paused_) {
    if (!now.contains(step)) parts_.pause(step, false);
  }
  paused_ = std::move(now);
}

// ---- words ---------------------------------------------------------------------------------

bool StorageWaits::holds(JobId job) const {
  const auto it = refusals_.find(job);
  return it != refusals_.end() && outages_.at(it->second.scope).freed != job;
}

/// The wide outage that keeps a job, and its scope.
const StorageWaits::Outage* StorageWaits::wide_of(const Job& job, Scope* scope) const {
  for (const Scope one : {Scope{job.sweep}, Scope{job.sweep, job.step}}) {
    const auto it = outages_.find(one);
    if (it == outages_.end() || !it->second.is_wide) continue;
    *scope = one;
    return &it->second;
  }
  return nullptr;
}

bool StorageWaits::has(const Job& job) const {
  Scope scope;
  return refusals_.contains(job.id) || wide_of(job, &scope) != nullptr;
}

bool StorageWaits::has(SweepId sweep) const {
  const auto it = outages_.lower_bound(Scope{sweep});
  return it != outages_.end() && it->first.sweep == sweep;
}

std::string StorageWaits::words(const Job& job) const {
  Scope scope;
  if (const Outage* outage = wide_of(job, &scope)) {
    const char* what = scope.step == kAllSteps ? "no job of this sweep can start"
                                               : "no job of this step can start";
    return words(outage->failure, outage->since, what);
  }
  const Refusal& refusal = refusals_.at(job.id);
  return words(refusal.failure, refusal.since, "this job can't start");
}

/// Of what keeps most.
std::string StorageWaits::words(SweepId sweep) const {
  const auto first = outages_.lower_bound(Scope{sweep});
  auto most = first;
  for (auto it = first; it != outages_.end() && it->first.sweep == sweep; ++it) {
    if (it->second.is_wide && !most->second.is_wide) most = it;
  }
  const auto& [scope, outage] = *most;
  if (!outage.is_wide) {
    const std::size_t jobs = outage.refused.size() + (outage.freed ? 1 : 0);
    return words(subject(outage), outage.since,
                 counted(jobs, "job") + " of this sweep can't start");
  }
  if (scope.step == kAllSteps)
    return words(outage.failure, outage.since, "no job of this sweep can start");
  const Sweep& its = *parts_.world->sweep(sweep);
  const std::string& step = its.steps[static_cast<std::size_t>(scope.step)].spec.name;
  return words(outage.failure, outage.since, fmt::format("no job of step {} can start", step));
}

std::string StorageWaits::words(const SpawnFailure& failure, Instant since,
                                const std::string& what) const {
  const std::string from = clock_text(since.wall_ns, parts_.clock->now().wall_ns);
  if (failure.phase == kRootReplacedPhase) {
    return fmt::format("since {} {}: {}. pergpu keeps checking, and this uses up no retries", from,
                       what, root_replaced_words(failure.object));
  }
  const std::string why =
      os_error(failure.phase + (failure.object.empty() ? "" : " ") + failure.object,
               failure.os_errno)
          .message;
  return fmt::format(
      "since {} {}: {}. To fix this: {}. pergpu keeps trying, and this uses up no retries", from,
      what, why, advice(failure.os_errno, place_of(failure.phase, failure.object)));
}

std::unique_ptr<StorageWaits> Coordinator::make_storage_waits() {
  std::function<void(std::string, StorageWaits::Found)> look;
  if (parts_.aside_for_submits) {
    look = [this](std::string folder, StorageWaits::Found found) {
      parts_.aside_for_submits([folder = std::move(folder), found = std::move(found)] {
        const Result<void> tried = os::try_writing(folder);
        const int code = tried ? 0 : tried.error().os_errno;
        // Others (no permission) are left for a start to report.
        const StorageWaits::Look seen{.os_errno = is_storage_errno(code) ? code : 0,
                                      .device = os::device_of(folder)};
        return [found, seen] { found(seen); };
      });
    };
  }
  const auto look_at_root = [this](SweepId id, StorageWaits::Found found) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr) return found({});
    parts_.aside_for_submits([root = sweep->root, note = root_note(parts_.home, sweep->folder()),
                              found = std::move(found)] {
      // Where nothing lies a start would make another one.
      const Result<os::HeldFolder> held = os::HeldFolder::open(root);
      const bool is_same = held && os::is_noted_folder(*held, note);
      const StorageWaits::Look seen{.os_errno = is_same ? 0 : ESTALE};
      return [found, seen] { found(seen); };
    });
  };
  return std::make_unique<StorageWaits>(StorageWaits::Parts{
      .world = parts_.world,
      .clock = parts_.clock,
      .timers = parts_.timers,
      .look = std::move(look),
      .look_at_root = look_at_root,
      .pause = [this](StepKey key, bool pauses) { queue_.pause(key, pauses, PauseCause::Storage); },
      .has_ready = [this](StepKey key) { return queue_.size(key) > 0; },
      .is_ready =
          [this](JobId id) {
            const Job* job = parts_.world->job(id);
            return job != nullptr && job->state == JobState::Queued &&
                   (ready_.contains(id) || not_before_.contains(id) || is_on_cluster(*job));
          },
      .is_starting =
          [this](JobId id) {
            const Job* job = parts_.world->job(id);
            const bool is_live = job != nullptr && live_.contains(id) && job->last->pid == 0;
            return is_live || acquiring_.contains(id);
          },
      .freed =
          [this](JobId id) {
            if (parts_.world->job(id) != nullptr) refresh(id);
          },
      .changed =
          [this](SweepId id) {
            parts_.world->queued_jobs().for_each([&](JobId job) {
              if (parts_.world->job(job)->sweep == id) touch(job);
            });
          },
      .lasts = [this](SweepId id) { notices_->saw_outage(id, storage_waits_->words(id)); }});
}

}  // namespace pergpu
