// Where the files lie that a job's step declares as its outputs.
#pragma once

#include <string>
#include <vector>

#include "result.h"
#include "state/world.h"

namespace pergpu {

/// Absolute; those with wildcards as patterns (os/fs/expected_files.h).
struct DeclaredOutputs {
  std::vector<std::string> paths = {};
  std::vector<std::string> patterns = {};
};

/// Of its newest attempt.
Result<DeclaredOutputs> outputs_of(const World& world, const Job& job);

}  // namespace pergpu
