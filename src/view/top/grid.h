// A screen of character cells: what a full-screen view draws, and the terminal's driver (or a test)
// looks at.  Text is made safe, translated and cut here, so no caller can forget it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "view/text/style.h"

namespace pergpu::view {

enum class Colour : std::uint8_t { Default, Red, Green, Yellow, Blue, Magenta, Cyan };

/// How a cell looks.  Bold ones of the six colors are the bright ones of sixteen.
struct Look {
  Colour colour = Colour::Default;
  bool bold = false;
  bool dim = false;
  bool reverse = false;
  bool operator==(const Look&) const = default;
};

/// Which colors mean good and bad.  A state is never shown by color alone.
enum class Palette : std::uint8_t {
  None,         // bold, dim and reverse only
  Standard,     // green and red
  ColourBlind,  // blue and yellow
};
Look look_of(Tone tone, Palette palette);

struct GridCell {
  std::string text =
      " ";  // one character with its marks, UTF-8; "": the wide one before it goes on
  Look look = {};
  bool operator==(const GridCell&) const = default;
};

class Grid {
 public:
  /// `unicode` false: every character beyond ASCII becomes a question mark.
  Grid(int columns, int rows, bool unicode);

  int columns() const { return columns_; }
  int rows() const { return rows_; }
  const GridCell& at(int row, int column) const;

  /// Writes `text` from (row, column) on, in at most `width` columns; what lies outside of the grid
  /// is left out.  Returns the columns written.
  int put(int row, int column, std::string_view text, Look look = {}, int width = 1 << 20);
  /// The same, ending before column + width.
  void put_right(int row, int column, std::string_view text, Look look, int width);
  /// Shows the row as the chosen one.
  void mark(int row);

  /// The characters alone, a line a row, without blanks at the ends.
  std::vector<std::string> lines() const;

  bool operator==(const Grid&) const = default;

 private:
  int columns_;
  int rows_;
  bool unicode_;
  std::vector<GridCell> cells_;
};

/// `text` in lines of at most `columns` columns, broken at blanks where there are some; later lines
/// are indented.
std::vector<std::string> wrap(std::string_view text, int columns);

}  // namespace pergpu::view
