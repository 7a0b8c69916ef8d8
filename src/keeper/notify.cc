// A key's first line passes at once; what follows within the interval replaces what waits.
#include "keeper/notify.h"

#include <algorithm>
#include <utility>

namespace pergpu::keeper {
namespace {

std::string printable(std::string_view line) {
  std::string out(line.substr(0, NotifyFilter::kLongestLine));
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return out;
}

}  // namespace

std::vector<std::string> NotifyFilter::accept(std::string_view datagram, std::int64_t now_ns) {
  std::vector<std::string> out;
  while (!datagram.empty()) {
    const std::string_view line = datagram.substr(0, datagram.find('\n'));
    datagram.remove_prefix(std::min(line.size() + 1, datagram.size()));
    for (Key& key : keys_) {
      if (line.size() <= key.name.size() || line[key.name.size()] != '=' ||
          line.substr(0, key.name.size()) != key.name)
        continue;
      if (now_ns < key.next_ns) {
        key.waiting = printable(line);
      } else {
        key.next_ns = now_ns + kIntervalNs;
        out.push_back(printable(line));
      }
    }
  }
  return out;
}

std::vector<std::string> NotifyFilter::due(std::int64_t now_ns) {
  std::vector<std::string> out;
  for (Key& key : keys_) {
    if (key.waiting.empty() || now_ns < key.next_ns) continue;
    key.next_ns = now_ns + kIntervalNs;
    out.push_back(std::exchange(key.waiting, {}));
  }
  return out;
}

std::optional<std::int64_t> NotifyFilter::next_due() const {
  std::optional<std::int64_t> out;
  for (const Key& key : keys_) {
    if (!key.waiting.empty()) out = std::min(out.value_or(key.next_ns), key.next_ns);
  }
  return out;
}

std::vector<std::string> NotifyFilter::drain() {
  std::vector<std::string> out;
  for (Key& key : keys_) {
    if (!key.waiting.empty()) out.push_back(std::exchange(key.waiting, {}));
  }
  return out;
}

}  // namespace pergpu::keeper
