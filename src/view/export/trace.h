// `export --trace`: attempts as a Trace Event Format file, which ui.perfetto.dev, Chrome's
// about:tracing and Speedscope open.  One process, the machine; one thread a lane; one complete
// event ("X") an attempt.  Events of a thread never overlap (view/model/timeline.h): Perfetto would
// drop some.
#pragma once

#include <string>
#include <vector>

#include "view/model/history.h"

namespace pergpu::view {

/// JSON.  Times are microseconds since the first attempt's begin, which stands in `otherData`.
std::string trace_text(const std::vector<JobHistory>& jobs, const std::string& machine,
                       std::int64_t now_ns);

}  // namespace pergpu::view
