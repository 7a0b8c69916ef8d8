// Lines are chosen before they are read: of a million lines two thousand are parsed.
#include "view/model/metric_points.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

namespace pergpu::view {

using nlohmann::json;

namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end != 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

json metric_points(std::string_view text, std::size_t most) {
  const std::vector<std::string_view> lines = split(text);
  const std::size_t count = std::min(lines.size(), most);
  json points = json::array();
  json names = json::array();
  std::unordered_set<std::string> seen;
  for (std::size_t i = 0; i < count; ++i) {
    // From the end, so that the newest line is one of them.
    const std::size_t line = lines.size() - 1 - (count - 1 - i) * lines.size() / count;
    // In the order in which they are written.
    const auto object = nlohmann::ordered_json::parse(lines[line], nullptr, false);
    if (!object.is_object()) continue;
    json point = json::object();
    for (const auto& [name, value] : object.items()) {
      if (!value.is_number() || !std::isfinite(value.get<double>())) continue;
      point[name] = value;
      if (seen.insert(name).second) names.push_back(name);
    }
    if (!point.empty()) points.push_back(std::move(point));
  }
  return {{"schema", 1}, {"names", std::move(names)}, {"points", std::move(points)}};
}

}  // namespace pergpu::view
