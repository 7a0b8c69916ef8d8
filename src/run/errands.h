// Work that may block (files on a shared file system, programs that wait for a server), done on
// separate threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "os/loop.h"
#include "result.h"

namespace pergpu {

class Errands {
 public:
  /// One thread: one piece after the other.  More: a piece that hangs holds up no other one, as
  /// long as fewer than `most_threads` do.
  static Result<std::unique_ptr<Errands>> create(os::Loop& loop, std::size_t most_threads = 1);
  /// Drops what has not begun, waits for what is under way, and runs nothing of what they returned.
  ~Errands();
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  /// Begins nothing more.  Whether nothing was under way any more within `patience`: else a disk
  /// hangs, and so would the destructor.
  bool leave(std::chrono::nanoseconds patience);

  /// `work` runs on one of the threads; what it returns runs on the loop's thread.
  void run(std::function<std::function<void()>()> work);

 private:
  struct Impl;
  explicit Errands(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu
