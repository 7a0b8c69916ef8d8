// Without pidfds a signal goes to a number, right after its start time was compared: a process that
// has no waiting parent could end, and its number be given away, in between.
#include "os/process/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>

#include "os/kernel.h"
#include "os/process/end_watch.h"
#include "os/process/proc.h"
#include "os/system_calls.h"

namespace pergpu::os {
namespace {

std::int64_t nanoseconds(const timeval& t) {
  return std::int64_t{t.tv_sec} * 1'000'000'000 + std::int64_t{t.tv_usec} * 1'000;
}

Reaped reaped_of(pid_t pid, int status, const rusage& usage) {
  return Reaped{.pid = pid,
                .status = exit_status_of(status),
                .cpu_ns = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
                .max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

/// wait4() that is not disturbed by signals.  -1 with errno, 0, or a pid.
pid_t wait_quietly(pid_t pid, int* status, int flags, rusage* usage) {
  for (;;) {
    const pid_t got = ::wait4(pid, status, flags, usage);
    if (got >= 0 || errno != EINTR) return got;
  }
}

/// Also a zombie is there, as for a pidfd.
Result<void> kill_if_there(const WatchedProcess& process, int signal) {
  const std::optional<ProcStat> stat = read_stat(process.pid);
  const bool is_there = stat && stat->start_ticks == process.start_ticks;
  if (is_there && ::kill(process.pid, signal) == 0) return {};
  return os_error("send signal " + std::to_string(signal), is_there ? errno : ESRCH);
}

}  // namespace

ExitStatus exit_status_of(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return Signaled{.signal = WTERMSIG(wait_status), .core = WCOREDUMP(wait_status) != 0};
  return Exited{.code = WEXITSTATUS(wait_status)};
}

ReapResult reap_any() {
  int status = 0;
  rusage usage = {};
  const pid_t pid = wait_quietly(-1, &status, WNOHANG, &usage);
  if (pid > 0) return ReapResult{.child = reaped_of(pid, status, usage), .any_left = true};
  return ReapResult{.child = std::nullopt, .any_left = pid == 0};
}

std::optional<Reaped> reap(pid_t pid) {
  int status = 0;
  rusage usage = {};
  if (wait_quietly(pid, &status, WNOHANG, &usage) != pid) return std::nullopt;
  return reaped_of(pid, status, usage);
}

Result<Reaped> wait_for(pid_t pid) {
  int status = 0;
  rusage usage = {};
  if (wait_quietly(pid, &status, 0, &usage) != pid)
    return os_error("wait for process " + std::to_string(pid));
  return reaped_of(pid, status, usage);
}

Result<UniqueFd> open_pidfd(pid_t pid) {
  UniqueFd fd(call::pidfd_open(pid));  // close-on-exec by definition
  if (!fd) return os_error("pidfd_open of process " + std::to_string(pid));
  return fd;
}

Result<UniqueFd> open_handle(pid_t pid) {
  if (kernel_has_pidfds()) return open_pidfd(pid);
  const std::optional<ProcStat> stat = read_stat(pid);
  if (!stat) return os_error("look for process " + std::to_string(pid), ESRCH);
  Result<EndWatch> watch = EndWatch::make();
  if (!watch) return std::move(watch).error();
  return (*std::move(watch)).begin({.pid = pid, .start_ticks = stat->start_ticks});
}

Result<void> send_signal(const UniqueFd& handle, int signal) {
  if (kernel_has_pidfds()) {
    if (call::pidfd_send_signal(handle.get(), signal) == 0) return {};
    return os_error("send signal " + std::to_string(signal));
  }
  const std::optional<WatchedProcess> process = watched_by(handle.get());
  if (!process) return os_error("send signal " + std::to_string(signal), ESRCH);
  return kill_if_there(*process, signal);
}

Result<void> send_signal(pid_t pid, std::uint64_t start_ticks, int signal) {
  if (!kernel_has_pidfds()) return kill_if_there({.pid = pid, .start_ticks = start_ticks}, signal);
  const Result<UniqueFd> pidfd = open_pidfd(pid);
  if (!pidfd) return pidfd.error();
  if (!is_alive(pid, start_ticks)) return os_error("send signal " + std::to_string(signal), ESRCH);
  return send_signal(*pidfd, signal);
}

bool has_ended(const UniqueFd& handle) {
  if (!kernel_has_pidfds()) {
    if (const std::optional<WatchedProcess> process = watched_by(handle.get()))
      return has_ended(*process);
  }
  pollfd p = {.fd = handle.get(), .events = POLLIN, .revents = 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace pergpu::os
