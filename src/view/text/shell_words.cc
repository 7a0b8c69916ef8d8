// Single quotes hold everything but themselves.
#include "view/text/shell_words.h"

#include <algorithm>
#include <cctype>

namespace pergpu::view {
namespace {

bool is_plain(unsigned char c) {
  constexpr std::string_view kHarmless = "-_./=:,+@%^";
  return c >= 0x80 || std::isalnum(c) != 0 ||
         kHarmless.find(static_cast<char>(c)) != std::string_view::npos;
}

bool is_of_name(unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; }

/// The end of a placeholder at `at`; `at`: there is none.
std::size_t skip_placeholder(std::string_view word, std::size_t at) {
  if (word[at] != '{') return at;
  std::size_t end = at + 1;
  while (end < word.size() && is_of_name(static_cast<unsigned char>(word[end]))) ++end;
  const bool has_range = word.substr(at, end - at).find("..") != std::string_view::npos;
  const bool is_whole = end > at + 1 && end < word.size() && word[end] == '}' && !has_range;
  return is_whole ? end + 1 : at;
}

bool needs_no_quotes(std::string_view word) {
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t behind = skip_placeholder(word, i);
    if (behind > i) {
      i = behind;
    } else if (is_plain(static_cast<unsigned char>(word[i])) || (i > 0 && word[i] == '~') ||
               (i > 0 && word[i] == '#')) {
      ++i;
    } else {
      return false;
    }
  }
  return !word.empty();
}

}  // namespace

std::string shell_word(std::string_view word) {
  if (needs_no_quotes(word)) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    // A word like A=1 in front would set a variable.
    const bool is_assignment = out.empty() && word.find('=') != std::string::npos;
    std::string quoted = shell_word(word);
    if (is_assignment && quoted == word) quoted = "'" + word + "'";
    out += (out.empty() ? "" : " ") + quoted;
  }
  return out;
}

}  // namespace pergpu::view
