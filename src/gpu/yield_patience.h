// How long a GPU is kept free for another user who waits for it.  A waiter that doesn't take it (a
// stopped process, or one that locks the file only to be in the way) costs less each time. Pure.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace pergpu::gpu {

class YieldPatience {
 public:
  static constexpr std::chrono::milliseconds kMost{250};
  /// A waiter that runs takes the lease within 1 ms as a rule.
  static constexpr std::chrono::milliseconds kLeast{8};

  std::chrono::milliseconds of(const std::string& uuid) const;
  /// It was free for that long, and was not taken: half as long next time.
  void in_vain(const std::string& uuid);
  /// A waiter took it.
  void taken(const std::string& uuid) { patience_.erase(uuid); }

 private:
  std::map<std::string, std::chrono::milliseconds> patience_;  // where it isn't kMost
};

}  // namespace pergpu::gpu
