// How stale events are kept away: each watch has its own generation, carried in epoll's data
// next to the descriptor.  An event fetched in this batch whose watch is gone, or whose number now
// belongs to a newer watch, has the wrong generation and is dropped.  unwatch() always does
// EPOLL_CTL_DEL: a registration outlives close(2) while any other process holds the descriptor, and
// would then spin.
//
// A watch stays alive (shared_ptr) while its callback runs, so that a callback may remove itself.
// The timerfd is armed lazily, once per turn, and only when the first deadline moved forward.
#include "os/loop.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <unordered_map>

#include "os/clock.h"

namespace pergpu::os {
namespace {

constexpr int kBatch = 64;
constexpr std::int64_t kNever = INT64_MAX;

struct Watch {
  std::uint32_t generation = 0;
  std::uint32_t events = 0;
  Loop::FdCallback callback;
};

struct SignalSource {
  UniqueFd fd;
  std::function<void(int)> callback;
};

std::uint64_t pack(int fd, std::uint32_t generation) {
  return (std::uint64_t{generation} << 32) | static_cast<std::uint32_t>(fd);
}

std::string descriptor_name(int fd) { return "descriptor " + std::to_string(fd); }

}  // namespace

struct Loop::Impl {
  UniqueFd epoll;
  UniqueFd timer;
  std::vector<std::shared_ptr<Watch>> by_fd;
  std::uint32_t generation = 0;

  std::map<std::pair<std::int64_t, TimerId>, std::function<void()>> timers;
  std::unordered_map<TimerId, std::int64_t> deadline_of;
  TimerId last_timer = 0;
  std::int64_t armed = kNever;

  std::deque<SignalSource> signals;
  std::deque<std::function<void()>> turns;  // deque: a callback may add one while it runs
  bool stopping = false;

  UniqueFd schedstat;  // of this thread; open while turns are measured
  std::int64_t turn_limit_ns = 0;
  std::int64_t turn_began_ns = 0;
  std::function<void(std::int64_t)> too_long;

  /// Boot time less what the thread waited for a core: /proc/thread-self/schedstat holds time on
  /// the core, time waited (both ns) and turns.
  std::int64_t own_time_ns() const {
    char text[96];
    const ssize_t length = ::pread(schedstat.get(), text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    char* waited = text;
    (void)std::strtoll(text, &waited, 10);
    return boot_now_ns() - std::strtoll(waited, nullptr, 10);
  }
  void begin_measure() {
    if (schedstat) turn_began_ns = own_time_ns();
  }
  void end_measure() {
    if (!schedstat) return;
    const std::int64_t took = own_time_ns() - turn_began_ns;
    if (took > turn_limit_ns) too_long(took);
  }

  Watch* find(int fd) {
    const auto index = static_cast<std::size_t>(fd);
    return fd >= 0 && index < by_fd.size() ? by_fd[index].get() : nullptr;
  }

  void arm() {
    const std::int64_t first = timers.empty() ? kNever : timers.begin()->first.first;
    // A deadline that moved back leaves the old alarm: one idle wake-up instead of a call each
    // time.
    if (first >= armed) return;
    const std::int64_t at = first > 0 ? first : 1;  // 0 would disarm
    itimerspec spec{};
    spec.it_value.tv_sec = at / 1'000'000'000;
    spec.it_value.tv_nsec = at % 1'000'000'000;
    ::timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
    armed = first;
  }

  void on_alarm() {
    std::uint64_t count = 0;
    // The alarm may have been taken back between the event and here: then there is nothing to read.
    if (::read(timer.get(), &count, sizeof count) < 0) return;
    armed = kNever;
    const std::int64_t now = boot_now_ns();
    const TimerId newest = last_timer;  // those added from here on wait for the next turn
    auto it = timers.begin();
    while (it != timers.end() && it->first.first <= now) {
      if (it->first.second > newest) {
        ++it;
        continue;
      }
      auto node = timers.extract(it);
      deadline_of.erase(node.key().second);
      node.mapped()();
      it = timers.begin();
    }
  }

  void dispatch(const epoll_event& event) {
    const int fd = static_cast<int>(event.data.u64 & 0xffffffffu);
    const auto wanted = static_cast<std::uint32_t>(event.data.u64 >> 32);
    Watch* found = find(fd);
    if (!found || found->generation != wanted) return;
    const std::uint32_t seen = event.events & (found->events | EPOLLERR | EPOLLHUP);
    if (seen == 0) return;
    const std::shared_ptr<Watch> alive = by_fd[static_cast<std::size_t>(fd)];
    alive->callback(seen);
  }

  void end_turn() {
    const std::size_t count = turns.size();
    for (std::size_t i = 0; i < count; ++i) turns[i]();
  }
};

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

Result<std::unique_ptr<Loop>> Loop::create() {
  std::unique_ptr<Loop> loop(new Loop);
  Impl& impl = *loop->impl_;
  impl.epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!impl.epoll) return os_error("epoll_create1");
  impl.timer.reset(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!impl.timer) return os_error("timerfd_create");
  Result<void> watched =
      loop->watch(impl.timer.get(), EPOLLIN, [&impl](std::uint32_t) { impl.on_alarm(); });
  if (!watched) return std::move(watched).error();
  return loop;
}

Result<void> Loop::watch(int fd, std::uint32_t epoll_events, FdCallback callback) {
  auto watch = std::make_shared<Watch>();
  watch->generation = ++impl_->generation;
  watch->events = epoll_events;
  watch->callback = std::move(callback);
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = pack(fd, watch->generation);
  if (::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_ADD, fd, &event) < 0) {
    return os_error("watch " + descriptor_name(fd));
  }
  const auto index = static_cast<std::size_t>(fd);
  if (index >= impl_->by_fd.size()) impl_->by_fd.resize(index + 1);
  impl_->by_fd[index] = std::move(watch);
  return {};
}

Result<void> Loop::change(int fd, std::uint32_t epoll_events) {
  Watch* watch = impl_->find(fd);
  if (!watch) {
    return Error{ErrorKind::NotFound, 0, "change " + descriptor_name(fd) + ": it is not watched"};
  }
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = pack(fd, watch->generation);
  if (::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_MOD, fd, &event) < 0) {
    return os_error("change " + descriptor_name(fd));
  }
  watch->events = epoll_events;
  return {};
}

void Loop::unwatch(int fd) {
  if (!impl_->find(fd)) return;
  ::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
  impl_->by_fd[static_cast<std::size_t>(fd)].reset();
}

Loop::TimerId Loop::at(std::int64_t boot_ns, std::function<void()> callback) {
  const TimerId id = ++impl_->last_timer;
  impl_->timers.emplace(std::make_pair(boot_ns, id), std::move(callback));
  impl_->deadline_of.emplace(id, boot_ns);
  return id;
}

void Loop::cancel(TimerId id) {
  const auto found = impl_->deadline_of.find(id);
  if (found == impl_->deadline_of.end()) return;
  impl_->timers.erase({found->second, id});
  impl_->deadline_of.erase(found);
}

Result<void> Loop::on_signals(const std::vector<int>& signals,
                              std::function<void(int signal)> callback) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  const int code = ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (code != 0) return os_error("pthread_sigmask", code);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return os_error("signalfd");

  impl_->signals.push_back({std::move(fd), std::move(callback)});
  SignalSource* source = &impl_->signals.back();  // a deque keeps its elements in place
  Result<void> watched = watch(source->fd.get(), EPOLLIN, [source](std::uint32_t) {
    signalfd_siginfo got{};
    while (::read(source->fd.get(), &got, sizeof got) == static_cast<ssize_t>(sizeof got)) {
      source->callback(static_cast<int>(got.ssi_signo));
    }
  });
  if (!watched) impl_->signals.pop_back();
  return watched;
}

void Loop::on_turn(std::function<void()> callback) { impl_->turns.push_back(std::move(callback)); }

Result<void> Loop::watch_turns(std::int64_t limit_ns, std::function<void(std::int64_t)> too_long) {
  impl_->schedstat.reset(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  if (!impl_->schedstat) return os_error("open /proc/thread-self/schedstat");
  impl_->turn_limit_ns = limit_ns;
  impl_->too_long = std::move(too_long);
  return {};
}

Result<void> Loop::run() {
  std::array<epoll_event, kBatch> events{};
  // One of the three borders at which exceptions (bad_alloc, third-party code) become errors.
  try {
    impl_->end_turn();
    while (!impl_->stopping) {
      impl_->arm();
      const int count = ::epoll_wait(impl_->epoll.get(), events.data(), kBatch, -1);
      if (count < 0 && errno != EINTR) return os_error("epoll_wait");
      impl_->begin_measure();
      for (int i = 0; i < count; ++i) impl_->dispatch(events[static_cast<std::size_t>(i)]);
      impl_->end_turn();
      impl_->end_measure();
    }
  } catch (const std::exception& thrown) {
    return Error{ErrorKind::Io, 0, std::string("event loop: a callback threw: ") + thrown.what()};
  }
  impl_->stopping = false;
  return {};
}

void Loop::stop() { impl_->stopping = true; }

}  // namespace pergpu::os
