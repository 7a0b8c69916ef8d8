// Values as TOML text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu {

std::string toml_string(std::string_view text);
std::string toml_strings(const std::vector<std::string>& texts);
/// Quoted when it must be.
std::string toml_key(std::string_view key);
/// One line; Invalid for an integer of more than 64 bits.  Null is { null = true }.
Result<std::string> toml_value(const nlohmann::json& value);

}  // namespace pergpu
