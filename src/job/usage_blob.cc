// The sum of a Stat comes back as count times mean, that is to about seven digits.
#include "job/usage_blob.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "job/rollup.h"

namespace pergpu {
namespace {

constexpr unsigned char kFormat = 1;
constexpr std::int64_t kSecondNs = Rollup::kSecondNs;
constexpr std::size_t kMostMeasures = 16;  // bits of the mask

template <typename T>
void put(std::string& out, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
  }
}
void put(std::string& out, float value) { put(out, std::bit_cast<std::uint32_t>(value)); }

std::uint16_t short_of(std::uint32_t count) {
  return static_cast<std::uint16_t>(
      std::min<std::uint32_t>(count, std::numeric_limits<std::uint16_t>::max()));
}

/// Reads on after the end, too: `ok` says at last whether all was there.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    T value = 0;
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      bytes_ = {};
      return 0;
    }
    for (std::size_t i = 0; i < sizeof value; ++i) {
      const auto byte = static_cast<T>(static_cast<unsigned char>(bytes_[i]));
      value = static_cast<T>(value | static_cast<T>(byte << (8 * i)));
    }
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  float take_float() { return std::bit_cast<float>(take<std::uint32_t>()); }
  bool ok() const { return ok_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

Error damaged(const char* what) {
  return Error{ErrorKind::Corrupt, 0, std::string("usage of an attempt: ") + what};
}

}  // namespace

std::string minutes_to_bytes(std::span<const UsageBucket> minutes, std::int64_t from_ns) {
  std::string out(1, static_cast<char>(kFormat));
  for (const UsageBucket& minute : minutes) {
    put(out, static_cast<std::uint32_t>((minute.from_ns - from_ns) / kSecondNs));
    put(out, short_of(minute.readings));
    put(out, minute.throttle);
    std::uint16_t known = 0;
    for (std::size_t i = 0; i < kMeasures; ++i) {
      if (minute.stats[i].count > 0) known = static_cast<std::uint16_t>(known | (1u << i));
    }
    put(out, known);
    for (const Stat& stat : minute.stats) {
      if (stat.count == 0) continue;
      put(out, short_of(stat.count));
      put(out, static_cast<float>(*stat.mean()));
      put(out, stat.least);
      put(out, stat.most);
    }
  }
  return out;
}

Result<std::vector<UsageBucket>> minutes_of_bytes(std::string_view bytes, std::int64_t from_ns) {
  Bytes in(bytes);
  if (in.take<std::uint8_t>() != kFormat) return damaged("an unknown format");
  std::vector<UsageBucket> minutes;
  while (!in.empty()) {
    UsageBucket minute{.width_ns = Rollup::kMinuteNs};
    minute.from_ns = from_ns + std::int64_t{in.take<std::uint32_t>()} * kSecondNs;
    minute.readings = in.take<std::uint16_t>();
    minute.throttle = in.take<std::uint32_t>();
    const auto known = in.take<std::uint16_t>();
    for (std::size_t i = 0; i < kMostMeasures; ++i) {
      if ((known >> i & 1) == 0) continue;
      Stat stat{.count = in.take<std::uint16_t>()};
      const float mean = in.take_float();
      stat.least = in.take_float();
      stat.most = in.take_float();
      stat.sum = static_cast<double>(mean) * static_cast<double>(stat.count);
      if (!std::isfinite(mean) || !std::isfinite(stat.least) || !std::isfinite(stat.most)) {
        return damaged("a value that isn't a number");
      }
      if (in.ok() && stat.count == 0) return damaged("a measure without readings");
      if (i < kMeasures) minute.stats[i] = stat;
    }
    if (!in.ok()) return damaged("cut off");
    minutes.push_back(minute);
  }
  return minutes;
}

}  // namespace pergpu
