// Placeholders are passed over: their braces mean something in ${NAME} only.
#include "spec/templates/path_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "job/redact.h"
#include "spec/templates/placeholders.h"
#include "spec/text/source_text.h"

namespace pergpu {
namespace {

std::size_t end_of_name(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_identifier(text.substr(from, end + 1 - from))) ++end;
  return end;
}

/// What is wrong with such a part ("$(", "~otto").
std::string why_unclear(std::string_view part) {
  if (part.starts_with('~')) {
    return fmt::format(
        "only ~/ is expanded, to your home folder; write ./{} for a name that begins with ~", part);
  }
  return fmt::format("`{}` isn't a variable: write $NAME or ${{NAME}}, and $$ for a literal `$`",
                     part);
}

using IsParameter = std::function<bool(std::string_view)>;

/// Takes what begins with the `$` at `*at`, and moves behind it.
Result<std::string> dollar(std::string_view text, std::size_t* at, const IsParameter& is_parameter,
                           Emptiness empty) {
  const std::size_t next = *at + 1;
  if (next < text.size() && (text[next] == '$' || text[next] == '~')) {
    *at = next + 1;
    return std::string(1, text[next]);
  }
  const bool is_braced = next < text.size() && text[next] == '{';
  const std::size_t begin = next + (is_braced ? 1 : 0);
  const std::size_t end = end_of_name(text, begin);
  const bool is_closed = !is_braced || (end < text.size() && text[end] == '}');
  if (end == begin || !is_closed) return invalid(why_unclear(text.substr(*at, 2)));
  *at = end + (is_braced ? 1 : 0);
  const std::string_view name = text.substr(begin, end - begin);
  if (is_braced && is_parameter && is_parameter(name)) {
    return invalid(
        fmt::format("${{{0}}} could be the variable or the parameter: write ${0} for the variable, "
                    "{{{0}}} for the parameter, or $${{{0}}} for a `$` before the parameter",
                    name));
  }
  return variable_of_shell(name, empty);
}

/// A value in a text with placeholders: its braces are braces.
std::string as_text(const std::string& value, bool is_template) {
  std::string out;
  for (const char c : value) {
    if (is_template && (c == '{' || c == '}')) out += c;
    out += c;
  }
  return out;
}

Result<std::string> expand(std::string_view text, bool is_template, const IsParameter& is_parameter,
                           Emptiness empty) {
  std::string out;
  std::size_t at = 0;
  if (text.starts_with('~')) {
    at = std::min(text.find('/'), text.size());
    if (at > 1) return invalid(why_unclear(text.substr(0, at)));
    Result<std::string> home = variable_of_shell("HOME");
    if (!home) return home;
    out = as_text(*home, is_template);
  }
  while (at < text.size()) {
    if (text[at] != '$') {
      out += text[at++];
      continue;
    }
    Result<std::string> value = dollar(text, &at, is_parameter, empty);
    if (!value) return value;
    out += as_text(*value, is_template);
  }
  return out;
}

}  // namespace

Result<std::string> variable_of_shell(std::string_view name, Emptiness empty) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) {
    return invalid(fmt::format(
        "${0} is not set in this shell; set it, or write $${0} for the literal text", name));
  }
  if (*value == '\0' && empty == Emptiness::Refused) {
    return invalid(fmt::format(
        "${0} is empty in this shell; set it, or write $${0} for the literal text", name));
  }
  if (is_secret_name(name)) {
    return invalid(
        fmt::format("${} looks like a secret, and this value would be stored with the sweep; let "
                    "the job read it from its environment",
                    name));
  }
  if (find_invalid_utf8(value) != std::string_view::npos) {
    return invalid(fmt::format("the value of ${} is not valid UTF-8", name));
  }
  return std::string(value);
}

Result<std::string> expand_path(std::string_view text) {
  return expand(text, false, {}, Emptiness::Refused);
}

Result<std::string> expand_template(std::string_view text, const IsParameter& is_parameter,
                                    Emptiness empty) {
  return expand(text, true, is_parameter, empty);
}

std::string without_variables(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool begins = c == '$' || (c == '~' && out.empty());
    if (begins) out += '$';
    out += c;
  }
  return out;
}

bool uses_variable(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at)) {
    const bool is_braced = at + 1 < text.size() && text[at + 1] == '{';
    const std::size_t begin = at + (is_braced ? 2 : 1);
    const std::size_t end = end_of_name(text, std::min(begin, text.size()));
    if (end > begin && text.substr(begin, end - begin) == name) return true;
    at = std::max(end, at + 2);  // `$$` is no beginning
  }
  return false;
}

std::string with_bytes_escaped(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x80 ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return out;
}

std::string why_no_single_path(std::string_view text) {
  if (text.find_first_of("*?[") == std::string_view::npos) return "";
  return "must be the path of one file or folder, not a pattern (`*`, `?`, `[`); write the full "
         "path";
}

Result<std::string> expand_single_path(std::string_view text) {
  if (std::string why = why_no_single_path(text); !why.empty()) return invalid(std::move(why));
  return expand_path(text);
}

}  // namespace pergpu
