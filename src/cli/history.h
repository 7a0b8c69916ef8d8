// What the coordinator, the records of attempts and the metrics files tell of jobs, in one place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/client.h"
#include "result.h"
#include "view/history.h"

namespace pergpu::cli {

/// Of the jobs that the selectors name, by number.
Result<std::vector<view::JobHistory>> read_history(Client& client,
                                                   const std::vector<std::string>& selectors);
/// Of these jobs, in this order.
Result<std::vector<view::JobHistory>> read_history(Client& client,
                                                   const std::vector<std::int64_t>& jobs);

}  // namespace pergpu::cli
