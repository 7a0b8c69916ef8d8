// Runs `pergpu stacks` beside the deciding thread and ends it when it takes too long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "os/loop.h"

namespace pergpu {

class StackWriter {
 public:
  StackWriter(os::Loop& loop, std::string pergpu_program);
  ~StackWriter();
  StackWriter(const StackWriter&) = delete;
  StackWriter& operator=(const StackWriter&) = delete;

  /// Of everything below `root`.  `done` runs later, exactly once unless this object goes before,
  /// at the latest after kStacksNs; false: nothing was written.
  void write(std::int32_t root, const std::string& path, std::function<void(bool)> done);

 private:
  struct Helper;
  void finish(const std::shared_ptr<Helper>& helper, bool written);

  os::Loop& loop_;
  std::string pergpu_program_;
  std::shared_ptr<bool> alive_;  // timers and watches may fire after our end
};

inline constexpr std::int64_t kStacksNs = 30'000'000'000;

}  // namespace pergpu
