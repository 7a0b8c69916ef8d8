// A quote opens where no word ends, and closes where none goes on.
#include "job/quoted.h"

#include <array>

namespace pergpu {
namespace {

struct Quote {
  std::string_view opening;
  std::string_view closing;
};
constexpr std::array<Quote, 6> kQuotes = {
    {{"'", "'"}, {"\"", "\""}, {"`", "`"}, {"‘", "’"}, {"“", "”"}, {"«", "»"}}};

bool is_of_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Where the quoted part that begins at `at` ends; npos: none begins there.  Not "can't".
std::size_t end_of_quote(std::string_view text, std::size_t at) {
  if (at > 0 && is_of_word(text[at - 1])) return text.npos;
  for (const Quote& quote : kQuotes) {
    if (!text.substr(at).starts_with(quote.opening)) continue;
    for (std::size_t end = at + quote.opening.size(); end < text.size(); ++end) {
      if (text[end] == '\\') {  // Python and Rust quote a quote so, if at all
        ++end;
        continue;
      }
      if (!text.substr(end).starts_with(quote.closing)) continue;
      const std::size_t after = end + quote.closing.size();
      if (after == text.size() || !is_of_word(text[after])) return after;
    }
    return text.size();  // a long line is cut
  }
  return text.npos;
}

}  // namespace

std::string replace_quoted(std::string_view line, std::string_view value) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    if (const std::size_t end = end_of_quote(line, at); end != line.npos) {
      out += value;
      at = end;
    } else {
      out += line[at++];
    }
  }
  return out;
}

}  // namespace pergpu
