// What attempts used over time, for a report: asked of the coordinator, attempt by attempt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cli/client/client.h"
#include "view/model/history.h"

namespace pergpu::cli {

/// The most requests, and the number of buckets (minutes, mostly) after which none is sent.
inline constexpr std::size_t kMostSeries = 500;
inline constexpr std::size_t kMostBuckets = 200'000;

/// Adds `series`, and `usage` where only the series has it.  Returns of how many attempts that
/// have one it did not ask for it.  Best effort: an attempt of which nothing is known has none.
std::size_t read_series(Client& client, std::vector<view::JobHistory>& jobs, std::int64_t now_ns);

/// Indices into the histories.
struct AttemptPlace {
  std::size_t job = 0;
  std::size_t attempt = 0;
  bool operator==(const AttemptPlace&) const = default;
};
/// The attempts that have a series: those that live, and those of a minute and more.  On GPUs
/// before others, then long ones before short ones.
std::vector<AttemptPlace> with_series(const std::vector<view::JobHistory>& jobs,
                                      std::int64_t now_ns);

/// Adds what a reply of op `usage` has.
void add_series(const nlohmann::json& reply, view::AttemptFacts& attempt);

}  // namespace pergpu::cli
