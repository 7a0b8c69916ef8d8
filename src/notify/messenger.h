// Runs `pergpu notify send` beside the deciding thread, once for each message, and ends it when it
// takes too long.  What is to be sent goes to it by a descriptor, never in its command line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "os/loop.h"
#include "result.h"

namespace pergpu {

class Messenger {
 public:
  Messenger(os::Loop& loop, std::string pergpu_program);
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// `done` runs later, exactly once unless this object goes before, soon after `limit_ns` at the
  /// latest; an error says why the message did not arrive.
  void send(const std::string& request, std::int64_t limit_ns,
            std::function<void(Result<void>)> done);

 private:
  struct Helper;
  void finish(const std::shared_ptr<Helper>& helper, Result<void> sent);
  void fail_later(const std::shared_ptr<Helper>& helper, std::string why);

  os::Loop& loop_;
  std::string pergpu_program_;
  std::shared_ptr<bool> alive_;  // timers and watches may fire after our end
};

}  // namespace pergpu
