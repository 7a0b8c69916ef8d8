// A line for each part of the machine: processors, memory, disk, GPU.
#include "view/commands/usage.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "job/json_fields.h"
#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

std::optional<double> number(const json& object, const char* part, const char* name) {
  const auto found = object.find(part);
  return found == object.end() ? std::nullopt : number_at(*found, name);
}

std::string bytes(double value) { return size_text(static_cast<std::int64_t>(value)); }

/// Facts of one line: "1.02 cores now, 0.98 on average".
class Line {
 public:
  template <typename Text>
  void add(const std::optional<double>& value, Text text) {
    if (value) text_ += (text_.empty() ? "" : ", ") + text(*value);
  }
  void add(const std::string& words) {
    if (!words.empty()) text_ += (text_.empty() ? "" : ", ") + words;
  }
  void end(const std::string& prefix, std::vector<std::string>& lines) {
    if (!text_.empty()) lines.push_back(prefix + text_);
    text_.clear();
  }

 private:
  std::string text_;
};

std::string words_of(const json& usage, const char* name) {
  std::string out;
  const auto words = usage.find(name);
  if (words == usage.end() || !words->is_array()) return out;
  for (const json& word : *words) {
    if (word.is_string()) out += (out.empty() ? "" : ", ") + word.get<std::string>();
  }
  return out;
}

}  // namespace

std::vector<std::string> usage_lines(const json& usage) {
  std::vector<std::string> lines;
  if (!usage.is_object()) return lines;
  const auto now = [&](const char* name) { return number(usage, "now", name); };
  const auto mean = [&](const char* name) { return number(usage, "mean", name); };
  const auto most = [&](const char* name) { return number(usage, "most", name); };
  Line line;
  line.add(now("cores"), [](double v) { return fmt::format("{:.2f} cores now", v); });
  line.add(mean("cores"), [](double v) { return fmt::format("{:.2f} cores on average", v); });
  line.add(most("processes"), [](double v) { return fmt::format("{:.0f} processes at most", v); });
  line.end("", lines);
  line.add(now("resident_bytes"), [](double v) { return bytes(v) + " now"; });
  line.add(most("resident_bytes"), [](double v) { return bytes(v) + " at most"; });
  line.add(most("proportional_bytes"),
           [](double v) { return bytes(v) + " with shared memory counted once"; });
  line.end("memory ", lines);
  const auto total = [&](const char* name) -> std::optional<double> {
    const auto value = usage.find(name);
    if (value == usage.end() || !value->is_number()) return std::nullopt;
    return value->get<double>();
  };
  line.add(total("read_bytes"), [](double v) { return bytes(v) + " read"; });
  line.add(total("written_bytes"), [](double v) { return bytes(v) + " written"; });
  line.end("disk ", lines);
  line.add(now("gpu_busy_percent"), [](double v) { return fmt::format("{:.0f} % busy now", v); });
  line.add(mean("gpu_busy_percent"),
           [](double v) { return fmt::format("{:.0f} % busy on average", v); });
  line.add(most("gpu_memory_bytes"), [](double v) { return bytes(v) + " at most"; });
  line.add(mean("gpu_power_w"), [](double v) { return fmt::format("{:.0f} W on average", v); });
  line.add(most("gpu_temperature_c"), [](double v) { return fmt::format("{:.0f} °C at most", v); });
  line.add(mean("gpu_clock_mhz"), [](double v) { return fmt::format("{:.0f} MHz on average", v); });
  if (const std::string slow = words_of(usage, "throttle"); !slow.empty()) {
    line.add("slowed by " + slow);
  }
  line.end("GPU ", lines);
  return lines;
}

std::string learnt_text(const json& learnt) {
  Line line;
  const auto value = [&](const char* name) -> std::optional<double> {
    const auto found = learnt.find(name);
    if (found == learnt.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  };
  if (!learnt.is_object()) return {};
  line.add(value("duration_s"), [](double v) { return duration_text(v); });
  line.add(value("memory_bytes"), [](double v) { return bytes(v) + " of memory"; });
  line.add(value("gpu_memory_bytes"), [](double v) { return bytes(v) + " of GPU memory"; });
  std::vector<std::string> lines;
  const double jobs = value("jobs").value_or(0);
  line.end("", lines);
  if (lines.empty()) return {};
  return fmt::format("{} (from {:.0f} similar {})", lines.front(), jobs,
                     jobs == 1 ? "job" : "jobs");
}

}  // namespace pergpu::view
