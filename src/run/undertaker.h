// Ends process trees whose keeper is dead, without blocking the deciding thread: each in a helper
// process (`pergpu-keeper --end-tree`), few at a time, repeated until the tree is gone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "os/loop.h"
#include "os/process_tree.h"

namespace pergpu {

class Undertaker {
 public:
  Undertaker(os::Loop& loop, std::string keeper_program);
  ~Undertaker();
  Undertaker(const Undertaker&) = delete;
  Undertaker& operator=(const Undertaker&) = delete;

  struct Callbacks {
    std::function<void()> on_gone;
    /// A round has ended without success, in words; the next one follows by itself.
    std::function<void(const std::string& why)> on_left;
  };
  /// Callbacks never run inside the call.
  void end(os::TreeMarks marks, Callbacks callbacks);

 private:
  struct Burial;
  void start_some();
  void start(const std::shared_ptr<Burial>& burial);
  void try_again(const std::shared_ptr<Burial>& burial, const std::string& why);

  os::Loop& loop_;
  std::string keeper_program_;
  std::deque<std::shared_ptr<Burial>> waiting_;
  std::size_t running_ = 0;
  std::shared_ptr<bool> alive_;  // timers and watches may fire after our end
};

}  // namespace pergpu
