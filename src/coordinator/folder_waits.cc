// The pause grows: short attempts are not waited for longer than they take, long ones cost little.
#include "coordinator/folder_waits.h"

#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "os/folder_lock.h"

namespace pergpu {
namespace {

constexpr std::int64_t kFirstPause = 100 * kMillisecond;
constexpr std::int64_t kLastPause = kSecond;

}  // namespace

FolderWaits::FolderWaits(Parts parts)
    : parts_(std::move(parts)), alive_(std::make_shared<bool>(true)) {}

FolderWaits::~FolderWaits() { *alive_ = false; }

void FolderWaits::add(JobId job, std::string folder, std::string holder) {
  const auto [it, is_new] = waits_.try_emplace(job);
  it->second.folder = std::move(folder);
  it->second.holder = std::move(holder);
  if (!is_new) return;
  it->second.pause_ns = parts_.look ? kFirstPause : kLastPause;
  arm(job, it->second);
}

std::string FolderWaits::words(JobId job) const {
  const Wait& wait = waits_.at(job);
  return "waits for folder " + wait.folder + ", in use by " + wait.holder;
}

void FolderWaits::arm(JobId job, Wait& wait) {
  const std::int64_t now_ns = parts_.clock->now().boot_ns;
  wait.timer = parts_.timers->at(now_ns + wait.pause_ns, [this, job] { look(job); });
  wait.pause_ns = std::min(2 * wait.pause_ns, kLastPause);
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
  return std::make_unique<FolderWaits>(
      FolderWaits::Parts{.clock = parts_.clock,
                         .timers = parts_.timers,
                         .look = std::move(look),
                         .is_queued =
                             [this](JobId id) {
                               const Job* job = parts_.world->job(id);
                               return job != nullptr && job->state == JobState::Queued;
                             },
                         .freed =
                             [this](JobId id) {
                               if (parts_.world->job(id) != nullptr) refresh(id);
                             },
                         .changed = [this](JobId id) { touch(id); }});
}

}  // namespace pergpu
