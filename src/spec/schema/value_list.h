// A list of values in [grid] or [zip]: written out, {glob = "data/*.bin"} or
// {from = 1e-4, to = 1e-2, n = 5, scale = "log"}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/schema/known_key.h"
#include "spec/tree/node.h"
#include "spec/tree/report.h"

namespace pergpu {

/// Of the two tables that stand for a list.
std::vector<KnownKey> glob_keys();
std::vector<KnownKey> range_keys();

/// The values in order; reports what is wrong, an empty list included.  Globs are relative to
/// `folder`.
std::optional<std::vector<Node>> value_list(Report& report, const std::string& folder,
                                            std::string_view name, const Node& node);

}  // namespace pergpu
