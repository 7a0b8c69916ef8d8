// Ends process trees whose keeper is dead, and keepers that do not answer with what is below them,
// without blocking the deciding thread: each in a helper process (`pergpu-keeper --end-tree`,
// `--end-keeper`), few at a time, repeated until it is gone.
//
// Helpers end with their undertaker, killed coordinator or not: what one that outlived it killed
// might be the next attempt.  REQUIRES: end() is called by a thread that lives as long.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ids.h"
#include "os/loop.h"
#include "os/process/process_tree.h"

namespace pergpu {

class Undertaker {
 public:
  Undertaker(os::Loop& loop, std::string keeper_program);
  ~Undertaker();
  Undertaker(const Undertaker&) = delete;
  Undertaker& operator=(const Undertaker&) = delete;

  struct Callbacks {
    std::function<void()> on_gone;
    /// A round has ended without success, with the reason; the next one follows by itself.
    std::function<void(const std::string& why)> on_left;
  };
  /// Callbacks never run inside the call.
  void end(const os::TreeMarks& marks, Callbacks callbacks);
  /// The keeper of this home and number, killed with everything below it.
  void end_keeper(const std::string& home, const std::string& home_id, KeeperId id,
                  Callbacks callbacks);
  /// No further round for the tree of this marker, and no callback: its keeper lives.
  void cancel(const std::string& marker);

 private:
  struct Burial;
  void enqueue(std::string key, std::vector<std::string> words, Callbacks callbacks);
  void start_some();
  void start(const std::shared_ptr<Burial>& burial);
  void gone(const Burial& burial);
  void try_again(const std::shared_ptr<Burial>& burial, const std::string& why);

  os::Loop& loop_;
  std::string keeper_program_;
  std::deque<std::shared_ptr<Burial>> waiting_;
  std::size_t running_ = 0;
  std::map<std::string, std::shared_ptr<Burial>> burials_;  // by key, until it is gone
  std::shared_ptr<bool> alive_;  // timers and watches may fire after our end
};

}  // namespace pergpu
