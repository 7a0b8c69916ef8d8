// bare_loop [-k SLOTS] [--record DIR] -- COMMAND ARG… ::: VALUE…: runs COMMAND ARG… VALUE once for
// each VALUE, SLOTS at a time, by vfork + exec + pidfd + epoll: the least that a job runner can
// cost, and therefore what pergpu is measured against.
//
// Without --record: output to /dev/null, nothing kept.  With it: as much as pergpu keeps
// (recorder.h), under the same two rules: the intent is durable before the process exists, the
// outcome before its slot is used again.  Outcome and next intent are one transaction; the next
// job's folder is made while the slot is still busy; the record of a live job is written when it
// has lasted for 100 ms.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder.h"

namespace {

constexpr const char* kStarting =
    "{\"attempt\":1,\"cpus\":1,\"keeper\":1,\"pool\":\"sweep\",\"slot\":3}";
constexpr std::int64_t kRecordAfterMs = 100;
constexpr int kCommitted = -1;  // in epoll's data: not a slot

std::int64_t now_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

pid_t start_process(char* const* argv, int input, int output) {
  const pid_t pid = ::vfork();
  if (pid == 0) {
    ::dup2(input, 0);
    ::dup2(output, 1);
    ::dup2(output, 2);
    ::execv(argv[0], argv);
    ::_exit(127);
  }
  return pid;
}

struct Slot {
  std::int64_t job = 0;  // 0: idle
  pid_t pid = 0;
  int pidfd = -1;
  std::int64_t ended = 0;  // waits for its outcome to be durable
  int status = 0;
  std::int64_t prepared = 0;
  std::int64_t record_due_ms = 0;  // 0: not due any more
};

struct Loop {
  int slots = 8;
  std::string record;
  std::vector<char*> command;
  std::vector<char*> values;

  int epoll = -1;
  int null = -1;
  std::vector<Slot> slot;
  std::int64_t next = 1;  // job numbers start at 1
  std::int64_t done = 0;
  bool failed = false;

  std::int64_t count() const { return static_cast<std::int64_t>(values.size()); }
  char* value(std::int64_t job) const { return values[static_cast<std::size_t>(job - 1)]; }
  std::string folder(std::int64_t job) const {
    return record + "/runs/" + std::to_string(job) + "/main";
  }

  std::vector<char*>& argv_of(std::int64_t job) {
    command[command.size() - 2] = value(job);
    return command;
  }

  void spawn(int index, std::int64_t job) {
    Slot& s = slot[static_cast<std::size_t>(index)];
    char* const* argv = argv_of(job).data();
    if (record.empty()) {
      s.pid = start_process(argv, null, null);
    } else {
      const std::string path = folder(job) + "/log.txt";
      const int log = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
      s.pid = start_process(argv, null, log);
      ::close(log);
    }
    s.job = job;
    s.pidfd = static_cast<int>(::syscall(SYS_pidfd_open, s.pid, 0));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = index;
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, s.pidfd, &event);
  }

  /// Status of the ended process of `s`.
  void reap(Slot& s) {
    ::epoll_ctl(epoll, EPOLL_CTL_DEL, s.pidfd, nullptr);
    ::close(s.pidfd);
    ::waitpid(s.pid, &s.status, 0);
    if (s.status != 0) failed = true;
    s.ended = s.job;
    s.job = 0;
    s.record_due_ms = 0;
  }

  /// Writes the records that are due; returns the milliseconds until the next one, -1: none.
  int write_due_records() {
    std::int64_t wait = -1;
    for (Slot& s : slot) {
      if (s.record_due_ms == 0) continue;
      const std::int64_t left = s.record_due_ms - now_ms();
      if (left > 0) {
        wait = wait < 0 ? left : std::min(wait, left);
        continue;
      }
      s.record_due_ms = 0;
      bench::write_attempt(folder(s.job), s.job, argv_of(s.job), s.pid, 0, false);
    }
    return static_cast<int>(wait);
  }

  void prepare(Slot& s) {
    if (record.empty() || s.prepared != 0 || next > count()) return;
    s.prepared = next++;
    bench::prepare_folder(folder(s.prepared), s.prepared, value(s.prepared));
  }

  void on_exit(int index) {
    Slot& s = slot[static_cast<std::size_t>(index)];
    reap(s);
    if (record.empty()) {
      ++done;
      if (next <= count()) spawn(index, next++);
      return;
    }
    std::vector<bench::Row> rows;
    rows.push_back(
        {s.ended, bench::Kind::Exited,
         "{\"class\":\"ok\",\"exit\":" + std::to_string(s.status) + ",\"next\":\"final\"}"});
    if (s.prepared != 0) rows.push_back({s.prepared, bench::Kind::Starting, kStarting});
    bench::append(std::move(rows), index);
  }

  void start_prepared(int index) {
    Slot& s = slot[static_cast<std::size_t>(index)];
    const std::int64_t job = std::exchange(s.prepared, 0);
    spawn(index, job);
    s.record_due_ms = now_ms() + kRecordAfterMs;
    bench::append({{job, bench::Kind::Started, "{\"pid\":" + std::to_string(s.pid) + "}"}}, -1);
  }

  void on_committed(int index) {
    Slot& s = slot[static_cast<std::size_t>(index)];
    const std::int64_t ended = std::exchange(s.ended, 0);
    const pid_t pid = s.pid;
    if (s.prepared != 0) start_prepared(index);  // the slot first, the record of the past later
    if (ended != 0) {
      bench::write_attempt(folder(ended), ended, argv_of(ended), pid, s.status, true);
      ++done;
    }
    prepare(s);
  }

  void begin() {
    if (record.empty()) {
      for (int i = 0; i < slots && next <= count(); ++i) spawn(i, next++);
      return;
    }
    ::mkdir(record.c_str(), 0755);
    ::mkdir((record + "/runs").c_str(), 0755);
    bench::open_database(record + "/jobs.db");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = kCommitted;
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, bench::committed_fd(), &event);
    std::vector<bench::Row> rows;
    for (std::int64_t job = 1; job <= count(); ++job) {
      rows.push_back({job, bench::Kind::Submitted, value(job)});
    }
    bench::append(std::move(rows), -1);
    for (int i = 0; i < slots && next <= count(); ++i) {
      Slot& s = slot[static_cast<std::size_t>(i)];
      prepare(s);
      bench::append({{s.prepared, bench::Kind::Starting, kStarting}}, i);
    }
  }

  int run() {
    epoll = ::epoll_create1(EPOLL_CLOEXEC);
    null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    slot.resize(static_cast<std::size_t>(slots));
    command.push_back(nullptr);  // the value
    command.push_back(nullptr);
    begin();
    std::array<epoll_event, 64> events{};
    while (done < count()) {
      const int n =
          ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), write_due_records());
      for (int i = 0; i < n; ++i) {
        const int which = events[static_cast<std::size_t>(i)].data.fd;
        if (which != kCommitted) {
          on_exit(which);
          continue;
        }
        for (const std::int64_t ticket : bench::committed()) {
          if (ticket >= 0) on_committed(static_cast<int>(ticket));
        }
      }
    }
    if (!record.empty()) bench::close_database();
    return failed ? 1 : 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  Loop loop;
  int i = 1;
  for (; i + 1 < argc && std::string_view(argv[i]) != "--"; i += 2) {
    const std::string_view option = argv[i];
    if (option == "-k") loop.slots = std::atoi(argv[i + 1]);
    if (option == "--record") loop.record = argv[i + 1];
  }
  for (++i; i < argc && std::string_view(argv[i]) != ":::"; ++i) loop.command.push_back(argv[i]);
  for (++i; i < argc; ++i) loop.values.push_back(argv[i]);
  if (loop.command.empty() || loop.values.empty() || loop.slots < 1) {
    std::fputs("usage: bare_loop [-k SLOTS] [--record DIR] -- /COMMAND ARG... ::: VALUE...\n",
               stderr);
    return 2;
  }
  return loop.run();
}
