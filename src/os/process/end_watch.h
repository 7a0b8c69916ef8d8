// What stands in for a pidfd where the kernel has none: the reading end of a pipe, whose other end
// is closed when the process has ended.  A thread looks for that, the more often the younger the
// watch: a program that ends at once is noticed within milliseconds, every other one within 0.1 s.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

struct WatchedProcess {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
};

/// Made before there is a process, because it can fail; dropped, it is nothing.
class EndWatch {
 public:
  static Result<EndWatch> make();
  /// The descriptor that becomes readable when the process has ended, with all that poll() takes
  /// for that.  REQUIRES: `pid` is that process at this moment, our zombie at worst.
  UniqueFd begin(pid_t pid) &&;
  UniqueFd begin(const WatchedProcess& process) &&;

 private:
  UniqueFd reader_;
  UniqueFd writer_;
};

/// A zombie without a living thread has.
bool has_ended(const WatchedProcess& process);

/// Whom `fd` stands for; nullopt: no process that lives as far as is known, or it is something
/// else.
std::optional<WatchedProcess> watched_by(int fd);

}  // namespace pergpu::os
