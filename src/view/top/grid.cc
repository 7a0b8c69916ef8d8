// A wide character takes two cells: the second one is empty.  One that would cross the right border
// is left out by cut().
#include "view/top/grid.h"

#include <algorithm>
#include <cstddef>

#include "view/text/escape.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

constexpr int kIndent = 4;
/// More marks on one character than a terminal shows.
constexpr std::size_t kMostBytesOfACell = 24;

/// As many columns as before.
std::string in_ascii(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t code = next_code_point(text, &at);
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else {
      out.append(static_cast<std::size_t>(columns_of(code)), '?');
    }
  }
  return out;
}

}  // namespace

Look look_of(Tone tone, Palette palette) {
  const bool standard = palette == Palette::Standard;
  const auto in = [&](Colour colour, Colour for_colour_blind, bool bold) {
    if (palette == Palette::None) return Look{.bold = bold};
    return Look{.colour = standard ? colour : for_colour_blind, .bold = bold};
  };
  switch (tone) {
    case Tone::Plain:
      return {};
    case Tone::Good:
      return in(Colour::Green, Colour::Blue, false);
    case Tone::Bad:
      return in(Colour::Red, Colour::Yellow, true);
    case Tone::Warn:
      return in(Colour::Yellow, Colour::Magenta, false);
    case Tone::Busy:
      return in(Colour::Cyan, Colour::Cyan, false);
    case Tone::Dim:
      return Look{.dim = true};
    case Tone::Bold:
      return Look{.bold = true};
  }
  return {};
}

Grid::Grid(int columns, int rows, bool unicode)
    : columns_(std::max(columns, 0)),
      rows_(std::max(rows, 0)),
      unicode_(unicode),
      cells_(static_cast<std::size_t>(columns_) * static_cast<std::size_t>(rows_)) {}

const GridCell& Grid::at(int row, int column) const {
  return cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
                static_cast<std::size_t>(column)];
}

int Grid::put(int row, int column, std::string_view text, Look look, int width) {
  if (row < 0 || row >= rows_ || column < 0 || column >= columns_) return 0;
  std::string safe = safe_line(text);
  if (!unicode_) safe = in_ascii(safe);
  safe = cut(safe, std::min(width, columns_ - column), unicode_ ? "…" : "..");
  GridCell* const begin =
      &cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
              static_cast<std::size_t>(column)];
  if (begin->text.empty() && !safe.empty()) begin[-1].text = " ";  // half a character would be left
  int used = 0;
  GridCell* last = nullptr;  // the character that marks belong to
  for (std::size_t at = 0; at < safe.size();) {
    const std::size_t from = at;
    const int wide = columns_of(next_code_point(safe, &at));
    const std::string_view bytes = std::string_view(safe).substr(from, at - from);
    if (wide == 0) {
      if (last != nullptr && last->text.size() + bytes.size() <= kMostBytesOfACell) {
        last->text.append(bytes);
      }
      continue;
    }
    last = begin + used;
    *last = GridCell{std::string(bytes), look};
    if (wide == 2) last[1] = GridCell{"", look};
    used += wide;
  }
  if (used > 0 && column + used < columns_ && begin[used].text.empty()) begin[used].text = " ";
  return used;
}

void Grid::put_right(int row, int column, std::string_view text, Look look, int width) {
  const int takes = columns_of(safe_line(text));
  put(row, column + std::max(0, width - takes), text, look, std::min(width, takes));
}

void Grid::mark(int row) {
  if (row < 0 || row >= rows_) return;
  for (int column = 0; column < columns_; ++column) {
    cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(column)]
        .look.reverse = true;
  }
}

std::vector<std::string> Grid::lines() const {
  std::vector<std::string> lines;
  for (int row = 0; row < rows_; ++row) {
    std::string line;
    for (int column = 0; column < columns_; ++column) line += at(row, column).text;
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> wrap(std::string_view text, int columns) {
  const std::string safe = safe_line(text);
  const int room = std::max(1, columns);
  std::vector<std::string> lines;
  std::string line;
  int used = 0;
  std::size_t blank = std::string::npos;  // where `line` may be broken
  for (std::size_t at = 0; at < safe.size();) {
    const std::size_t from = at;
    const int wide = columns_of(next_code_point(safe, &at));
    const std::string_view bytes = std::string_view(safe).substr(from, at - from);
    const bool is_blank = bytes == " ";
    if (used + wide > room && used > 0) {
      std::string rest;
      if (blank != std::string::npos && !is_blank) {
        rest = line.substr(blank + 1);
        line.erase(blank);
      }
      lines.push_back(std::move(line));
      const int left = room - columns_of(rest) - wide;
      const int indent = room > 3 * kIndent ? std::clamp(left, 0, kIndent) : 0;
      line = std::string(static_cast<std::size_t>(indent), ' ') + rest;
      used = columns_of(line);
      blank = std::string::npos;
      if (is_blank) continue;
    }
    if (is_blank && line.find_first_not_of(' ') != std::string::npos) blank = line.size();
    line.append(bytes);
    used += wide;
  }
  lines.push_back(std::move(line));
  return lines;
}

}  // namespace pergpu::view
