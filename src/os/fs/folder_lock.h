// FolderLock: the right to work in a folder, for the processes of one attempt of a job.
//
// It is `flock(LOCK_EX)` on two files: .pergpu-lock in the folder, and .pergpu-lock.<name> beside
// it, in its parent.  Their descriptors are inherited by the first process of the attempt, so that
// the kernel ends the locks when the last process that has them is gone: killing all of pergpu
// frees no folder that is worked in.
//
// Why two?  The inner lock doesn't depend on the path, user or home by which the folder is reached,
// and it's the one that attempts of earlier releases hold.  But a job may remove or move its folder
// and make it again (`rm -rf "$PERGPU_OUT"`), and only the lock beside it outlives that.  Where the
// parent can't be written to, the inner lock has to do.
//
// Protocol: a process that gets a lock checks that the file still has its name, writes its own name
// into it, and never unlocks; closing the last descriptor does.  A file may be removed by the
// holder of its lock (tidy_folder()).  Files and not the folder itself are locked, because a job
// may use flock on its own folder.
//
// Programs close what they inherit before they start others (Python's subprocess does), but not
// their output: so the open log is locked, too (lock_log()), and as long as a process has it the
// folder is in use.
//
// On a network file system folders are locked: the kernel does that without asking a server.  They
// are the folder itself and a hidden one beside it, and the locks hold on this machine only.  Where
// files can't be locked for another reason, only the folder itself is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "os/fs/folder_walk.h"
#include "result.h"

namespace pergpu::os {

class FolderLock {
 public:
  static constexpr char kName[] = ".pergpu-lock";
  static constexpr char kLog[] = "log.txt";

  FolderLock() = default;
  /// The folder's path says which parent it's locked in: the caller checks afterwards that the path
  /// still leads to the folder.
  /// `holder`: who works there, for those who are refused ("job 17 of sweep s").
  /// ErrorKind::Busy: another holder works there; the message is its name.  NotFound: it has been
  /// removed.
  static Result<FolderLock> take(const HeldFolder& folder, std::string_view holder);

  explicit operator bool() const { return !fds_.empty(); }
  std::vector<UniqueFd> release() { return std::move(fds_); }

 private:
  explicit FolderLock(std::vector<UniqueFd> fds) : fds_(std::move(fds)) {}
  std::vector<UniqueFd> fds_;
};

/// Of the file that is to become the output of the attempt.  REQUIRES: the caller has the folder.
void lock_log(int fd);

/// Who works in the folder, as take() says it; nullopt: no holder.  It tries the locks that take()
/// tries, and gives them back at once.
std::optional<std::string> holder_of_folder(const std::string& path);

/// Removes those of the locks' files that are not locked.
void tidy_folder(const std::string& path);
void tidy_folder(const HeldFolder& folder);

}  // namespace pergpu::os
