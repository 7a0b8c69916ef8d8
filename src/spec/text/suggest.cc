// Near enough: at most a third of the letters differ (one for names of up to three letters).  Where
// no name is, a single one that begins with what was typed was meant.
#include "spec/text/suggest.h"

#include <fmt/core.h>

#include <algorithm>

namespace pergpu {
namespace {

std::string folded(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return out;
}

std::string letters_of(std::string_view name) {
  std::string out = folded(name);
  std::erase(out, '_');
  return out;
}

/// The only one of `known` that goes on after `name`: `gpu_memory` for `gpu_mem`.
std::string_view completed(std::string_view name, const std::vector<std::string_view>& known) {
  constexpr std::size_t kFewestLetters = 3;
  const std::string begin = letters_of(name);
  std::string_view found;
  if (begin.size() < kFewestLetters) return found;
  for (std::string_view candidate : known) {
    if (candidate == found || !letters_of(candidate).starts_with(begin)) continue;
    if (!found.empty()) return {};
    found = candidate;
  }
  return found;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

std::string_view nearest(std::string_view name, const std::vector<std::string_view>& known) {
  if (name.size() > 100) return {};
  std::string wanted = folded(name);
  std::size_t best = std::max<std::size_t>(1, name.size() / 3) + 1;
  std::string_view found;
  for (std::string_view candidate : known) {
    if (candidate.size() > 100) continue;
    std::size_t d = edit_distance(wanted, folded(candidate));
    if (d < best && d < std::max(name.size(), candidate.size())) {
      best = d;
      found = candidate;
    }
  }
  return found.empty() ? completed(name, known) : found;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known) {
  std::string_view guess = nearest(name, known);
  return guess.empty() ? std::string() : fmt::format("; did you mean `{}`?", guess);
}

std::string one_of(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += fmt::format("`{}`", names[i]);
  }
  return out;
}

}  // namespace pergpu
