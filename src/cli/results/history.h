// What the coordinator, the records of attempts and the metrics files have of jobs, in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/client/client.h"
#include "result.h"
#include "view/model/history.h"

namespace pergpu::cli {

/// Jobs are asked for in slices: while many at once are described, or their files read, nothing
/// else is done.
inline constexpr std::size_t kHistorySlice = 200;

/// The request for jobs `begin` to `begin` + kHistorySlice of `jobs`; history_of() reads each job
/// in its reply's "jobs".
nlohmann::json history_request(const std::vector<std::int64_t>& jobs, std::size_t begin);
view::JobHistory history_of(const nlohmann::json& whole);

/// Of the jobs that the selectors name, by number.
Result<std::vector<view::JobHistory>> read_history(Client& client,
                                                   const std::vector<std::string>& selectors);
/// Of these jobs, in this order.
Result<std::vector<view::JobHistory>> read_history(Client& client,
                                                   const std::vector<std::int64_t>& jobs);

}  // namespace pergpu::cli
