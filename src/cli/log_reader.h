// Follows one growing log file on an event loop.
//
// inotify tells of growth; where it cannot (a network file system), a look each second does.  The
// file is opened as soon as it exists.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu::cli {

class LogReader {
 public:
  using Sink = std::function<void(std::string_view bytes)>;

  static Result<std::unique_ptr<LogReader>> create(os::Loop& loop, Sink sink);
  ~LogReader();

  /// Gives out what is left of the file so far, then follows `path` from `offset`.
  void follow(const std::string& path, std::int64_t offset = 0);
  /// Gives out everything that has been written by now.
  void drain();

 private:
  LogReader(os::Loop& loop, Sink sink) : loop_(loop), sink_(std::move(sink)) {}
  void open_and_drain();
  void arm();

  os::Loop& loop_;
  Sink sink_;
  os::UniqueFd inotify_;
  os::UniqueFd file_;
  std::string path_;
  std::int64_t offset_ = 0;
  os::Loop::TimerId tick_ = 0;
};

}  // namespace pergpu::cli
