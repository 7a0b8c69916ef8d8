// FileLock: a file locked by flock(2) for as long as the object lives.  The kernel drops it when
// the process ends, however it ends.  The file stays: unlinking it would let two processes lock two
// files of one name.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

class FileLock {
 public:
  FileLock() = default;
  /// Creates `path` (0600) if need be.  ErrorKind::Busy when another process or object holds it.
  /// `note` says who we are, for those that are refused.  Empty: the file's content stays.
  static Result<FileLock> try_lock(const std::string& path, std::string_view note = {});

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// A process that /proc/locks names for an exclusive (or a shared) flock on this file; 0: it names
/// none.  Reads /proc: for words, not for decisions.
pid_t lock_holder(const struct stat& file, bool shared = false);

}  // namespace pergpu::os
