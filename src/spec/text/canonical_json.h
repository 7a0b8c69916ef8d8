// Canonical JSON (RFC 8785): no spaces, members sorted by the UTF-16 units of their names, numbers
// in the shortest form of ECMAScript, only the escapes that must be.  Equal values have equal
// bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "result.h"

namespace pergpu {

std::string canonical_json(const nlohmann::json& value);
/// Invalid when `text` is not JSON.
Result<std::string> canonicalise(std::string_view text);

/// REQUIRES: finite.  "0.0001", "1e+30", "-0" is "0".
std::string canonical_number(double value);
/// The same, and so that it reads back as a float where there are integers, too: "1.0", "-0.0".
std::string float_text(double value);
/// Appends `text` (valid UTF-8) as a JSON string, quotes included.
void append_json_string(std::string& to, std::string_view text);
/// The member order: by UTF-16 code units, which differs from byte order beyond U+FFFF.
bool utf16_less(std::string_view a, std::string_view b);

}  // namespace pergpu
