// One pass: a quote opens where no word ends, and closes where none goes on.
#include "job/quoted.h"

namespace pergpu {
namespace {

bool is_of_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

}  // namespace

std::string without_quoted(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    const bool is_quote = c == '\'' || c == '"' || c == '`';
    if (!is_quote || (at > 0 && is_of_word(line[at - 1]))) {
      out += c;
      continue;
    }
    // Python and Rust quote a quote with a backslash, if at all.
    std::size_t end = at + 1;
    while (end < line.size() &&
           (line[end] != c || (end + 1 < line.size() && is_of_word(line[end + 1])))) {
      end += line[end] == '\\' ? 2 : 1;
    }
    at = end;
  }
  return out;
}

}  // namespace pergpu
