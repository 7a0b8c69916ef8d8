// Bytes that are not UTF-8 become U+FFFD: JSON cannot carry them.
#include "cli/follow/json_lines.h"

#include <nlohmann/json.hpp>

#include "cli/client/client.h"

namespace pergpu::cli {
namespace {

std::string one(std::int64_t job, std::string_view line) {
  return output_line({{"schema", 1}, {"job", job}, {"line", line}});
}

}  // namespace

std::string JsonLines::feed(std::int64_t job, std::string_view bytes) {
  std::string out;
  for (;;) {
    const std::size_t end = bytes.find('\n');
    rest_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return out;
    out += one(job, rest_);
    rest_.clear();
    bytes.remove_prefix(end + 1);
  }
}

std::string JsonLines::finish(std::int64_t job) {
  if (rest_.empty()) return "";
  std::string out = one(job, rest_);
  rest_.clear();
  return out;
}

}  // namespace pergpu::cli
