// `show`: one job whole.  The JSON of op `show` is a JobSnapshot and more (argv, cwd, attempts …);
// what this version does not know of it is printed by its name.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "view/text/style.h"

namespace pergpu::view {

std::string show_text(const nlohmann::json& whole, std::int64_t now_ns, const Style& style);

/// argv as one would type it: words with special characters in quotes.
std::string command_text(const nlohmann::json& argv);

}  // namespace pergpu::view
