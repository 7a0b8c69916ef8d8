// Only four sequences, which every terminal since the VT100 knows: cursor up, cursor to column 1,
// erase to the end of the line, erase to the end of the screen.
#include "view/text/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "view/text/escape.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

/// Rows of the terminal that the block takes now: a narrower window has wrapped its lines.
int rows_of(const std::vector<std::string>& lines, int width_then, int width) {
  if (width <= 0 || width >= width_then) return static_cast<int>(lines.size());
  int rows = 0;
  for (const std::string& line : lines) {
    rows += std::max(1, (columns_of(safe_line(line)) + width - 1) / width);
  }
  return rows;
}

}  // namespace

std::string erase(const std::vector<std::string>& before, int width_then, int width) {
  if (before.empty()) return "";
  return fmt::format("\x1b[{}A\r\x1b[J", rows_of(before, width_then, width));
}

std::string redraw(const std::vector<std::string>& before, int width_then,
                   const std::vector<std::string>& after, int width) {
  if (before == after && width_then == width) return "";
  std::string out;
  if (width_then != width) {
    out = erase(before, width_then, width);
    for (const std::string& line : after) out += line + "\n";
    return out;
  }
  if (!before.empty()) out = fmt::format("\x1b[{}A\r", before.size());
  std::size_t skipped = 0;  // unchanged lines that the cursor has not passed yet
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (i < before.size() && before[i] == after[i]) {
      ++skipped;
      continue;
    }
    out.append(skipped, '\n');
    skipped = 0;
    out += after[i] + (i < before.size() ? "\x1b[K\n" : "\n");
  }
  out.append(skipped, '\n');
  if (after.size() < before.size()) out += "\x1b[J";
  return out;
}

}  // namespace pergpu::view
