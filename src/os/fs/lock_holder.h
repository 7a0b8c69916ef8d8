// Which process has a file locked, whatever program it runs.  Reads /proc: for messages, not for
// decisions.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergpu::os {

struct LockHolder {
  pid_t pid = 0;
  std::optional<uid_t> uid = std::nullopt;  // nullopt: it can't be read
  std::string program = {};                 // the name that ps shows; "": it can't be read
};

/// A process that holds what keeps others from locking this file with flock(): a lock of either
/// kind, or a lease of fcntl().  nullopt: none is visible from here (another user's process that
/// inherited the lock, or one of another container).
std::optional<LockHolder> find_lock_holder(const struct stat& file);

/// "flock, process 4711 of uid 1001".
std::string words_of(const LockHolder& holder);

/// A lock on a file as /proc/locks and /proc/<pid>/fdinfo list it, without those that wait.
struct ListedLock {
  std::string kind = {};    // "FLOCK", "LEASE"
  std::string access = {};  // "WRITE", "READ"
  pid_t pid = 0;            // who locked it, and may have handed it on; 0: it has ended
};
/// `where`: the file as the lists spell it, "00:19:42".
std::vector<ListedLock> locks_in(std::string_view list, std::string_view where);
std::string where_of(const struct stat& file);

}  // namespace pergpu::os
