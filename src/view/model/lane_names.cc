// Numbers at the ends of names are shown as ranges where three or more follow each other.
#include "view/model/lane_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "job/gpu_slot.h"

namespace pergpu::view {
namespace {

/// "gpu12" -> {"gpu", 12}; without digits at its end the number is -1.
std::pair<std::string, long> parts_of(const std::string& name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  long number = -1;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return {name.substr(0, digits), number};
}

}  // namespace

std::string lanes_text(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, long>> lanes;
  for (const std::string& name : names) lanes.push_back(parts_of(name));
  std::sort(lanes.begin(), lanes.end());
  std::string text;
  for (std::size_t i = 0; i < lanes.size();) {
    const auto& [pool, first] = lanes[i];
    const bool is_further = i > 0 && lanes[i - 1].first == pool;
    std::size_t end = i + 1;
    long last = first;
    while (end < lanes.size() && lanes[end].first == pool && lanes[end].second == last + 1) {
      last = lanes[end++].second;
    }
    if (i > 0) text += ",";
    if (!is_further) text += pool;
    if (first >= 0) text += std::to_string(first);
    if (last > first) text += fmt::format("{}{}", last == first + 1 ? "," : "-", last);
    i = end;
  }
  return text;
}

std::string number_of(const GpuSnapshot& gpu) {
  return to_string(GpuPlace{.gpu = static_cast<int>(gpu.index),
                            .instance = static_cast<int>(gpu.instance.value_or(-1))});
}

}  // namespace pergpu::view
