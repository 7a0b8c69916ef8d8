// The thread is made when the first watch is, and waits without end when there is none.  It has no
// signals, so that the loop's are not lost to it.  POSIX threads: in a static program of an old C
// library those of C++ can't be relied on.
//
// A watch that is no longer held is seen by its pipe, which has no reader then.
#include "os/process/end_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>
#include <vector>

#include "duration.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/process/proc.h"

namespace pergpu::os {
namespace {

constexpr std::int64_t kShortestNs = 1'000'000;
constexpr std::int64_t kLongestNs = 100'000'000;
constexpr std::int64_t kPartOfAge = 8;
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

class Watches {
 public:
  /// Never destroyed: its thread ends with the process.
  static Watches& all() {
    static Watches& one = *new Watches;
    return one;
  }

  /// 0, or why there is no thread.
  int start() {
    const Lock lock(mutex_);
    if (has_thread_) return 0;
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kStackBytes);
    ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t every;
    sigset_t before;
    ::sigfillset(&every);
    ::pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_t thread;
    const int failed = ::pthread_create(&thread, &attributes, run, this);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_attr_destroy(&attributes);
    has_thread_ = failed == 0;
    return failed;
  }

  void add(const WatchedProcess& process, UniqueFd writer) {
    struct stat pipe = {};
    if (::fstat(writer.get(), &pipe) != 0) return;
    const Lock lock(mutex_);
    watches_.push_back({.process = process,
                        .device = pipe.st_dev,
                        .inode = pipe.st_ino,
                        .writer = std::move(writer),
                        .since_ns = awake_now_ns()});
    ::pthread_cond_signal(&changed_);
  }

  std::optional<WatchedProcess> find(int fd) {
    struct stat pipe = {};
    if (::fstat(fd, &pipe) != 0 || !S_ISFIFO(pipe.st_mode)) return std::nullopt;
    const Lock lock(mutex_);
    for (const Watch& watch : watches_) {
      if (watch.inode == pipe.st_ino && watch.device == pipe.st_dev) return watch.process;
    }
    return std::nullopt;
  }

 private:
  struct Watch {
    WatchedProcess process = {};
    dev_t device = 0;
    ino_t inode = 0;
    UniqueFd writer = {};
    std::int64_t since_ns = 0;
    std::int64_t next_ns = 0;
  };

  class Lock {
   public:
    explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { ::pthread_mutex_lock(&mutex_); }
    ~Lock() { ::pthread_mutex_unlock(&mutex_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    pthread_mutex_t& mutex_;
  };

  Watches() {
    pthread_condattr_t attributes;
    ::pthread_condattr_init(&attributes);
    ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    ::pthread_cond_init(&changed_, &attributes);
    ::pthread_condattr_destroy(&attributes);
  }

  static void* run(void* watches) { static_cast<Watches*>(watches)->look_for_ever(); }

  [[noreturn]] void look_for_ever() {
    const Lock lock(mutex_);
    for (;;) {
      while (watches_.empty()) ::pthread_cond_wait(&changed_, &mutex_);
      const std::int64_t next_ns = look();
      const timespec next = {.tv_sec = next_ns / kSecond, .tv_nsec = next_ns % kSecond};
      ::pthread_cond_timedwait(&changed_, &mutex_, &next);
    }
  }

  /// When the next one is to be looked at.
  std::int64_t look() {
    const std::int64_t now = awake_now_ns();
    std::erase_if(watches_,
                  [now](const Watch& watch) { return watch.next_ns <= now && is_over(watch); });
    std::int64_t next = now + kLongestNs;
    for (Watch& watch : watches_) {
      if (watch.next_ns <= now) {
        watch.next_ns =
            now + std::clamp((now - watch.since_ns) / kPartOfAge, kShortestNs, kLongestNs);
      }
      next = std::min(next, watch.next_ns);
    }
    return next;
  }

  static bool is_over(const Watch& watch) {
    pollfd reader = {.fd = watch.writer.get(), .events = 0, .revents = 0};
    if (::poll(&reader, 1, 0) > 0) return true;
    return has_ended(watch.process);
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_;
  std::vector<Watch> watches_;
  bool has_thread_ = false;
};

}  // namespace

Result<EndWatch> EndWatch::make() {
  if (const int failed = Watches::all().start(); failed != 0)
    return os_error("start a thread that waits for ends of processes", failed);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return os_error("pipe");
  EndWatch watch;
  watch.reader_.reset(ends[0]);
  watch.writer_.reset(ends[1]);
  return watch;
}

UniqueFd EndWatch::begin(pid_t pid) && {
  const std::optional<ProcStat> stat = read_stat(pid);
  if (!stat) writer_.reset();  // it has ended
  if (!stat) return std::move(reader_);
  return std::move(*this).begin({.pid = pid, .start_ticks = stat->start_ticks});
}

UniqueFd EndWatch::begin(const WatchedProcess& process) && {
  Watches::all().add(process, std::move(writer_));
  return std::move(reader_);
}

bool has_ended(const WatchedProcess& process) {
  const std::optional<ProcStat> stat = read_stat(process.pid);
  if (!stat || stat->start_ticks != process.start_ticks) return true;
  if (!stat->ended()) return false;
  // Its first thread may have ended before others.
  const Result<std::vector<std::string>> threads =
      list_dir("/proc/" + std::to_string(process.pid) + "/task");
  return !threads || threads->size() <= 1;
}

std::optional<WatchedProcess> watched_by(int fd) { return Watches::all().find(fd); }

}  // namespace pergpu::os
