// Cut by columns, so that no letter is halved.
#include "view/text/long_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "utf8_bytes.h"
#include "view/text/escape.h"
#include "view/text/utf8.h"

namespace pergpu::view {

int room_of(const Style& style) {
  constexpr int kWithoutTerminal = 200;
  return style.width > 0 ? style.width : kWithoutTerminal;
}

std::string short_value(std::string_view text, const Style& style) {
  constexpr std::size_t kMostRead = 1024;  // of a text that is cut in any case
  constexpr int kWidestValue = 60;
  return cut(safe_line(text.substr(0, kMostRead)), kWidestValue, cut_mark(style));
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kLong = 400;
  constexpr int kColumnsShown = 200;
  if (text.size() <= kLong) return text;
  return fmt::format("{}... ({} bytes)",
                     cut(std::string_view(text).substr(0, kLong), kColumnsShown, ""), text.size());
}

std::string short_line(std::string_view line) {
  constexpr std::size_t kLong = 10'000;
  constexpr std::size_t kBegin = 1'500;
  constexpr std::size_t kEnd = 1'000;
  if (line.size() <= kLong) return std::string(line);
  const auto is_within_letter = [&](std::size_t at) {
    return at < line.size() && is_continuation(line[at]);
  };
  std::size_t begin = kBegin;
  while (begin > 0 && is_within_letter(begin)) --begin;
  std::size_t end = line.size() - kEnd;
  while (is_within_letter(end)) ++end;
  return fmt::format("{} ... ({} bytes left out) ... {}", line.substr(0, begin), end - begin,
                     line.substr(end));
}

std::string short_reason(const std::string& reason) {
  constexpr std::size_t kEnd = 120;
  const std::string begin = shortened(reason);
  if (begin == reason) return reason;
  std::size_t end = reason.size() - kEnd;
  while (end < reason.size() && is_continuation(reason[end])) ++end;
  return begin + " ..." + reason.substr(end);
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace pergpu::view
