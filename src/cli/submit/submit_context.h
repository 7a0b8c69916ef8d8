// Everything of the submitting shell that the jobs need (docs/jobs.md): captured here once, because
// the coordinator may have been started by another shell.
#pragma once

#include <string>
#include <vector>

#include "api/snapshot.h"

namespace pergpu::cli {

/// cwd, umask, limits, priorities, signals, environment, a fresh key; git of `folder`.  Devices
/// come from CUDA_VISIBLE_DEVICES when that is set and `devices` is empty.
SubmitContext capture_context(const std::string& folder, const std::string& devices);

}  // namespace pergpu::cli
