// Numbers are read as decimals and multiplied exactly where they are whole; "1.5h" goes through
// a double and is rounded to the next millisecond or byte.
#include "spec/text/units.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>

#include "ascii.h"

namespace pergpu {
namespace {

constexpr std::string_view kDurationHint = "durations need a unit: 90s, 12h, 1d2h, HH:MM:SS";
constexpr std::string_view kSizeHint = "sizes need a unit: 64GiB, 500MB";

struct Unit {
  std::string_view name;
  std::uint64_t factor;
  int rank;  // larger units come first
};

constexpr std::array<Unit, 22> kDurationUnits = {{
    {"w", 7ULL * 86'400'000, 6},
    {"week", 7ULL * 86'400'000, 6},
    {"weeks", 7ULL * 86'400'000, 6},
    {"d", 86'400'000, 5},
    {"day", 86'400'000, 5},
    {"days", 86'400'000, 5},
    {"h", 3'600'000, 4},
    {"hr", 3'600'000, 4},
    {"hrs", 3'600'000, 4},
    {"hour", 3'600'000, 4},
    {"hours", 3'600'000, 4},
    {"m", 60'000, 3},
    {"min", 60'000, 3},
    {"mins", 60'000, 3},
    {"minute", 60'000, 3},
    {"minutes", 60'000, 3},
    {"s", 1'000, 2},
    {"sec", 1'000, 2},
    {"secs", 1'000, 2},
    {"second", 1'000, 2},
    {"seconds", 1'000, 2},
    {"ms", 1, 1},
}};

constexpr std::array<Unit, 13> kSizeUnits = {{
    {"b", 1, 0},
    {"k", 1ULL << 10, 0},
    {"kib", 1ULL << 10, 0},
    {"kb", 1'000, 0},
    {"m", 1ULL << 20, 0},
    {"mib", 1ULL << 20, 0},
    {"mb", 1'000'000, 0},
    {"g", 1ULL << 30, 0},
    {"gib", 1ULL << 30, 0},
    {"gb", 1'000'000'000, 0},
    {"t", 1ULL << 40, 0},
    {"tib", 1ULL << 40, 0},
    {"tb", 1'000'000'000'000, 0},
}};

// 250 years: nanoseconds in 64 bits, which others compute with, end at 292.
constexpr double kMaxMilliseconds = 250.0 * 365 * 86'400'000;
constexpr double kMaxBytes = 9e18;

template <std::size_t N>
const Unit* find_unit(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& u : units)
    if (u.name == name) return &u;
  return nullptr;
}

Error bad(std::string_view text, std::string_view hint) {
  return Error{ErrorKind::Invalid, 0, fmt::format("\"{}\": {}", text, hint)};
}

/// A decimal without sign or exponent at `at`, which moves past it; negative when there is none.
double take_decimal(std::string_view text, std::size_t& at) {
  std::size_t end = at;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  double value = -1;
  auto [stop, code] =
      std::from_chars(text.data() + at, text.data() + end, value, std::chars_format::fixed);
  bool whole = code == std::errc() && stop == text.data() + end && end > at && is_digit(text[at]) &&
               text[end - 1] != '.';
  at = end;
  return whole ? value : -1;
}

void skip_blanks(std::string_view text, std::size_t& at) {
  while (at < text.size() && text[at] == ' ') ++at;
}

std::string_view take_letters(std::string_view text, std::size_t& at) {
  std::size_t begin = at;
  while (at < text.size() && ((text[at] | 0x20) >= 'a' && (text[at] | 0x20) <= 'z')) ++at;
  return text.substr(begin, at - begin);
}

Result<std::chrono::milliseconds> parse_clock(std::string_view text) {
  std::array<double, 3> parts = {};
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    bool last = i + 1 == parts.size();
    bool ends_well = last ? at == text.size() : at < text.size() && text[at] == ':';
    if (at == begin || at - begin > 6 || !ends_well || (i > 0 && at - begin != 2))
      return bad(text, kDurationHint);
    std::size_t from = begin;
    parts[i] = take_decimal(text, from);
    ++at;
  }
  if (parts[1] > 59 || parts[2] > 59)
    return bad(text, "minutes and seconds of HH:MM:SS must be at most 59");
  double seconds = parts[0] * 3600 + parts[1] * 60 + parts[2];
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  if (text.find(':') != std::string_view::npos) return parse_clock(text);
  double total = 0;
  int last_rank = 100;
  std::size_t at = 0;
  if (text.empty()) return bad(text, kDurationHint);
  while (at < text.size()) {
    double value = take_decimal(text, at);
    if (value < 0) return bad(text, kDurationHint);
    skip_blanks(text, at);
    std::string_view name = take_letters(text, at);
    if (at < text.size()) skip_blanks(text, at);
    if (at == text.size() && text.back() == ' ') return bad(text, "it ends with a space");
    const Unit* unit = find_unit(kDurationUnits, name);
    if (unit == nullptr && name.empty()) return bad(text, kDurationHint);
    if (unit == nullptr)
      return bad(text, fmt::format("`{}` isn't a unit of time; use ms, s, m, h, d or w", name));
    if (unit->rank >= last_rank)
      return bad(text, "write units from large to small, each once: 1d2h");
    last_rank = unit->rank;
    total += value * static_cast<double>(unit->factor);
  }
  if (total > kMaxMilliseconds) return bad(text, "longer than 250 years");
  return std::chrono::milliseconds(std::llround(total));
}

Result<std::uint64_t> parse_size(std::string_view text) {
  std::size_t at = 0;
  double value = take_decimal(text, at);
  if (value < 0) return bad(text, kSizeHint);
  skip_blanks(text, at);
  std::string name(take_letters(text, at));
  for (char& c : name) c = static_cast<char>(c | 0x20);
  if (name.empty() || at != text.size()) return bad(text, kSizeHint);
  const Unit* unit = find_unit(kSizeUnits, name);
  if (unit == nullptr)
    return bad(text,
               fmt::format("`{}` isn't a unit of size; use KB, MB, GB, TB or KiB, MiB, GiB, TiB",
                           text.substr(text.size() - name.size())));
  double bytes = value * static_cast<double>(unit->factor);
  if (bytes > kMaxBytes) return bad(text, "too large");
  // Whole numbers are multiplied as such: a double would lose bytes beyond 2^53.
  if (value == std::floor(value) && value < 9e15)
    return static_cast<std::uint64_t>(value) * unit->factor;
  return static_cast<std::uint64_t>(std::llround(bytes));
}

std::string format_duration(std::chrono::milliseconds d) {
  std::uint64_t rest = static_cast<std::uint64_t>(d.count() < 0 ? 0 : d.count());
  if (rest == 0) return "0s";
  std::string out;
  for (std::string_view name : {"d", "h", "m", "s", "ms"}) {
    const Unit* unit = find_unit(kDurationUnits, name);
    if (rest >= unit->factor) out += fmt::format("{}{}", rest / unit->factor, name);
    rest %= unit->factor;
  }
  return out;
}

std::string format_size(std::uint64_t bytes) {
  for (std::string_view name : {"TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB"}) {
    std::string lower(name);
    for (char& c : lower) c = static_cast<char>(c | 0x20);
    std::uint64_t factor = find_unit(kSizeUnits, lower)->factor;
    if (bytes > 0 && bytes % factor == 0) return fmt::format("{}{}", bytes / factor, name);
  }
  return fmt::format("{}B", bytes);
}

}  // namespace pergpu
