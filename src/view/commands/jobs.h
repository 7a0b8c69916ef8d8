// `ps`, `why` and the changed jobs of cancel, hold, release, retry: one line a job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "view/text/style.h"

namespace pergpu::view {

/// Id, job, state, time, place, reason.
std::string ps_table(const std::vector<JobSnapshot>& jobs, std::int64_t now_ns, const Style& style);

struct Why {
  std::int64_t id = 0;
  std::string name = {};
  std::string state = {};
  std::string why = {};        // may have several lines
  std::string last_line = {};  // of its log, where `why` says little
};
/// Of several jobs those that are done are only counted: nothing keeps them.
std::string why_text(const std::vector<Why>& jobs, const Style& style);

}  // namespace pergpu::view
