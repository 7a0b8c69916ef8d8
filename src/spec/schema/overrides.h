// -p NAME=VALUE: what the command line says of a parameter replaces what the file says.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

/// Changes the tree.  Rows of `runs_from` are not in it: their reader leaves out overridden names.
/// Returns the names that nothing in the tree has: one of `runs_from` must have them.
std::vector<Key> apply_overrides(Report& report, Node& root,
                                 const std::vector<std::pair<std::string, std::string>>& overrides);

}  // namespace pergpu
