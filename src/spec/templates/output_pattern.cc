// fnmatch() takes what it doesn't know as it is: a job would fail in the night over a file that no
// program writes.
#include "spec/templates/output_pattern.h"

#include <fmt/core.h>

#include <algorithm>

#include "spec/templates/placeholders.h"

namespace pergpu {
namespace {

constexpr char kPlaceholderMark = '\x01';  // stands for one, which may be any text

/// `{a,b}` or `{1..3}` at the beginning of `text`; "": none.
std::string_view alternatives(std::string_view text) {
  const std::size_t end = text.find('}');
  if (end == std::string_view::npos) return {};
  const std::string_view inner = text.substr(1, end - 1);
  const bool is_one =
      inner.find(',') != std::string_view::npos || inner.find("..") != std::string_view::npos;
  return is_one && inner.find('/') == std::string_view::npos ? text.substr(0, end + 1)
                                                             : std::string_view();
}

std::string_view braces_of(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') continue;
    if (text.substr(i, 2) == "{{") {
      ++i;
      continue;
    }
    // Within braces of a shell there may be a placeholder: {{seed},b}.
    if (std::string_view found = alternatives(text.substr(i)); !found.empty()) return found;
  }
  return {};
}

/// The text with a sign for each placeholder.
std::string marked(std::string_view text) {
  std::string out;
  visit_template(text, [&](const TemplatePart& part) {
    if (part.kind == TemplatePart::Kind::Text) {
      out += part.text;
    } else {
      out += kPlaceholderMark;
    }
  });
  return out;
}

/// Behind the `[…]` that begins at `at` of one name, or npos.
std::size_t end_of_set(std::string_view name, std::size_t at) {
  std::size_t i = at + 1;
  if (i < name.size() && (name[i] == '!' || name[i] == '^')) ++i;
  if (i < name.size() && name[i] == ']') ++i;
  while (i < name.size() && name[i] != ']') {
    const char kind = i + 1 < name.size() ? name[i + 1] : ' ';
    if (name[i] == '[' && (kind == ':' || kind == '.' || kind == '=')) {
      const std::size_t end = name.find(std::string{kind, ']'}, i + 2);
      if (end == std::string_view::npos) return end;
      i = end + 2;
    } else {
      i += name[i] == '\\' ? 2 : 1;
    }
  }
  return i < name.size() ? i + 1 : std::string_view::npos;
}

std::string why_no_name(std::string_view name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '\\') {
      ++i;
      continue;
    }
    const bool is_extended = i + 1 < name.size() && name[i + 1] == '(' &&
                             std::string_view("+@!?*").find(name[i]) != std::string_view::npos;
    if (is_extended) {
      return fmt::format(
          "`{0}(` isn't a supported pattern; use `*`, `?` or `[ab]`, list each file separately, or "
          "write [{0}]( for the name itself",
          name[i]);
    }
    if (name[i] != '[') continue;
    const std::size_t end = end_of_set(name, i);
    if (end == std::string_view::npos) return "unclosed `[`; write \\[ for a literal bracket";
    i = end - 1;
  }
  if (name.size() > kMostNameBytes && name.find_first_of("*?[\\") == std::string_view::npos) {
    return fmt::format("it contains a name of {} bytes; file systems allow at most {}", name.size(),
                       kMostNameBytes);
  }
  return {};
}

}  // namespace

std::string why_no_output(std::string_view text) {
  if (const std::string_view braces = braces_of(text); !braces.empty()) {
    return fmt::format(
        "{} isn't expanded here: list each file separately (all must exist), or use a pattern of "
        "`*`, `?` and `[ab]` (one match is enough); write {{{{ and }}}} for literal braces",
        braces);
  }
  const std::string names = marked(text);
  for (std::size_t from = 0; from < names.size();) {
    const std::size_t slash = std::min(names.find('/', from), names.size());
    if (std::string why = why_no_name(std::string_view(names).substr(from, slash - from));
        !why.empty()) {
      return why;
    }
    from = slash + 1;
  }
  return {};
}

}  // namespace pergpu
