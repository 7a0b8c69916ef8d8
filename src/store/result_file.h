// Files that pergpu writes into folders of results: records of attempts, and what goes to a
// cluster.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "result.h"

namespace pergpu::store {

/// os::write_below() for the file `name` of `folder`, which is one of job/output_root.h: others may
/// write to that folder and to those above it, up to the output root.
Result<void> write_result_file(const std::string& folder, const std::string& name,
                               std::string_view content, mode_t mode, bool durable);

}  // namespace pergpu::store
