// Keeps the sockets of a running coordinator and its keepers where they can be found.  Their folder
// may be emptied or removed at any time: by a cleaner of temporary files, by the login manager with
// $XDG_RUNTIME_DIR, by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "os/clock.h"
#include "os/fs/removal_watch.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu {

/// Looks when the kernel reports a removal, and every few seconds for what it doesn't report (the
/// parent was moved, something was mounted over it).  Thread: the deciding one.
class RunFolder {
 public:
  struct Parts {
    os::Loop* loop = nullptr;
    os::Clock* clock = nullptr;
    std::string home = {};
    std::string path = {};
    /// Called at the begin of each look.  False: nothing may be made now.
    std::function<bool()> has_home = {};
    /// Each of the coordinator's sockets has its name.
    std::function<bool()> is_whole = {};
    /// Makes those that are not in this folder, which exists.
    std::function<Result<void>(const std::string& folder)> restore = {};
    /// Called at each look: keepers are to have their files in this folder.
    std::function<void(const std::string& folder)> tell_keepers = {};
  };
  /// The first look comes in the next turn of the loop.
  explicit RunFolder(Parts parts);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return parts_.path; }
  /// Something was removed from the home or this folder, and the look comes in a moment.
  bool has_seen_removal() const { return watch_.is_pending(); }

 private:
  void look();
  void look_at(std::int64_t boot_ns);
  bool restore();
  bool restore_in(const std::string& folder);

  Parts parts_;
  os::RemovalWatch watch_;
  os::Loop::TimerId timer_ = 0;
  std::string said_;  // why they can't be made
};

}  // namespace pergpu
