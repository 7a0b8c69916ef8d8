// Reports when names go from folders: a file was removed or moved away, or the folder itself was.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "os/clock.h"
#include "os/fd.h"
#include "os/loop.h"

namespace pergpu::os {

/// Thread: that of the loop, which outlives it.
class RemovalWatch {
 public:
  /// `removed` runs on the loop a tenth of a second after the first removal, once for all of that
  /// time: `rm -r` removes one name after the other.
  RemovalWatch(Loop& loop, Clock& clock, std::function<void()> removed);
  ~RemovalWatch();
  RemovalWatch(const RemovalWatch&) = delete;
  RemovalWatch& operator=(const RemovalWatch&) = delete;

  /// Watches what these names lead to now, too.  False: not all of them can be watched (one isn't
  /// there, or the user has no inotify watch left).
  bool follow(const std::vector<std::string>& folders);
  /// Something was removed, and `removed` hasn't run since.
  bool is_pending() const { return timer_ != 0; }

 private:
  void on_event();

  Loop& loop_;
  Clock& clock_;
  std::function<void()> removed_;
  UniqueFd inotify_;
  Loop::TimerId timer_ = 0;
};

}  // namespace pergpu::os
