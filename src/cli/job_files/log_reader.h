// Follows one growing log file on an event loop.
//
// inotify reports growth; where it can't (a network file system), a look each second does.  The
// file is opened as soon as it exists.  It may be emptied in place (`: >log.txt`, logrotate's
// copytruncate) or replaced (a new file under its name): reading goes on with what is written then.
// A file that was renamed is read on as well, for the job may still write to it.  Holes are passed
// over.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu::cli {

class LogReader {
 public:
  using Sink = std::function<void(std::string_view bytes)>;
  enum class Restart : std::uint8_t { Emptied, Replaced };
  /// What follows doesn't continue what was given out before: it's the beginning of a file.
  using OnRestart = std::function<void(Restart how)>;

  static Result<std::unique_ptr<LogReader>> create(os::Loop& loop, Sink sink,
                                                   OnRestart on_restart = {});
  ~LogReader();

  /// Gives out what is left of the file so far, then follows `path` from `offset`.  A file that
  /// was read under another name is taken up where it was left.
  void follow(const std::string& path, std::int64_t offset = 0);
  /// Gives out everything that has been written by now; returns early when a signal asks the
  /// program to end.
  void drain();

 private:
  struct File {
    os::UniqueFd fd;
    dev_t device = 0;
    ino_t inode = 0;
    std::int64_t offset = 0;
    std::string before = {};  // the last bytes before `offset`: while they are there, it grows only
    bool is_followed = true;
  };

  LogReader(os::Loop& loop, Sink sink, OnRestart on_restart)
      : loop_(loop), sink_(std::move(sink)), on_restart_(std::move(on_restart)) {}
  /// Follows what lies under path_ now; whether that is another file than before.
  bool open_newest(std::int64_t offset, bool is_restart);
  void forget_old();
  /// Whether more may be there.
  bool read_some();
  bool read_some(File& file);
  static void skip_hole(File& file);
  void arm();

  os::Loop& loop_;
  Sink sink_;
  OnRestart on_restart_;
  os::UniqueFd inotify_;
  std::vector<File> files_ = {};  // in the order in which they were opened
  std::string path_;
  os::Loop::TimerId tick_ = 0;
};

}  // namespace pergpu::cli
