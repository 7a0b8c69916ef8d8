// The one typed pass over the tree: Node -> SweepSpec.  draft.h names its parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/schema/known_key.h"
#include "spec/schema/load.h"
#include "spec/sweep/sweep.h"
#include "spec/tree/node.h"
#include "spec/tree/report.h"

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
