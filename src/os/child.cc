// glibc 2.36 declares <sys/pidfd.h> without extern "C"; this is the one place that includes it.
#include "os/child.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>

extern "C" {
#include <sys/pidfd.h>
}

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
  UniqueFd fd(::pidfd_open(pid, 0));  // close-on-exec by definition
  if (!fd) return os_error("pidfd_open of process " + std::to_string(pid));
  return fd;
}

Result<void> send_signal(const UniqueFd& pidfd, int signal) {
  if (::pidfd_send_signal(pidfd.get(), signal, nullptr, 0) < 0)
    return os_error("send signal " + std::to_string(signal));
  return {};
}

bool has_ended(const UniqueFd& pidfd) {
  pollfd p = {.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace pergpu::os
