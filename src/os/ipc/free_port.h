// TCP ports that programs on this machine can meet at.
#pragma once

#include <cstdint>
#include <functional>

namespace pergpu::os {

/// No process is bound to it, on any address.  By the time it is used one may be.
bool is_free_port(int port);

/// Ports for attempts, one after the other, from a range that Linux assigns to no process by itself
/// (by default it takes those from 32768 on), so that only one who asks for the same is in the way.
class PortRange {
 public:
  static constexpr int kFirst = 20'000;
  static constexpr int kCount = 10'000;

  /// Processes with other seeds begin elsewhere: they seldom choose the same at one instant.
  explicit PortRange(std::uint32_t seed) : next_(static_cast<int>(seed % kCount)) {}

  /// The next that may be used; 0: none of the next few hundred.
  int next(const std::function<bool(int port)>& may_use);

 private:
  int next_;
};

}  // namespace pergpu::os
