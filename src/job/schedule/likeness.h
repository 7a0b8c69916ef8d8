// What jobs like a new one took.  Pure.
//
// A job is described by its parameters; which of them matter is learned from the records: those
// whose values explain the duration better than chance would (the part of its variance that they
// explain, corrected for the number of values).  Like the new job are the records that agree with
// it in most of what matters.  A seed, whose every value is seen once, explains nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace pergpu {

/// Name and value of a parameter, as hashes.
struct ParameterMark {
  std::uint32_t name = 0;
  std::uint32_t value = 0;
  auto operator<=>(const ParameterMark&) const = default;
};

/// One attempt that was done.
struct UsageRecord {
  double duration_s = 0;
  double cores = 0;    // that it wants (job/schedule/cpu_share.h); 0: not known
  double alone_s = 0;  // what it would have taken with them
  std::optional<std::uint64_t> memory_bytes = std::nullopt;      // most it had
  std::optional<std::uint64_t> gpu_memory_bytes = std::nullopt;  // most of its GPUs, together
  std::vector<ParameterMark> parameters = {};
  bool operator==(const UsageRecord&) const = default;
};

struct Estimate {
  std::size_t jobs = 0;                                          // how many records are like it
  double duration_s = 0;                                         // their mean
  double cores = 0;                                              // the same; 0: not known of all
  double alone_s = 0;                                            // the same, if `cores` is known
  std::optional<std::uint64_t> memory_bytes = std::nullopt;      // the most of any of them
  std::optional<std::uint64_t> gpu_memory_bytes = std::nullopt;  // the same
};

/// A value of a job with these parameters.
struct Observation {
  const std::vector<ParameterMark>* parameters = nullptr;
  double value = 0;
};
/// How much of the value each parameter explains, 0 to 1, by the hash of its name.
std::map<std::uint32_t, double> parts_explained(const std::vector<Observation>& observations);
/// The same of the duration.
std::map<std::uint32_t, double> weights_of(const std::vector<UsageRecord>& records);

/// nullopt: there are no records.
std::optional<Estimate> estimate(const std::vector<UsageRecord>& records,
                                 const std::map<std::uint32_t, double>& weights,
                                 const std::vector<ParameterMark>& parameters);

}  // namespace pergpu
