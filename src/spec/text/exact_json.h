// Parameters as JSON values, without losing digits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace pergpu {

/// What `text` says; an integer that 64 bits do not hold is the string of its digits.  Null when it
/// is not JSON.
nlohmann::json exact_json(std::string_view text);

}  // namespace pergpu
