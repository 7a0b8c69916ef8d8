// One inotify descriptor for all files.  Opening the lock file and adding its watch come before the
// first try, so that no close can fall between a failed try and the wait for the next event.
#include "gpu/lease_watch.h"

#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "gpu/yield_patience.h"

namespace pergpu::gpu {

namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kClosed = IN_CLOSE_NOWRITE | IN_CLOSE_WRITE;
/// The event comes before the lock is gone, by microseconds as a rule; by more when the closing
/// process loses its core in between.
constexpr std::array<milliseconds, 3> kAfterClose{milliseconds{1}, milliseconds{5},
                                                  milliseconds{20}};
/// For events that never come: a lost inotify queue, a replaced file.
constexpr milliseconds kFallback{1'000};

}  // namespace

struct LeaseWatch::Impl {
  struct Wait {
    os::UniqueFd lock = {};
    os::UniqueFd wanted = {};
    int lock_watch = -1;
    int wanted_watch = -1;
    bool wanting = false;  // LOCK_SH on `wanted` is held
    int want_failures = 0;
    bool yielding = false;                  // waits for another one to take it
    bool has_yielded = false;               // the next try shows whether another one took it
    std::size_t step = kAfterClose.size();  // next delay after a close; past the end: kFallback
    std::optional<os::Loop::TimerId> timer = std::nullopt;
  };

  Impl(os::Loop& loop_in, os::Clock& clock_in, const LeaseFolder& folder_in, Callback callback_in)
      : loop(loop_in), clock(clock_in), folder(folder_in), callback(std::move(callback_in)) {}

  void arm(const std::string& uuid, Wait& wait, milliseconds delay);
  void try_now(const std::string& uuid);
  Result<Lease> attempt(const std::string& uuid, Wait& wait);
  Result<void> open_files(const std::string& uuid, Wait& wait);
  void want(Wait& wait);
  void drop(std::map<std::string, Wait>::iterator entry);
  int add_watch(const std::string& name);
  void forget_watch(int& watch);
  void on_events();
  void on_closed(int watch);

  os::Loop& loop;
  os::Clock& clock;
  const LeaseFolder& folder;
  Callback callback;
  os::UniqueFd inotify = {};
  std::map<std::string, Wait> waits = {};
  YieldPatience patience = {};
};

void LeaseWatch::Impl::arm(const std::string& uuid, Wait& wait, milliseconds delay) {
  if (wait.timer) loop.cancel(*wait.timer);
  const std::int64_t when =
      clock.now().boot_ns + std::chrono::duration_cast<std::chrono::nanoseconds>(delay).count();
  wait.timer = loop.at(when, [this, uuid] {
    const auto entry = waits.find(uuid);
    if (entry == waits.end()) return;
    Wait& due = entry->second;
    due.timer.reset();
    const bool is_over = std::exchange(due.yielding, false);
    if (is_over) patience.in_vain(uuid);
    try_now(uuid);
  });
}

void LeaseWatch::Impl::try_now(const std::string& uuid) {
  const auto entry = waits.find(uuid);
  Wait& wait = entry->second;
  Result<Lease> lease = attempt(uuid, wait);
  const bool is_busy = !lease && lease.error().kind == ErrorKind::Busy;
  if (std::exchange(wait.has_yielded, false) && is_busy) patience.taken(uuid);
  if (is_busy) {
    const bool soon = wait.step < kAfterClose.size();
    arm(uuid, wait, soon ? kAfterClose[wait.step++] : kFallback);
    return;
  }
  // From here on this waiter is no longer visible, which ends the wait of those that yielded to it.
  drop(entry);
  callback(uuid, std::move(lease));
}

Result<Lease> LeaseWatch::Impl::attempt(const std::string& uuid, Wait& wait) {
  for (int round = 0;; ++round) {
    if (!wait.lock || !wait.wanted) {
      if (Result<void> opened = open_files(uuid, wait); !opened) return std::move(opened).error();
    }
    want(wait);
    Result<Lease> lease = folder.try_lock(uuid, wait.lock);
    if (lease || lease.error().kind != ErrorKind::NotFound) return lease;
    // Another file lies there: wait on that one.
    forget_watch(wait.lock_watch);
    wait.lock.reset();
    if (round == 2) return Error{ErrorKind::Busy, 0, lease.error().message};
  }
}

Result<void> LeaseWatch::Impl::open_files(const std::string& uuid, Wait& wait) {
  if (!wait.lock) {
    Result<os::UniqueFd> lock = folder.open_lock(uuid);
    if (!lock) return std::move(lock).error();
    wait.lock = std::move(*lock);
    wait.lock_watch = add_watch(uuid);
  }
  if (wait.wanted) return {};
  Result<os::UniqueFd> wanted = folder.open_wanted(uuid);
  if (!wanted) return std::move(wanted).error();
  wait.wanted = std::move(*wanted);
  wait.wanted_watch = add_watch(uuid + ".wanted");
  return {};
}

// A holder that asks contended() has the file for microseconds: one of the next tries succeeds,
// unless a process blocks it on purpose, and then the fallback must do.
void LeaseWatch::Impl::want(Wait& wait) {
  if (wait.wanting) return;
  wait.wanting = ::flock(wait.wanted.get(), LOCK_SH | LOCK_NB) == 0;
  if (!wait.wanting && ++wait.want_failures <= 3) wait.step = 0;
}

void LeaseWatch::Impl::drop(std::map<std::string, Wait>::iterator entry) {
  Wait& wait = entry->second;
  if (wait.timer) loop.cancel(*wait.timer);
  forget_watch(wait.lock_watch);
  forget_watch(wait.wanted_watch);
  waits.erase(entry);
}

// -1 (no watches left for this user, say) leaves the fallback.
int LeaseWatch::Impl::add_watch(const std::string& name) {
  return ::inotify_add_watch(inotify.get(), (folder.path() + "/" + name).c_str(), kClosed);
}

void LeaseWatch::Impl::forget_watch(int& watch) {
  if (watch >= 0) ::inotify_rm_watch(inotify.get(), watch);
  watch = -1;
}

void LeaseWatch::Impl::on_events() {
  alignas(inotify_event) std::array<char, 16 * 1024> buffer;
  for (;;) {
    const ssize_t size = ::read(inotify.get(), buffer.data(), buffer.size());
    if (size <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      inotify_event event = {};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      at += sizeof event + event.len;
      if ((event.mask & kClosed) != 0) on_closed(event.wd);
    }
  }
}

void LeaseWatch::Impl::on_closed(int watch) {
  for (auto& [uuid, wait] : waits) {
    if (watch == wait.wanted_watch) {
      // A waiter has gone: it has the lease, or has given up.
      if (!wait.yielding) return;
      wait.yielding = false;
    } else if (watch != wait.lock_watch || wait.yielding) {
      continue;
    }
    wait.step = 0;
    const std::string name = uuid;
    try_now(name);
    return;
  }
}

LeaseWatch::LeaseWatch() = default;

LeaseWatch::~LeaseWatch() {
  if (!impl_) return;
  while (!impl_->waits.empty()) impl_->drop(impl_->waits.begin());
  if (impl_->inotify) impl_->loop.unwatch(impl_->inotify.get());
}

Result<std::unique_ptr<LeaseWatch>> LeaseWatch::open(os::Loop& loop, os::Clock& clock,
                                                     const LeaseFolder& folder, Callback callback) {
  auto impl = std::make_unique<Impl>(loop, clock, folder, std::move(callback));
  os::UniqueFd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify) return os_error("inotify for GPU locks (fs.inotify.max_user_instances)");
  Impl* watch_impl = impl.get();
  if (Result<void> watched = loop.watch(inotify.get(), EPOLLIN,
                                        [watch_impl](std::uint32_t) { watch_impl->on_events(); });
      !watched) {
    return std::move(watched).error();
  }
  impl->inotify = std::move(inotify);
  std::unique_ptr<LeaseWatch> watch(new LeaseWatch());
  watch->impl_ = std::move(impl);
  return watch;
}

void LeaseWatch::wait_for(const std::string& uuid, Manner manner) {
  const auto [entry, is_new] = impl_->waits.try_emplace(uuid);
  if (!is_new) return;
  Impl::Wait& wait = entry->second;
  wait.yielding = wait.has_yielded = manner == Manner::AfterYield;
  // Announced at once: another user's contended() may come before the first try.  What fails here
  // fails again at the first try, which reports it.
  if (impl_->open_files(uuid, wait)) impl_->want(wait);
  impl_->arm(uuid, wait, wait.yielding ? impl_->patience.of(uuid) : milliseconds{0});
}

void LeaseWatch::stop(const std::string& uuid) {
  if (const auto entry = impl_->waits.find(uuid); entry != impl_->waits.end()) impl_->drop(entry);
}

std::vector<std::string> LeaseWatch::waiting() const {
  std::vector<std::string> uuids;
  for (const auto& [uuid, wait] : impl_->waits) uuids.push_back(uuid);
  return uuids;
}

}  // namespace pergpu::gpu
