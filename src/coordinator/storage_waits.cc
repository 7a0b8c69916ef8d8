// Whether the trial runs is seen in settle(), from its state: there are many ways not to begin (its
// GPU is taken, it is cancelled), and after each of them the next job is tried.
#include "coordinator/storage_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "coordinator/clock_text.h"
#include "coordinator/coordinator.h"
#include "job/not_started.h"
#include "os/file.h"
#include "os/folder_note.h"
#include "os/room.h"
#include "result.h"
#include "run/root_note.h"
#include "storage_errno.h"

namespace pergpu {
namespace {

constexpr std::int64_t kFirstPause = 500 * kMillisecond;
constexpr std::int64_t kLongestPause = 10 * kSecond;  // between looks
// After starts that looks did not foretell.
constexpr std::int64_t kLongestFirstPause = 300 * kSecond;
constexpr std::int64_t kNews = 10 * kSecond;  // what is over sooner is no news

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
      return "free some of your quota there, or have it raised";
    case EROFS:
      return "have it mounted for writing";
  }
  return "have that disk or file server looked at";
}

}  // namespace

StorageWaits::StorageWaits(Parts parts)
    : parts_(std::move(parts)), alive_(std::make_shared<bool>(true)) {}

StorageWaits::~StorageWaits() { *alive_ = false; }

void StorageWaits::add(const Job& job, const SpawnFailure& failure) {
  const auto known = of_.find(job.sweep);
  if (known == of_.end()) {
    Outage outage;
    outage.sweeps = {job.sweep};
    outage.object = failure.object;
    outage.phase = failure.phase;
    outage.os_errno = failure.os_errno;
    outage.since = parts_.clock->now();
    return begin(job.sweep, std::move(outage));
  }
  Outage& outage = outages_.at(known->second);
  outage.object = failure.object;
  outage.phase = failure.phase;
  outage.os_errno = failure.os_errno;
  // Others that were on their way when it began say nothing new.
  if (outage.is_trying && outage.trial == job.id) wait(known->second, outage);
}

void StorageWaits::begin(SweepId sweep, Outage outage) {
  const OutageId id = ++last_;
  Outage& its = outages_[id] = std::move(outage);
  of_[sweep] = id;
  its.lasts_timer = parts_.timers->at(its.since.boot_ns + kNews, [this, id] {
    const auto it = outages_.find(id);
    if (it == outages_.end()) return;
    it->second.lasts_timer = 0;
    for (const SweepId told : it->second.sweeps) parts_.lasts(told);
  });
  wait(id, its);
  tell_changed(its);
}

/// The first pause of all, or after a trial that failed: looks say that it works, and it doesn't.
void StorageWaits::wait(OutageId id, Outage& outage) {
  outage.is_trying = false;
  outage.trial = {};
  outage.pause_ns = first_pause(outage);
  pause(outage, true);
  arm(id, outage);
}

/// Twice the one before where that is not long ago.  A disk that fails now and then is looked at as
/// soon as ever.
std::int64_t StorageWaits::first_pause(const Outage& outage) {
  const std::int64_t now_ns = parts_.clock->now().boot_ns;
  std::erase_if(past_, [&](const auto& each) {
    return now_ns - each.second.at_ns > 4 * each.second.pause_ns + kLongestPause;
  });
  std::int64_t before = 0;
  for (const SweepId sweep : outage.sweeps) {
    if (const auto it = past_.find(sweep); it != past_.end())
      before = std::max(before, it->second.pause_ns);
  }
  const std::int64_t pause_ns = std::clamp(2 * before, kFirstPause, kLongestFirstPause);
  for (const SweepId sweep : outage.sweeps) past_[sweep] = {.pause_ns = pause_ns, .at_ns = now_ns};
  return pause_ns;
}

void StorageWaits::arm(OutageId id, Outage& outage) {
  const std::int64_t now_ns = parts_.clock->now().boot_ns;
  if (outage.timer != 0) parts_.timers->cancel(outage.timer);
  outage.timer = parts_.timers->at(now_ns + outage.pause_ns, [this, id] { look(id); });
  outage.pause_ns = std::max(std::min(2 * outage.pause_ns, kLongestPause), kFirstPause);
}

void StorageWaits::look(OutageId id) {
  const auto it = outages_.find(id);
  if (it == outages_.end()) return;
  Outage& outage = it->second;
  outage.timer = 0;
  // Where reading fails, as of a program, writing beside it says nothing.
  const bool is_of_writing = outage.phase != "exec" && outage.phase != "chdir" &&
                             outage.phase != "prepare" && outage.object.starts_with('/');
  const bool is_of_root = outage.phase == kRootReplacedPhase;
  if (!parts_.look || !(is_of_root || is_of_writing)) return on_found(id, {});
  Found found = [this, id, alive = alive_](Look seen) {
    if (*alive) on_found(id, seen);
  };
  is_of_root ? parts_.look_at_roots(outage.sweeps, std::move(found))
             : parts_.look(outage.object, std::move(found));
}

void StorageWaits::on_found(OutageId id, const Look& found) {
  const auto it = outages_.find(id);
  if (it == outages_.end()) return;
  it->second.device = found.device;
  if (found.os_errno != 0) {
    it->second.os_errno = found.os_errno;
    arm(id, it->second);
  } else {
    try_one(it->second);
  }
  join_by_device(id);
}

/// Those on the same file system become one: the oldest, which is looked at and tried for all.
void StorageWaits::join_by_device(OutageId id) {
  const std::uint64_t device = outages_.at(id).device;
  if (device == 0) return;
  const auto oldest = std::find_if(outages_.begin(), outages_.end(), [&](const auto& entry) {
    return entry.second.device == device;
  });
  if (oldest->first == id) return;
  Outage joins = std::move(outages_.at(id));
  outages_.erase(id);
  for (const Timers::Id timer : {joins.timer, joins.lasts_timer}) {
    if (timer != 0) parts_.timers->cancel(timer);
  }
  Outage& its = oldest->second;
  for (const SweepId sweep : joins.sweeps) {
    of_[sweep] = oldest->first;
    its.sweeps.insert(sweep);
    if (its.lasts_timer == 0) parts_.lasts(sweep);
  }
  its.steps.insert(joins.steps.begin(), joins.steps.end());
  pause(its, !its.is_trying || its.trial);
}

void StorageWaits::try_one(Outage& outage) {
  outage.is_trying = true;
  outage.trial = {};
  pause(outage, false);
}

void StorageWaits::on_start(JobId id) {
  if (outages_.empty()) return;
  const Job& job = *parts_.world->job(id);
  const auto known = of_.find(job.sweep);
  if (known == of_.end()) return;
  Outage& outage = outages_.at(known->second);
  if (!outage.is_trying || outage.trial) return;
  outage.trial = id;
  outage.trial_attempt = job.attempts + 1;
  pause(outage, true);
}

void StorageWaits::settle() {
  std::vector<OutageId> over;
  for (auto& [id, outage] : outages_) {
    if (drop_ended(outage)) {
      over.push_back(id);
      continue;
    }
    pause(outage, !outage.is_trying || outage.trial);  // a submit may have brought steps
    if (!outage.trial) continue;
    const Job* job = parts_.world->job(outage.trial);
    const bool runs = job == nullptr || (job->last && job->last->number >= outage.trial_attempt &&
                                         job->last->pid != 0);
    if (runs) {
      over.push_back(id);
    } else if (!parts_.is_starting(outage.trial)) {
      outage.trial = {};  // it was not started after all: another one
      pause(outage, false);
    }
  }
  for (const OutageId id : over) end(id);
}

/// Nothing of them is left to start.  True: of none of them.
bool StorageWaits::drop_ended(Outage& outage) {
  for (auto it = outage.sweeps.begin(); it != outage.sweeps.end();) {
    const Sweep* sweep = parts_.world->sweep(*it);
    if (sweep != nullptr && sweep->open > 0) {
      ++it;
      continue;
    }
    std::erase_if(outage.steps, [&](const StepKey& step) {
      if (step.sweep == *it) parts_.pause(step, false);
      return step.sweep == *it;
    });
    of_.erase(*it);
    it = outage.sweeps.erase(it);
  }
  return outage.sweeps.empty();
}

void StorageWaits::end(OutageId id) {
  auto node = outages_.extract(id);
  Outage& outage = node.mapped();
  for (const Timers::Id timer : {outage.timer, outage.lasts_timer}) {
    if (timer != 0) parts_.timers->cancel(timer);
  }
  const std::int64_t now_ns = parts_.clock->now().boot_ns;
  for (const SweepId sweep : outage.sweeps) {
    of_.erase(sweep);
    if (const auto it = past_.find(sweep); it != past_.end()) it->second.at_ns = now_ns;
  }
  pause(outage, false);
  tell_changed(outage);
}

void StorageWaits::pause(Outage& outage, bool pauses) {
  for (const SweepId id : outage.sweeps) {
    const Sweep* sweep = parts_.world->sweep(id);
    const std::size_t steps = sweep == nullptr ? 0 : sweep->steps.size();
    for (std::size_t slot = 0; slot < steps; ++slot) {
      outage.steps.insert({id, static_cast<std::int16_t>(slot)});
    }
  }
  for (const StepKey& step : outage.steps) parts_.pause(step, pauses);
}

void StorageWaits::tell_changed(const Outage& outage) {
  for (const SweepId sweep : outage.sweeps) parts_.changed(sweep);
}

std::string StorageWaits::words(SweepId sweep) const {
  const Outage& outage = outages_.at(of_.at(sweep));
  const std::string since = clock_text(outage.since.wall_ns, parts_.clock->now().wall_ns);
  if (outage.phase == kRootReplacedPhase) {
    return fmt::format(
        "since {} no job of this sweep can be started: {}. pergpu looks again by itself; no job is "
        "charged for it",
        since, root_replaced_words(outage.object));
  }
  const std::string what =
      os_error(outage.phase + (outage.object.empty() ? "" : " " + outage.object), outage.os_errno)
          .message;
  return fmt::format(
      "since {} no job of this sweep can be started: {}. To do: {}. pergpu tries again by itself; "
      "no job is charged for it",
      since, what, advice(outage.os_errno, place_of(outage.phase, outage.object)));
}

std::unique_ptr<StorageWaits> Coordinator::make_storage_waits() {
  std::function<void(std::string, StorageWaits::Found)> look;
  if (parts_.aside_for_submits) {
    look = [this](std::string folder, StorageWaits::Found found) {
      parts_.aside_for_submits([folder = std::move(folder), found = std::move(found)] {
        const Result<void> tried = os::try_writing(folder);
        const int code = tried ? 0 : tried.error().os_errno;
        // Others (no permission) are for a start to tell.
        const StorageWaits::Look seen{.os_errno = is_storage_errno(code) ? code : 0,
                                      .device = os::device_of(folder)};
        return [found, seen] { found(seen); };
      });
    };
  }
  const auto look_at_roots = [this](const std::set<SweepId>& sweeps, StorageWaits::Found found) {
    std::vector<std::pair<std::string, std::string>> noted;
    for (const SweepId id : sweeps) {
      const Sweep* sweep = parts_.world->sweep(id);
      if (sweep == nullptr) continue;
      noted.emplace_back(sweep->root, root_note(parts_.home, sweep->folder()));
    }
    parts_.aside_for_submits([noted = std::move(noted), found = std::move(found)] {
      const bool are_same = std::ranges::all_of(noted, [](const auto& one) {
        // Where nothing lies a start would make another one.
        return os::exists(one.first) && os::is_noted_folder(one.first, one.second);
      });
      const StorageWaits::Look seen{.os_errno = are_same ? 0 : ESTALE};
      return [found, seen] { found(seen); };
    });
  };
  return std::make_unique<StorageWaits>(StorageWaits::Parts{
      .world = parts_.world,
      .clock = parts_.clock,
      .timers = parts_.timers,
      .look = std::move(look),
      .look_at_roots = look_at_roots,
      .pause = [this](StepKey key, bool pauses) { queue_.pause(key, pauses, PauseCause::Storage); },
      .is_starting =
          [this](JobId id) {
            const Job* job = parts_.world->job(id);
            const bool is_live = job != nullptr && live_.contains(id) && job->last->pid == 0;
            return is_live || acquiring_.contains(id);
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
