// Numbers: std::to_chars gives the shortest digits that read back as the same double; what remains
// is ECMAScript's rule for where the point goes.
#include "spec/text/canonical_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace pergpu {
namespace {

/// The next code point of valid UTF-8 at `at`, which moves past it.
char32_t next_code_point(std::string_view text, std::size_t& at) {
  unsigned char c = static_cast<unsigned char>(text[at++]);
  if (c < 0x80) return c;
  int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
  char32_t value = c & (0x3FU >> more);
  for (; more > 0 && at < text.size(); --more)
    value = (value << 6) | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  return value;
}

/// Orders code points as their UTF-16 units order: U+E000…U+FFFF come after the surrogates that
/// spell U+10000 and beyond.
char32_t utf16_rank(char32_t c) {
  if (c >= 0x10000) return 0xD800 + (c - 0x10000);
  if (c >= 0xE000) return c + 0x200000;
  return c;
}

void append(std::string& to, const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::object: {
      std::vector<const nlohmann::json::object_t::value_type*> members;
      for (const auto& member : value.get_ref<const nlohmann::json::object_t&>())
        members.push_back(&member);
      std::sort(members.begin(), members.end(),
                [](const auto* a, const auto* b) { return utf16_less(a->first, b->first); });
      to += '{';
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (i > 0) to += ',';
        append_json_string(to, members[i]->first);
        to += ':';
        append(to, members[i]->second);
      }
      to += '}';
      return;
    }
    case nlohmann::json::value_t::array:
      to += '[';
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) to += ',';
        append(to, value[i]);
      }
      to += ']';
      return;
    case nlohmann::json::value_t::string:
      append_json_string(to, value.get_ref<const std::string&>());
      return;
    case nlohmann::json::value_t::boolean:
      to += value.get<bool>() ? "true" : "false";
      return;
    case nlohmann::json::value_t::number_integer:
    case nlohmann::json::value_t::number_unsigned:
    case nlohmann::json::value_t::number_float:
      to += canonical_number(value.get<double>());
      return;
    case nlohmann::json::value_t::null:
    case nlohmann::json::value_t::binary:
    case nlohmann::json::value_t::discarded:
      to += "null";
      return;
  }
}

}  // namespace

std::string canonical_json(const nlohmann::json& value) {
  std::string out;
  append(out, value);
  return out;
}

Result<std::string> canonicalise(std::string_view text) {
  nlohmann::json value = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (value.is_discarded())
    return Error{ErrorKind::Invalid, 0, "not valid JSON: " + std::string(text.substr(0, 80))};
  return canonical_json(value);
}

std::string canonical_number(double value) {
  if (value == 0) return "0";  // -0 too
  char buffer[32];
  auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value),
                                   std::chars_format::scientific);
  std::string_view scientific(buffer, static_cast<std::size_t>(end - buffer));
  std::size_t e = scientific.find('e');
  std::string digits(1, scientific[0]);
  if (e > 1) digits += scientific.substr(2, e - 2);
  int exponent = 0;
  std::string_view exponent_text = scientific.substr(e + 1);
  if (exponent_text[0] == '+') exponent_text.remove_prefix(1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);

  std::string out = value < 0 ? "-" : "";
  int count = static_cast<int>(digits.size());
  int point = exponent + 1;  // value = 0.digits × 10^point
  auto zeros = [](int n) { return std::string(static_cast<std::size_t>(n), '0'); };
  if (count <= point && point <= 21) return out + digits + zeros(point - count);
  if (0 < point && point <= 21) {
    std::size_t before = static_cast<std::size_t>(point);
    return out + digits.substr(0, before) + "." + digits.substr(before);
  }
  if (-6 < point && point <= 0) return out + "0." + zeros(-point) + digits;
  out += digits[0];
  if (count > 1) out += "." + digits.substr(1);
  out += exponent < 0 ? "e-" : "e+";
  return out + std::to_string(std::abs(exponent));
}

std::string float_text(double value) {
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  std::string out = canonical_number(value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

void append_json_string(std::string& to, std::string_view text) {
  to += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        to += "\\\"";
        break;
      case '\\':
        to += "\\\\";
        break;
      case '\b':
        to += "\\b";
        break;
      case '\f':
        to += "\\f";
        break;
      case '\n':
        to += "\\n";
        break;
      case '\r':
        to += "\\r";
        break;
      case '\t':
        to += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          constexpr std::string_view kHex = "0123456789abcdef";
          to += "\\u00";
          to += kHex[static_cast<unsigned char>(c) >> 4];
          to += kHex[static_cast<unsigned char>(c) & 15];
        } else {
          to += c;
        }
    }
  }
  to += '"';
}

bool utf16_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    char32_t x = utf16_rank(next_code_point(a, i));
    char32_t y = utf16_rank(next_code_point(b, j));
    if (x != y) return x < y;
  }
  return j < b.size();
}

}  // namespace pergpu
