// The one typed pass over the tree: Node -> SweepSpec.  draft.h names its parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/known_key.h"
#include "spec/load.h"
#include "spec/node.h"
#include "spec/report.h"
#include "spec/sweep.h"

namespace pergpu {

struct SchemaInput {
  std::string path = {};    // as the user spelt it
  std::string file = {};    // absolute
  std::string folder = {};  // absolute
};

/// The top level.
std::vector<KnownKey> section_keys();

/// nullopt when anything was reported as an error.
std::optional<SweepSpec> build_sweep(Report& report, Node root, const SchemaInput& input,
                                     const LoadOptions& options);

}  // namespace pergpu
