// What happened isn't read: the callback has to look.
#include "os/fs/removal_watch.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace pergpu::os {
namespace {

constexpr std::int64_t kQuietNs = 100'000'000;
constexpr std::uint32_t kRemovals =
    IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

}  // namespace

RemovalWatch::RemovalWatch(Loop& loop, Clock& clock, std::function<void()> removed)
    : loop_(loop),
      clock_(clock),
      removed_(std::move(removed)),
      inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (!inotify_) return;
  const Result<void> watched =
      loop_.watch(inotify_.get(), EPOLLIN, [this](std::uint32_t) { on_event(); });
  if (!watched) inotify_.reset();
}

RemovalWatch::~RemovalWatch() {
  if (inotify_) loop_.unwatch(inotify_.get());
  if (timer_ != 0) loop_.cancel(timer_);
}

bool RemovalWatch::follow(const std::vector<std::string>& folders) {
  bool all = static_cast<bool>(inotify_);
  // A folder that is watched already is watched on: the kernel knows it by its inode.
  for (const std::string& folder : folders) {
    all = ::inotify_add_watch(inotify_.get(), folder.c_str(), kRemovals) >= 0 && all;
  }
  return all;
}

void RemovalWatch::on_event() {
  alignas(inotify_event) std::array<char, 4096> ignored;
  while (::read(inotify_.get(), ignored.data(), ignored.size()) > 0) {
  }
  if (timer_ != 0) return;
  timer_ = loop_.at(clock_.now().boot_ns + kQuietNs, [this] {
    timer_ = 0;
    removed_();
  });
}

}  // namespace pergpu::os
