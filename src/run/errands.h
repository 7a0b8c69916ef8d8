// Work that may block (files on a shared file system, programs that wait for a server), done on a
// thread of its own, one piece after the other.
#pragma once

#include <functional>
#include <memory>

#include "os/loop.h"
#include "result.h"

namespace pergpu {

class Errands {
 public:
  static Result<std::unique_ptr<Errands>> create(os::Loop& loop);
  /// Drops what has not begun, waits for what is under way, and runs nothing of what they returned.
  ~Errands();
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  /// `work` runs on the thread; what it returns runs on the loop's thread.
  void run(std::function<std::function<void()>()> work);

 private:
  struct Impl;
  explicit Errands(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu
