// What a coordinator asks of a task that it cannot speak to: which of its jobs are to end.  A file
// beside the records, replaced as a whole; the task reads it while it waits to begin, when it is
// signaled, and every few seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ids.h"
#include "result.h"

namespace pergpu::store {

struct EndRequest {
  JobId job = {};
  bool kill = false;
  bool unless_begun = false;  // what runs already goes on
  std::string words = {};
  bool operator==(const EndRequest&) const = default;
};

/// What the file holds.
struct EndRequests {
  std::vector<EndRequest> jobs = {};
  bool was_held = false;  // the task, in the cluster's queue, by the one that asks
  bool operator==(const EndRequests&) const = default;
};

/// "end.3.json"
std::string end_request_name(std::int32_t task);
std::string to_text(const EndRequests& requests);
Result<EndRequests> end_requests_of(std::string_view text);

}  // namespace pergpu::store
