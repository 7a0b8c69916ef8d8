// A reason becomes words.  What stands for a value (a quoted part, a number, a path, the last word)
// becomes "#", so that "bad lr 0.1" and "bad lr high" are the same mistake.
#include <algorithm>
#include <array>

#include "ascii.h"
#include "job/failures.h"
#include "job/quoted.h"
#include "job/traceback.h"

namespace pergpu {
namespace {

constexpr std::string_view kValue = "#";

bool is_word(char c) { return is_name_char(c) || static_cast<unsigned char>(c) >= 0x80; }

// Their messages name what is missing, in the program's own terms.
constexpr std::array<std::string_view, 10> kNamesMissing = {
    "AttributeError",  "FileNotFoundError",   "ImportError", "IsADirectoryError",
    "KeyError",        "ModuleNotFoundError", "NameError",   "NotADirectoryError",
    "PermissionError", "UnboundLocalError"};

bool names_what_is_missing(std::string_view name) {
  return std::find(kNamesMissing.begin(), kNamesMissing.end(), name) != kNamesMissing.end();
}

/// "(see" -> "see", "lr:" -> "lr"
std::string_view bare(std::string_view token) {
  constexpr std::string_view kMarks = "()[]{}<>,.;:!?=*|";
  const std::size_t begin = token.find_first_not_of(kMarks);
  if (begin == token.npos) return {};
  return token.substr(begin, token.find_last_not_of(kMarks) + 1 - begin);
}

/// A number, a path, a file's name, an address, or what was quoted.
bool is_value(std::string_view token) {
  return std::any_of(token.begin(), token.end(), is_digit) ||
         token.find_first_of("/\\.#=@") != token.npos;
}

/// Of "exit code 1: KeyError: 'x'" where "KeyError" begins; the size: there is no exception.
std::size_t begin_of_exception(std::string_view reason) {
  for (std::size_t at = 0; at < reason.size();) {
    const std::string_view name = exception_name(reason.substr(at));
    const bool is_one =
        name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("ExceptionGroup");
    if (is_one && name != "Error") return at;
    const std::size_t colon = reason.find(": ", at);
    if (colon == reason.npos) break;
    at = colon + 2;
  }
  return reason.size();
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  const std::string plain = replace_quoted(text, kValue);
  std::string_view rest = plain;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view token = bare(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (token.empty()) continue;
    const bool stands_for_one = is_value(token);
    if (stands_for_one && !words.empty() && words.back() == kValue) continue;
    words.emplace_back(stands_for_one ? kValue : token);
  }
  return words;
}

std::string signature_of(OutcomeClass cls, std::string_view reason) {
  std::string out(to_string(cls));
  const std::size_t at = begin_of_exception(reason);
  const std::string_view name = exception_name(reason.substr(at));
  if (names_what_is_missing(name)) return out + " " + std::string(name);
  std::vector<std::string> words =
      words_of(reason.substr(std::min(at + name.size(), reason.size())));
  if (name.empty()) words = words_of(reason);
  if (words.size() > 1) {  // "unknown optimizer sgdd"
    words.back() = kValue;
    if (words[words.size() - 2] == kValue) words.pop_back();
  }
  if (!name.empty()) out += " " + std::string(name);
  for (const std::string& word : words) out += " " + word;
  return out;
}

}  // namespace

std::string signature_of(const Outcome& outcome) {
  return signature_of(outcome.cls, outcome.mistake.empty() ? outcome.reason : outcome.mistake);
}

std::string mistake_without(const std::vector<std::string>& values, const Outcome& outcome) {
  if (outcome.cls != OutcomeClass::UserError) return {};
  std::string text = outcome.reason;
  for (const std::string& value : values) {
    if (value.empty()) continue;
    for (std::size_t at = text.find(value); at != text.npos; at = text.find(value, at)) {
      const std::size_t end = at + value.size();
      const bool is_whole = (at == 0 || !is_word(text[at - 1]) || !is_word(value.front())) &&
                            (end == text.size() || !is_word(text[end]) || !is_word(value.back()));
      if (is_whole) text.replace(at, value.size(), kValue);
      at += is_whole ? kValue.size() : 1;
    }
  }
  return signature_of(outcome.cls, text) == signature_of(outcome.cls, outcome.reason)
             ? std::string()
             : text;
}

}  // namespace pergpu
