// Identifiers and instants that every folder shares.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace pergpu {

/// A number that cannot be mixed up with another kind of number.  0 means "none".
template <typename Tag>
struct Id {
  std::int64_t value = 0;
  auto operator<=>(const Id&) const = default;
  explicit operator bool() const { return value != 0; }
};

using SweepId = Id<struct SweepTag>;
using JobId = Id<struct JobTag>;        // never reused within a home
using KeeperId = Id<struct KeeperTag>;  // never reused within a home

/// The n-th execution of a job; printed "17.2".
struct AttemptId {
  JobId job;
  std::int32_t number = 0;  // from 1
  auto operator<=>(const AttemptId&) const = default;
};

inline std::string to_string(AttemptId id) {
  return std::to_string(id.job.value) + "." + std::to_string(id.number);
}

/// One moment on two clocks: durations are measured on `boot_ns` (CLOCK_BOOTTIME), people are shown
/// `wall_ns` (CLOCK_REALTIME).  boot_ns of different boots must not be compared.
struct Instant {
  std::int64_t wall_ns = 0;
  std::int64_t boot_ns = 0;
  bool operator==(const Instant&) const = default;
};

}  // namespace pergpu

template <typename Tag>
struct std::hash<pergpu::Id<Tag>> {
  std::size_t operator()(pergpu::Id<Tag> id) const noexcept {
    return std::hash<std::int64_t>{}(id.value);
  }
};
