// A table of text: columns as wide as their cells, cut to the style's width by shrinking the widest
// shrinkable columns first.  Cells are escaped here, so no caller can forget it.
#pragma once

#include <string>
#include <vector>

#include "view/text/style.h"

namespace pergpu::view {

struct Column {
  std::string title = {};
  bool right = false;  // numbers
  int least = 0;       // may shrink down to this; 0: never shrinks
};

struct Cell {
  std::string text = {};
  Tone tone = Tone::Plain;
};

using TableRow = std::vector<Cell>;

/// Title line and rows, each with '\n', no blanks at line ends.  Rows may be shorter than
/// `columns`.
std::string render_table(const std::vector<Column>& columns, const std::vector<TableRow>& rows,
                         const Style& style);

/// The rows alone, without the title line.
std::string render_rows(const std::vector<Column>& columns, const std::vector<TableRow>& rows,
                        const Style& style);

/// Between two columns.
inline constexpr int kColumnGap = 2;

/// How wide each column is where `width` columns are there for all (0: any number).
std::vector<int> column_widths(const std::vector<Column>& columns,
                               const std::vector<TableRow>& rows, int width);

/// Columns that the table takes when nothing is cut.
int table_width(const std::vector<Column>& columns, const std::vector<TableRow>& rows);

}  // namespace pergpu::view
