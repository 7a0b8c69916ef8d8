// Names are looked at word by word ("wandb-apiKey" is wandb, api, key), because the stems alone
// would hide half of what trains language models.
#include "job/redact.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "ascii.h"

namespace pergpu {
namespace {

constexpr std::array<std::string_view, 15> kSecretWords = {
    "token",  "pass",    "pwd",  "pat",    "apikey",  "cred",     "creds",        "key",
    "cookie", "cookies", "auth", "bearer", "sshpass", "apitoken", "authorization"};
/// Wherever they stand in a name.
constexpr std::array<std::string_view, 5> kSecretStems = {"password", "passphrase", "passwd",
                                                          "secret", "credential"};

/// Of a name: "--db.api-key", "+auth.token", "X-Api-Key", "HF_TOKEN".
bool is_of_name(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == '+' || c == '/';
}
/// Where a word of a shell's text, or of a header, ends.
bool is_gap(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\'' || c == '"' || c == '`' ||
         c == ';' || c == '&' || c == '|' || c == '(' || c == ')' || c == '<' || c == '>' ||
         c == ',' || c == '{' || c == '}' || c == '[' || c == ']';
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

/// "scheme://user:password@host": the begin and the end of what stands before the @.
struct UserPart {
  std::size_t begin = 0;
  std::size_t end = 0;
};
UserPart user_part(std::string_view text, std::size_t from) {
  const std::size_t scheme = text.find("://", from);
  if (scheme == text.npos) return {text.npos, text.npos};
  const std::size_t begin = scheme + 3;
  std::size_t end = begin;
  std::size_t at = text.npos;
  for (; end < text.size() && text[end] != '/' && text[end] != '?' && text[end] != '#' &&
         !is_gap(text[end]);
       ++end) {
    if (text[end] == '@') at = end;  // a password may hold one, too: the last counts
  }
  return at == text.npos ? UserPart{end, end} : UserPart{begin, at};
}

std::string without_users(std::string_view text) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t from = 0;;) {
    const UserPart user = user_part(text, from);
    if (user.begin == text.npos) break;
    if (user.end > user.begin) {
      out.append(text.substr(done, user.begin - done)).append(kRedacted);
      done = user.end;
    }
    from = user.end;
  }
  return out.append(text.substr(done));
}

/// Past the quotes that begin at `at`.
std::size_t skip_quotes(std::string_view text, std::size_t at) {
  const std::size_t end = text.find(text[at], at + 1);
  return end == text.npos ? text.size() : end + 1;
}

bool is_quote(char c) { return c == '"' || c == '\''; }

/// Past the value at `at`: what quotes hold, or up to the next gap.
std::size_t skip_value(std::string_view text, std::size_t at) {
  if (at < text.size() && is_quote(text[at])) return skip_quotes(text, at);
  while (at < text.size() && !is_gap(text[at])) ++at;
  return at;
}

/// The same behind NAME=, where a shell reads on over commas, brackets and quotes: ab,"c d"{e}.
std::size_t skip_assigned(std::string_view text, std::size_t at) {
  constexpr std::string_view kEnds = " \t\n\r`;&|()<>";
  while (at < text.size() && kEnds.find(text[at]) == kEnds.npos) {
    at = is_quote(text[at]) ? skip_quotes(text, at) : at + 1;
  }
  return at;
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  return at;
}

/// Behind a secret's name that ends at `at`: where its value begins, npos: there is none.
std::size_t value_behind(std::string_view text, std::string_view name, std::size_t at) {
  if (at >= text.size()) return text.npos;
  if (text[at] == '=') return at + 1;
  if (text[at] == '"' || text[at] == '\'') return value_behind(text, "", at + 1);  // "key": value
  if (text[at] == ':') return skip_blanks(text, at + 1);
  if (!is_option(name) || (text[at] != ' ' && text[at] != '\t')) return text.npos;
  const std::size_t value = skip_blanks(text, at);
  return value < text.size() && text[value] != '-' ? value : text.npos;
}

/// A header's value is two words: "Bearer abc".
std::size_t skip_scheme(std::string_view text, std::size_t at) {
  const std::size_t end = skip_value(text, at);
  const std::string word = lower(text.substr(at, end - at));
  return word == "bearer" || word == "basic" || word == "token" ? skip_blanks(text, end) : at;
}

}  // namespace

bool is_secret_name(std::string_view name) {
  const std::string small = lower(name);
  for (const std::string_view stem : kSecretStems) {
    if (small.find(stem) != small.npos) return true;
  }
  const auto is_secret = [&](std::size_t begin, std::size_t end) {
    const std::string_view word = std::string_view(small).substr(begin, end - begin);
    if (word == "key" && word.size() == name.size()) return false;  // sorted(x, key=len)
    return std::find(kSecretWords.begin(), kSecretWords.end(), word) != kSecretWords.end();
  };
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    const bool ends = i == name.size() || !is_letter(name[i]);
    const bool turns = !ends && i > 0 && is_upper(name[i]) && is_lower(name[i - 1]);
    if (!ends && !turns) continue;
    if (is_secret(begin, i)) return true;
    begin = ends ? i + 1 : i;
  }
  return false;
}

std::string redact_text(std::string_view whole) {
  const std::string text = without_users(whole);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_of_name(text[end])) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string_view name = std::string_view(text).substr(at, end - at);
    out += name;
    const std::size_t value =
        is_secret_name(name) ? value_behind(text, name, end) : std::string::npos;
    at = end;
    if (value == std::string::npos || value >= text.size()) continue;
    const std::size_t secret = skip_scheme(text, value);
    const bool is_assigned = text[value - 1] == '=';
    const std::size_t behind = is_assigned ? skip_assigned(text, secret) : skip_value(text, secret);
    if (behind == secret) continue;
    out.append(text, end, secret - end).append(kRedacted);
    at = behind;
  }
  return out;
}

std::vector<std::string> redact_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  out.reserve(words.size());
  bool is_value = false;
  for (const std::string& word : words) {
    if (is_value && !is_option(word)) {
      out.emplace_back(kRedacted);
      is_value = false;
      continue;
    }
    // "--token=a b" is one word: its value does not end at a blank.
    const std::size_t equals = word.find('=');
    const std::string_view name = std::string_view(word).substr(0, equals);
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), is_of_name);
    const bool is_secret = is_name && is_secret_name(name);
    if (equals != std::string::npos && is_secret) {
      out.push_back(std::string(name) + "=" + std::string(kRedacted));
    } else {
      out.push_back(redact_text(word));
    }
    is_value = equals == std::string::npos && is_secret && is_option(word);
  }
  return out;
}

}  // namespace pergpu
