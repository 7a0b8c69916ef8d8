// Processes that were started: how they ended, and handles that cannot hit a stranger.
//
// A wait status is decoded here and nowhere else; the rest of pergpu sees ExitStatus.  A handle
// keeps naming the same process after its pid was given to another one: a pidfd, or where the
// kernel has none what stands in for it (os/process/end_watch.h).  Both become readable when the
// process has ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <variant>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

struct Exited {
  int code = 0;
  bool operator==(const Exited&) const = default;
};
struct Signaled {
  int signal = 0;
  bool core = false;
  bool operator==(const Signaled&) const = default;
};
using ExitStatus = std::variant<Exited, Signaled>;

/// Decodes what wait4() wrote.
ExitStatus exit_status_of(int wait_status);

/// A child that was waited for.  The times include the children that it had waited for itself.
struct Reaped {
  pid_t pid = 0;
  ExitStatus status = {};
  std::int64_t cpu_ns = 0;  // user + system
  std::uint64_t max_rss_bytes = 0;
};

/// What there was to reap.
struct ReapResult {
  std::optional<Reaped> child = std::nullopt;
  bool any_left = true;  // false: this process has no child at all, not even a living one
};

/// Reaps one ended child, whichever it is; never blocks.
ReapResult reap_any();
/// Reaps the child `pid` if it has ended; never blocks.
std::optional<Reaped> reap(pid_t pid);
/// Waits for the child `pid` as long as it takes.  For programs and tests without a loop.
Result<Reaped> wait_for(pid_t pid);

/// ErrorKind::NotFound when no such process exists.
Result<UniqueFd> open_handle(pid_t pid);
/// The same, but an error with os_errno ENOSYS or EPERM where the kernel has no pidfds.
Result<UniqueFd> open_pidfd(pid_t pid);
/// ErrorKind::NotFound when the process has been reaped; never reaches another one.
Result<void> send_signal(const UniqueFd& handle, int signal);
/// To the process of this start time, without a handle: ErrorKind::NotFound when it has ended.
Result<void> send_signal(pid_t pid, std::uint64_t start_ticks, int signal);
/// True when the process behind `handle` has ended (a zombie has).
bool has_ended(const UniqueFd& handle);

}  // namespace pergpu::os
