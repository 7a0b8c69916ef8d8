// Ranges of zero-width and wide code points, condensed from the properties "nonspacing mark" and
// "East Asian wide / emoji presentation" of Unicode 15: a terminal that disagrees about a rare one
// shows a table whose column is off by one, nothing worse.
#include "view/text/utf8.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace pergpu::view {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

constexpr std::array kZero = {
    Range{0x0300, 0x036f},   Range{0x0483, 0x0489},   Range{0x0591, 0x05bd},
    Range{0x0610, 0x061a},   Range{0x064b, 0x065f},   Range{0x0670, 0x0670},
    Range{0x06d6, 0x06dc},   Range{0x06df, 0x06e4},   Range{0x0900, 0x0902},
    Range{0x093c, 0x093c},   Range{0x0941, 0x0948},   Range{0x094d, 0x094d},
    Range{0x0e31, 0x0e31},   Range{0x0e34, 0x0e3a},   Range{0x0e47, 0x0e4e},
    Range{0x1160, 0x11ff},   Range{0x1ab0, 0x1aff},   Range{0x1dc0, 0x1dff},
    Range{0x200b, 0x200f},   Range{0x202a, 0x202e},   Range{0x2060, 0x2064},
    Range{0x20d0, 0x20f0},   Range{0x302a, 0x302d},   Range{0x3099, 0x309a},
    Range{0xfe00, 0xfe0f},   Range{0xfe20, 0xfe2f},   Range{0xfeff, 0xfeff},
    Range{0x1f3fb, 0x1f3ff}, Range{0xe0001, 0xe007f}, Range{0xe0100, 0xe01ef},
};

constexpr std::array kWide = {
    Range{0x1100, 0x115f},   Range{0x231a, 0x231b},   Range{0x2329, 0x232a},
    Range{0x23e9, 0x23ec},   Range{0x23f0, 0x23f0},   Range{0x23f3, 0x23f3},
    Range{0x25fd, 0x25fe},   Range{0x2614, 0x2615},   Range{0x2648, 0x2653},
    Range{0x267f, 0x267f},   Range{0x2693, 0x2693},   Range{0x26a1, 0x26a1},
    Range{0x26aa, 0x26ab},   Range{0x26bd, 0x26be},   Range{0x26c4, 0x26c5},
    Range{0x26ce, 0x26ce},   Range{0x26d4, 0x26d4},   Range{0x26ea, 0x26ea},
    Range{0x26f2, 0x26f3},   Range{0x26f5, 0x26f5},   Range{0x26fa, 0x26fa},
    Range{0x26fd, 0x26fd},   Range{0x2705, 0x2705},   Range{0x270a, 0x270b},
    Range{0x2728, 0x2728},   Range{0x274c, 0x274c},   Range{0x274e, 0x274e},
    Range{0x2753, 0x2755},   Range{0x2757, 0x2757},   Range{0x2795, 0x2797},
    Range{0x27b0, 0x27b0},   Range{0x27bf, 0x27bf},   Range{0x2b1b, 0x2b1c},
    Range{0x2b50, 0x2b50},   Range{0x2b55, 0x2b55},   Range{0x2e80, 0x303e},
    Range{0x3041, 0x33ff},   Range{0x3400, 0x4dbf},   Range{0x4e00, 0xa4cf},
    Range{0xa960, 0xa97f},   Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},
    Range{0xfe30, 0xfe6f},   Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},
    Range{0x1f004, 0x1f004}, Range{0x1f0cf, 0x1f0cf}, Range{0x1f18e, 0x1f18e},
    Range{0x1f191, 0x1f19a}, Range{0x1f200, 0x1f320}, Range{0x1f32d, 0x1f335},
    Range{0x1f337, 0x1f37c}, Range{0x1f37e, 0x1f393}, Range{0x1f3a0, 0x1f3ca},
    Range{0x1f3cf, 0x1f3d3}, Range{0x1f3e0, 0x1f3f0}, Range{0x1f3f4, 0x1f3f4},
    Range{0x1f3f8, 0x1f43e}, Range{0x1f440, 0x1f440}, Range{0x1f442, 0x1f4fc},
    Range{0x1f4ff, 0x1f53d}, Range{0x1f54b, 0x1f54e}, Range{0x1f550, 0x1f567},
    Range{0x1f57a, 0x1f57a}, Range{0x1f595, 0x1f596}, Range{0x1f5a4, 0x1f5a4},
    Range{0x1f5fb, 0x1f64f}, Range{0x1f680, 0x1f6c5}, Range{0x1f6cc, 0x1f6cc},
    Range{0x1f6d0, 0x1f6d2}, Range{0x1f6d5, 0x1f6d7}, Range{0x1f6eb, 0x1f6ec},
    Range{0x1f6f4, 0x1f6fc}, Range{0x1f7e0, 0x1f7eb}, Range{0x1f90c, 0x1f9ff},
    Range{0x1fa70, 0x1faff}, Range{0x20000, 0x3fffd},
};

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, std::uint32_t code_point) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), code_point,
                       [](std::uint32_t value, const Range& range) { return value < range.first; });
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

}  // namespace

void append_utf8(std::string& out, std::uint32_t c) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xc0 | (c >> 6)), add(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    add(0xe0 | (c >> 12)), add(0x80 | ((c >> 6) & 0x3f)), add(0x80 | (c & 0x3f));
  } else {
    add(0xf0 | (c >> 18)), add(0x80 | ((c >> 12) & 0x3f));
    add(0x80 | ((c >> 6) & 0x3f)), add(0x80 | (c & 0x3f));
  }
}

int columns_of(std::uint32_t code_point) {
  if (code_point < 0x300) return 1;
  if (within(kZero, code_point)) return 0;
  return within(kWide, code_point) ? 2 : 1;
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (std::size_t at = 0; at < text.size();) columns += columns_of(next_code_point(text, &at));
  return columns;
}

std::string cut(std::string_view text, int columns, std::string_view mark) {
  if (columns <= 0) return {};
  const int room = columns - columns_of(mark);
  std::size_t fits = 0;  // bytes that fit beside the mark
  int used = 0;
  for (std::size_t at = 0; at < text.size();) {
    used += columns_of(next_code_point(text, &at));
    if (used <= room) fits = at;
    if (used > columns) {
      if (room < 0) return std::string(static_cast<std::size_t>(columns), '.');
      return std::string(text.substr(0, fits)).append(mark);
    }
  }
  return std::string(text);
}

std::string pad(std::string_view text, int columns, bool right) {
  const int missing = columns - columns_of(text);
  if (missing <= 0) return std::string(text);
  const std::string blanks(static_cast<std::size_t>(missing), ' ');
  return right ? blanks + std::string(text) : std::string(text) + blanks;
}

}  // namespace pergpu::view
