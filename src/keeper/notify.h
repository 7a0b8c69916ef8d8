// What jobs say through PERGPU_NOTIFY, made fit for forwarding: known keys, bounded length, no
// control characters, and at most one line per key in a fifth of a second.  Of lines that come
// faster the last one is sent when its time has come.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pergpu::keeper {

class NotifyFilter {
 public:
  static constexpr std::size_t kLongestLine = 1024;
  static constexpr std::int64_t kIntervalNs = 200'000'000;

  /// One datagram of the job: lines to forward now.
  std::vector<std::string> accept(std::string_view datagram, std::int64_t now_ns);
  /// Lines whose time has come.
  std::vector<std::string> due(std::int64_t now_ns);
  /// When due() has something; nullopt: nothing waits.
  std::optional<std::int64_t> next_due() const;
  /// Everything that still waits: the attempt has ended.
  std::vector<std::string> drain();

 private:
  struct Key {
    std::string_view name = {};
    std::int64_t next_ns = 0;
    std::string waiting = {};
  };
  std::array<Key, 4> keys_ = {Key{"READY"}, Key{"STATUS"}, Key{"PROGRESS"}, Key{"CHECKPOINT"}};
};

}  // namespace pergpu::keeper
