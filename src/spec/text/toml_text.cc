// Basic strings only: every text can be written as one.
#include "spec/text/toml_text.h"

#include <fmt/core.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "spec/text/canonical_json.h"

namespace pergpu {

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_strings(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out += ", ";
    out += toml_string(texts[i]);
  }
  return out + "]";
}

std::string toml_key(std::string_view key) {
  constexpr std::string_view kBare =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  bool bare = !key.empty() && key.find_first_not_of(kBare) == std::string_view::npos;
  return bare ? std::string(key) : toml_string(key);
}

Result<std::string> toml_value(const nlohmann::json& value) {
  if (value.is_null()) return std::string("{ null = true }");
  if (value.is_string()) return toml_string(value.get_ref<const std::string&>());
  if (value.is_number_float()) return float_text(value.get<double>());
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return Error{ErrorKind::Invalid, 0,
                 fmt::format("a parameter is {}, but TOML integers have 64 bits", value.dump())};
  if (!value.is_structured()) return value.dump();
  std::string out = value.is_array() ? "[" : "{";
  bool first = true;
  for (auto it = value.begin(); it != value.end(); ++it) {
    out += first ? (value.is_array() ? "" : " ") : ", ";
    first = false;
    if (value.is_object()) out += toml_key(it.key()) + " = ";
    Result<std::string> item = toml_value(*it);
    if (!item) return item;
    out += *item;
  }
  return out + (value.is_array() ? "]" : first ? "}" : " }");
}

}  // namespace pergpu
