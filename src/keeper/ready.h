// Reports when a job has written the first whole line of its metrics file: its start-up is over.
// inotify, so a silent job costs nothing.  Only a regular file is read, a bounded part of it at a
// time: the job, or a user who may write to its folder, can put anything in its place.
#pragma once

#include <sys/types.h>

#include <string>

#include "os/fd.h"

namespace pergpu::keeper {

class ReadyWatch {
 public:
  /// Starts watching; what `path` holds already (earlier attempts) does not count.  An empty path,
  /// or one that cannot be watched, is never ready.
  void begin(const std::string& path);
  void end() { fd_.reset(); }

  /// To be polled for reading; -1 when nothing is watched.
  int fd() const { return fd_.get(); }
  /// After `fd()` became readable: true once, then the watch has ended.
  bool is_ready();

 private:
  void watch_file();
  bool has_line();

  os::UniqueFd fd_;
  std::string path_;
  off_t read_to_ = 0;
  bool watches_file_ = false;
};

}  // namespace pergpu::keeper
