// Each row is an array of cells of one column each, into which bars are painted in their order.
#include "view/charts/lane_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "job/text.h"
#include "view/text/escape.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

constexpr int kUsualWidth = 100;
constexpr int kLeastArea = 10;
constexpr int kColumnsPerTick = 12;

struct Marks {
  std::string_view body;
  std::string_view end;
  std::string_view several;  // more than one job in a column
  std::string_view other;
};

Marks marks_of(const Style& style) {
  if (!style.unicode) return {.body = "-", .end = "|", .several = "#", .other = ":"};
  return {.body = "─", .end = "┤", .several = "▓", .other = "░"};
}

enum class Paint : std::uint8_t { Idle, Ours, Other };

struct ChartCell {
  std::string text = " ";  // of one column; "": the second column of the cell before
  Paint paint = Paint::Idle;
};

int column_of(double at_s, double total_s, int width) {
  if (!(total_s > 0)) return 0;
  return static_cast<int>(std::lround(std::clamp(at_s / total_s, 0.0, 1.0) * width));
}

/// `label` over cells [from, end), as far as it fits.
void write_label(std::vector<ChartCell>& cells, int from, int end, const std::string& label) {
  const std::string text = safe_line(label);
  std::size_t at = 0;
  int column = from;
  while (at < text.size()) {
    const std::size_t begin = at;
    const std::uint32_t code = next_code_point(text, &at);
    const int columns = columns_of(code);
    if (column + columns > end) return;
    const std::string_view bytes = std::string_view(text).substr(begin, at - begin);
    if (columns == 0) {
      if (column > from) cells[static_cast<std::size_t>(column - 1)].text += bytes;
      continue;
    }
    cells[static_cast<std::size_t>(column)].text = bytes;
    if (columns == 2) cells[static_cast<std::size_t>(column + 1)].text.clear();
    column += columns;
  }
}

void paint_bar(std::vector<ChartCell>& cells, const LaneChart::Bar& bar, double total_s,
               const Marks& marks) {
  const int width = static_cast<int>(cells.size());
  const int from = std::min(column_of(bar.start_s, total_s, width), width - 1);
  const int end = std::max(column_of(bar.end_s, total_s, width), from + 1);
  const auto cell = [&](int column) -> ChartCell& {
    return cells[static_cast<std::size_t>(column)];
  };
  for (int column = from; column < end; ++column) {
    if (cell(column).paint != Paint::Idle) {  // another bar began and ended there
      cell(column).text = marks.several;
      continue;
    }
    cell(column).paint = bar.is_other ? Paint::Other : Paint::Ours;
    cell(column).text = bar.is_other ? marks.other : column + 1 == end ? marks.end : marks.body;
  }
  const bool begins_here = cell(from).text == marks.body;
  if (!bar.is_other && end - from > 2)
    write_label(cells, begins_here ? from : from + 1, end - 1, bar.label);
}

std::string row(const std::vector<ChartCell>& cells, const Style& style) {
  std::size_t used = cells.size();
  while (used > 0 && cells[used - 1].paint == Paint::Idle) --used;
  std::string out;
  std::string run;
  const auto flush = [&](Paint paint_as) {
    if (run.empty()) return;
    out += paint_as == Paint::Other  ? paint(style, Tone::Dim, run)
           : paint_as == Paint::Ours ? paint(style, Tone::Busy, run)
                                     : run;
    run.clear();
  };
  for (std::size_t i = 0; i < used; ++i) {
    if (i > 0 && cells[i].paint != cells[i - 1].paint) flush(cells[i - 1].paint);
    run += cells[i].text;
  }
  if (used > 0) flush(cells[used - 1].paint);
  return out;
}

/// A round number of seconds of which at most `most` fit into the total.
double tick_of(double total_s, int most) {
  constexpr double kRound[] = {1,   2,    5,    10,   15,    30,    60,    120,   300,    600,
                               900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800};
  for (const double tick : kRound) {
    if (total_s / tick <= most) return tick;
  }
  return 604800 * std::ceil(total_s / 604800 / most);
}

std::string axis(double total_s, int width) {
  const double tick = tick_of(total_s, std::max(1, width / kColumnsPerTick));
  std::string line;
  for (double at = 0; at <= total_s; at += tick) {
    const std::string label = pergpu::duration_text(static_cast<std::int64_t>(at * 1e9));
    const auto column = static_cast<std::size_t>(column_of(at, total_s, width));
    const bool fits = column + label.size() <= static_cast<std::size_t>(width);
    if (!fits || (!line.empty() && column <= line.size())) continue;
    line.resize(column, ' ');
    line += label;
  }
  return line;
}

}  // namespace

std::string lane_chart(const LaneChart& chart, const Style& style) {
  int names = 0;
  for (const std::string& lane : chart.lanes) names = std::max(names, columns_of(safe_line(lane)));
  const int width = style.width > 0 ? style.width : kUsualWidth;
  names = std::min(names, std::max(4, width / 4));
  const int area = std::max(width - names - 2, kLeastArea);
  const Marks marks = marks_of(style);

  std::vector<std::vector<ChartCell>> rows(chart.lanes.size(),
                                           std::vector<ChartCell>(static_cast<std::size_t>(area)));
  for (const LaneChart::Bar& bar : chart.bars) {
    if (bar.lane < rows.size()) paint_bar(rows[bar.lane], bar, chart.total_s, marks);
  }
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = cut(safe_line(chart.lanes[i]), names, cut_mark(style));
    const std::string cells = row(rows[i], style);
    out += cells.empty() ? name : pad(name, names) + "  " + cells;
    out += '\n';
  }
  if (chart.total_s > 0) {
    out += std::string(static_cast<std::size_t>(names) + 2, ' ') + axis(chart.total_s, area) + '\n';
  }
  return out;
}

}  // namespace pergpu::view
