// FolderLock: the right to work in a folder, for the processes of one attempt of a job.
//
// It is `flock(LOCK_EX)` on one open file description of <folder>/.pergpu-lock.  The descriptor is
// inherited by the first process of the attempt, so that the kernel ends the lock when the last
// process that has it is gone: killing all of pergpu frees no folder that is worked in.  The lock
// is on the file itself: it does not matter by which path, user or home the folder is reached.
//
// Protocol: whoever has the lock checks that the path still leads to the locked file, writes its
// name into it, and never unlocks; closing the last descriptor does.  The file may be removed by
// whoever holds the lock (tidy_folder()).  It is a file and not the folder itself that is locked,
// because a job may use flock on its own folder.
//
// Programs close what they inherit before they start others (Python's subprocess does), but not
// their output: so the open log is locked, too (lock_log()), and as long as somebody has it the
// folder is in use.
//
// On a network file system, and where files cannot be locked, the folder is locked: the kernel does
// that without asking a server.  Then the lock holds on this machine only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

class FolderLock {
 public:
  static constexpr char kName[] = ".pergpu-lock";
  static constexpr char kLog[] = "log.txt";

  FolderLock() = default;
  /// `holder`: who works there, for those who are refused ("job 17 of sweep s").
  /// ErrorKind::Busy: somebody works there; the message is who.  NotFound: there is no folder.
  static Result<FolderLock> take(const std::string& folder, std::string_view holder);

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  UniqueFd release() { return std::move(fd_); }

 private:
  explicit FolderLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// Of the file that is to become the output of the attempt.  REQUIRES: the caller has the folder.
void lock_log(int fd);

/// Who works in the folder, as take() says it; nullopt: nobody.
std::optional<std::string> holder_of_folder(const std::string& folder);

/// Removes the lock's file unless somebody holds the lock.
void tidy_folder(const std::string& folder);

}  // namespace pergpu::os
