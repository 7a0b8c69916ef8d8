// The pause grows: short attempts are not waited for longer than they take, long ones cost little.
// After a refused start the first pause is twice what it was after the refusal before: a look can
// find free what a start is refused, and each start costs a number of an attempt.
#include "coordinator/folder_waits.h"

#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "os/fs/folder_lock.h"

namespace pergpu {
namespace {

constexpr std::int64_t kFirstFolderPause = 100 * kMillisecond;
constexpr std::int64_t kLastFolderPause = kSecond;
constexpr std::int64_t kLongestFirstFolderPause = 60 * kSecond;
constexpr std::int64_t kRemembered = 600 * kSecond;  // the refusals of a job that isn't started

}  // namespace

FolderWaits::FolderWaits(Parts parts)
    : parts_(std::move(parts)), alive_(std::make_shared<bool>(true)) {}

FolderWaits::~FolderWaits() { *alive_ = false; }

void FolderWaits::add(JobId job, std::string folder, std::string holder) {
  const std::int64_t now_ns = parts_.clock->now().boot_ns;
  std::erase_if(refusals_, [&](const auto& each) {
    return !waits_.contains(each.first) && now_ns - each.second.at_ns > kRemembered;
  });
  const auto [it, is_new] = waits_.try_emplace(job);
  it->second.folder = std::move(folder);
  it->second.holder = std::move(holder);
  if (!is_new) return;
  Refusals& refusals = refusals_[job];
  const std::int64_t first_ns = parts_.look ? kFirstFolderPause : kLastFolderPause;
  refusals.pause_ns = std::clamp(2 * refusals.pause_ns, first_ns, kLongestFirstFolderPause);
  refusals.at_ns = now_ns;
  it->second.pause_ns = refusals.pause_ns;
  arm(job, it->second);
}

void FolderWaits::forget(JobId job) {
  if (!waits_.contains(job)) refusals_.erase(job);
}

std::string FolderWaits::words(JobId job) const {
  const Wait& wait = waits_.at(job);
  return "waits for folder " + wait.folder + ", in use by " + wait.holder;
}

void FolderWaits::arm(JobId job, Wait& wait) {
  const std::int64_t now_ns = parts_.clock->now().boot_ns;
  wait.timer = parts_.timers->at(now_ns + wait.pause_ns, [this, job] { look(job); });
  wait.pause_ns = std::min(2 * wait.pause_ns, kLastFolderPause);
}

void FolderWaits::look(JobId job) {
  const auto it = waits_.find(job);
  if (it == waits_.end()) return;
  it->second.timer = 0;
  if (!parts_.look || !parts_.is_queued(job)) return on_found(job, std::nullopt);
  parts_.look(it->second.folder, [this, job, alive = alive_](std::optional<std::string> holder) {
    if (*alive) on_found(job, std::move(holder));
  });
}

void FolderWaits::on_found(JobId job, std::optional<std::string> holder) {
  const auto it = waits_.find(job);
  if (it == waits_.end()) return;
  if (!holder || !parts_.is_queued(job)) {
    waits_.erase(it);
    if (const auto refused = refusals_.find(job); refused != refusals_.end()) {
      refused->second.at_ns = parts_.clock->now().boot_ns;
    }
    parts_.freed(job);
    return;
  }
  const bool is_news = it->second.holder != *holder;
  it->second.holder = *std::move(holder);
  arm(job, it->second);
  if (is_news) parts_.changed(job);
}

std::unique_ptr<FolderWaits> Coordinator::make_folder_waits() {
  std::function<void(std::string, FolderWaits::Found)> look;
  if (parts_.aside) {
    look = [this](std::string folder, FolderWaits::Found found) {
      parts_.aside([folder = std::move(folder), found = std::move(found)] {
        return [found, holder = os::holder_of_folder(folder)] { found(holder); };
      });
    };
  }
  return std::make_unique<FolderWaits>(FolderWaits::Parts{
      .clock = parts_.clock,
      .timers = parts_.timers,
      .look = std::move(look),
      .is_queued =
          [this](JobId id) {
            const Job* job = parts_.world->job(id);
            return job != nullptr && (job->state == JobState::Queued || is_held_by_breaker(*job));
          },
      .freed =
          [this](JobId id) {
            if (parts_.world->job(id) != nullptr) refresh(id);
          },
      .changed = [this](JobId id) { touch(id); }});
}

}  // namespace pergpu
