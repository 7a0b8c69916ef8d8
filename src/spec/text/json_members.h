// A fast walk over the members of one JSON object, for run lines: a million of them are read at a
// submit, and a tree for each would cost more than all the rest.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "result.h"

namespace pergpu {

/// Calls `visit` with each member's name (decoded) and the text of its value, white space trimmed.
/// Invalid unless `text` is one well-formed JSON object.
Result<void> visit_members(std::string_view text,
                           const std::function<void(std::string&&, std::string_view)>& visit);

/// REQUIRES: a well-formed JSON string, quotes included.
std::string decode_json_string(std::string_view quoted);

}  // namespace pergpu
