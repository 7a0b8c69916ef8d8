// What `pergpu --version` prints of a build.  cmake/write-build-facts.cmake writes the definitions,
// in each build, when they have changed.
#pragma once

namespace pergpu::cli {

extern const char* const kBuildCommit;  // "0123456789ab", "0123456789ab-dirty", "unknown"
extern const char* const kBuildTarget;  // "x86_64-linux-gnu"

}  // namespace pergpu::cli
