// A statement ends at the first newline outside of brackets and multi-line strings.  A statement
// that never closes takes the rest of the text; its reader decides what to skip.
#include "spec/readers/toml_statements.h"

namespace pergpu {
namespace {

/// Past the string that starts at `at`; npos when a multi-line string never ends.  An unclosed
/// string of one line ends at the newline.
std::size_t skip_string(std::string_view text, std::size_t at) {
  char quote = text[at];
  bool multi = text.substr(at, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''");
  if (multi) {
    std::string_view fence = text.substr(at, 3);
    for (std::size_t i = at + 3; i < text.size(); ++i) {
      if (text[i] == '\\' && quote == '"') {
        ++i;
      } else if (text.substr(i, 3) == fence) {
        i += 3;
        while (i < text.size() && text[i] == quote) ++i;  // up to two quotes may end the content
        return i;
      }
    }
    return std::string_view::npos;
  }
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\n') return i;
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == quote) {
      return i + 1;
    }
  }
  return text.size();
}

}  // namespace

std::vector<TomlStatement> toml_statements(std::string_view text) {
  std::vector<TomlStatement> all;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t begin = at;
    std::size_t first = text.find_first_not_of(" \t\r\n", at);
    if (first == std::string_view::npos) break;
    std::size_t newline = text.rfind('\n', first);
    if (newline != std::string_view::npos && newline >= begin) begin = newline + 1;
    TomlStatement s{.begin = begin, .is_header = text[first] == '['};
    bool comment_only = text[first] == '#';
    int depth = 0;
    std::size_t i = first;
    while (i < text.size()) {
      char c = text[i];
      if (c == '#') {
        i = text.find('\n', i);
        if (i == std::string_view::npos) i = text.size();
        continue;
      }
      if (c == '"' || c == '\'') {
        i = skip_string(text, i);
        if (i == std::string_view::npos) {
          i = text.size();
          s.closed = false;
        }
        continue;
      }
      if (c == '[' || c == '{') ++depth;
      if ((c == ']' || c == '}') && depth > 0) --depth;
      ++i;
      // A header never spans lines, even when its bracket is not closed.
      if (c == '\n' && (depth == 0 || s.is_header)) break;
    }
    if (depth > 0 && !s.is_header) s.closed = false;
    s.end = i;
    at = i;
    if (!comment_only) all.push_back(s);
  }
  return all;
}

}  // namespace pergpu
