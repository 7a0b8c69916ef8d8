// The traps, each with what to write instead: yes/no/on/off/y/n (booleans in YAML 1.1), 012 (ten in
// 1.1, twelve in 1.2), 0o12 (a string in 1.1), 1_000 (a number in 1.1 only), 1:30 (ninety in 1.1).
// HH:MM:SS stays a string here although 1.1 makes a number of it: it is how durations are written,
// and its text is used as it stands.
#include "spec/readers/yaml_scalar.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "spec/text/number_text.h"

namespace pergpu {
namespace {

bool all_of(std::string_view text, std::string_view set) {
  return !text.empty() && text.find_first_not_of(set) == std::string_view::npos;
}

constexpr std::string_view kDigits = "0123456789";

/// A float of YAML 1.2: [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool looks_like_float(std::string_view text) {
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  std::size_t digits = 0;
  while (at < text.size() && kDigits.find(text[at]) != std::string_view::npos) ++at, ++digits;
  if (at < text.size() && text[at] == '.') {
    ++at;
    while (at < text.size() && kDigits.find(text[at]) != std::string_view::npos) ++at, ++digits;
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    return all_of(text.substr(at), kDigits);
  }
  return at == text.size();
}

std::string old_boolean(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kTrue = {"yes", "on", "y"};
  static constexpr std::array<std::string_view, 6> kFalse = {"no", "off", "n"};
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  auto is_in = [&](const auto& list) {
    return std::find(list.begin(), list.end(), lower) != list.end();
  };
  if (lower.empty()) return {};
  if (is_in(kTrue)) return "true";
  if (is_in(kFalse)) return "false";
  return {};
}

}  // namespace

YamlScalar type_of_plain(std::string_view text) {
  YamlScalar out;
  if (text == "true" || text == "True" || text == "TRUE" || text == "false" || text == "False" ||
      text == "FALSE") {
    out.kind = Node::Kind::Bool;
    out.integer = text[0] == 't' || text[0] == 'T' ? 1 : 0;
    return out;
  }
  if (std::string meant = old_boolean(text); !meant.empty()) {
    out.trap = fmt::format(
        "`{0}` is a boolean in some YAML readers and a string in others; write {1} or \"{0}\"",
        text, meant);
    out.kind = Node::Kind::Bool;  // one mistake, not also a wrong type
    out.integer = meant == "true" ? 1 : 0;
    return out;
  }
  std::string_view digits = text;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (all_of(digits, kDigits)) {
    out.kind = Node::Kind::Int;
    out.integer = to_integer(text);
    out.number = to_double(text);
    if (digits.size() > 1 && digits[0] == '0') {
      std::string_view rest = digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
      out.trap = fmt::format(
          "`{}` is octal in some YAML readers and decimal in others; write {} or \"{}\"", text,
          rest.empty() ? "0" : rest, text);
    }
    return out;
  }
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'o' || digits[1] == 'b')) {
    if (all_of(digits.substr(2), "01234567_"))
      out.trap = fmt::format(
          "`{0}` is a number in some YAML readers and a string in others; write it in decimal or "
          "as \"{0}\"",
          text);
    if (!out.trap.empty()) out.kind = Node::Kind::Int;
    return out;
  }
  if (digits.size() > 2 && digits[0] == '0' && digits[1] == 'x' &&
      all_of(digits.substr(2), "0123456789abcdefABCDEF")) {
    std::string_view hex = digits.substr(2);
    out.kind = Node::Kind::Int;
    auto [end, code] = std::from_chars(hex.data(), hex.data() + hex.size(), out.integer, 16);
    if (code == std::errc::result_out_of_range)
      out.trap = fmt::format("`{}` has more than 64 bits; write it in decimal", text);
    if (text[0] == '-') out.integer = -out.integer;
    out.number = static_cast<double>(out.integer);
    return out;
  }
  if (looks_like_float(text)) {
    out.kind = Node::Kind::Float;
    out.number = to_double(text);
    return out;
  }
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF" || text == ".nan" ||
      text == ".NaN" || text == ".NAN") {
    out.trap = fmt::format("`{0}` can't be written as JSON; use a string: \"{0}\"", text);
    return out;
  }
  if (all_of(digits, "0123456789_") && digits[0] != '_') {
    std::string without(text);
    without.erase(std::remove(without.begin(), without.end(), '_'), without.end());
    out.trap = fmt::format(
        "`{0}` is a number in some YAML readers and a string in others; write {1} or \"{0}\"", text,
        without);
    out.kind = Node::Kind::Int;
    return out;
  }
  if (std::string without(text); text.find('_') != std::string_view::npos && digits[0] != '_') {
    without.erase(std::remove(without.begin(), without.end(), '_'), without.end());
    if (looks_like_float(without)) {
      out.trap = fmt::format(
          "`{0}` is a number in some YAML readers and a string in others; write {1} or \"{0}\"",
          text, without);
      out.kind = Node::Kind::Float;
      return out;
    }
  }
  // mm:ss; hh:mm:ss is a duration.
  if (std::count(text.begin(), text.end(), ':') == 1 && all_of(digits, "0123456789:") &&
      digits[0] != ':' && digits.back() != ':') {
    out.trap = fmt::format(
        "`{0}` is a base-60 number in some YAML readers and a string in others; write \"{0}\"",
        text);
    return out;
  }
  return out;
}

}  // namespace pergpu
