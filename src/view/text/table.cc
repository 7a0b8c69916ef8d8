// Two blanks between columns; the last cell of a line is not padded.
#include "view/text/table.h"

#include <algorithm>
#include <cstddef>

#include "view/text/escape.h"
#include "view/text/long_text.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

std::vector<int> natural_widths(const std::vector<Column>& columns,
                                const std::vector<TableRow>& rows) {
  std::vector<int> widths;
  for (const Column& column : columns) widths.push_back(columns_of(column.title));
  for (const TableRow& row : rows) {
    for (std::size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      widths[i] = std::max(widths[i], columns_of(safe_line(row[i].text)));
    }
  }
  return widths;
}

int total(const std::vector<int>& widths) {
  int sum = widths.empty() ? 0 : kColumnGap * (static_cast<int>(widths.size()) - 1);
  for (const int width : widths) sum += width;
  return sum;
}

void shrink(std::vector<int>& widths, const std::vector<Column>& columns, int width) {
  for (int over = total(widths) - width; over > 0; --over) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool may = columns[i].least > 0 && widths[i] > columns[i].least;
      if (may && (widest == columns.size() || widths[i] >= widths[widest])) widest = i;
    }
    if (widest == columns.size()) return;
    --widths[widest];
  }
}

class LineWriter {
 public:
  LineWriter(const std::vector<Column>& columns, const std::vector<int>& widths, const Style& style)
      : columns_(columns), widths_(widths), style_(style) {}

  void write(const TableRow& row, std::string& out) const {
    std::size_t used = std::min(row.size(), columns_.size());
    while (used > 0 && row[used - 1].text.empty()) --used;
    int room = room_of(style_);
    int blanks = 0;  // pending before the next cell
    for (std::size_t i = 0; i < used && room > blanks; ++i) {
      std::string text = cut(safe_line(row[i].text), widths_[i], cut_mark(style_));
      const int missing = widths_[i] - columns_of(text);
      if (columns_[i].right) blanks += missing;
      text = cut(text, room - blanks, cut_mark(style_));
      if (!text.empty()) {
        out.append(static_cast<std::size_t>(blanks), ' ');
        room -= blanks + columns_of(text);
        out += paint(style_, row[i].tone, text);
        blanks = 0;
      }
      if (!columns_[i].right) blanks += missing;
      blanks += kColumnGap;
    }
    out += '\n';
  }

 private:
  const std::vector<Column>& columns_;
  const std::vector<int>& widths_;
  const Style& style_;
};

std::string render(const std::vector<Column>& columns, const std::vector<TableRow>& rows,
                   bool titled, const Style& style) {
  const std::vector<int> widths = column_widths(columns, rows, room_of(style));
  const LineWriter writer(columns, widths, style);
  std::string out;
  if (titled) {
    TableRow titles;
    for (const Column& column : columns) titles.push_back(Cell{column.title, Tone::Bold});
    writer.write(titles, out);
  }
  for (const TableRow& row : rows) writer.write(row, out);
  return out;
}

}  // namespace

std::vector<int> column_widths(const std::vector<Column>& columns,
                               const std::vector<TableRow>& rows, int width) {
  std::vector<int> widths = natural_widths(columns, rows);
  if (width > 0) shrink(widths, columns, width);
  return widths;
}

int table_width(const std::vector<Column>& columns, const std::vector<TableRow>& rows) {
  return total(natural_widths(columns, rows));
}

std::string render_table(const std::vector<Column>& columns, const std::vector<TableRow>& rows,
                         const Style& style) {
  return render(columns, rows, true, style);
}

std::string render_rows(const std::vector<Column>& columns, const std::vector<TableRow>& rows,
                        const Style& style) {
  return render(columns, rows, false, style);
}

}  // namespace pergpu::view
