// Each memory is counted once: all processes see the same pages, whatever `ps` adds up for them.
#include "view/commands/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/snapshot.h"
#include "plural.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"
#include "view/text/table.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

std::string key_of(const Segment& segment) {
  return segment.key.empty() ? segment.name : segment.key;
}

std::string age_of(const Segment& segment, std::int64_t now_ns) {
  if (segment.made_at == 0) return "-";
  const std::int64_t age_s = std::max<std::int64_t>(0, now_ns - segment.made_at) / 1'000'000'000;
  return duration_text(static_cast<double>(age_s));
}

/// "17-19, 24"
std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "-") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string stays_text(const Segment& segment) {
  if (segment.keep) return "until it is dropped";
  std::string names;
  for (const auto& [id, name] : segment.sweeps) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) return fmt::format("until {} ends", names);
  return "while a process uses it";
}

}  // namespace

std::string sum_of(const std::vector<Segment>& segments) {
  std::uint64_t bytes = 0;
  for (const Segment& segment : segments) bytes += segment.bytes;
  return fmt::format("{}, {}", counted(segments.size(), "segment"),
                     size_text(static_cast<std::int64_t>(bytes)));
}

std::string segment_line(const Segment& segment, std::int64_t now_ns) {
  std::string text =
      fmt::format("{}: {}", key_of(segment), size_text(static_cast<std::int64_t>(segment.bytes)));
  if (segment.made_at != 0) text += fmt::format(", {} old", age_of(segment, now_ns));
  text += ", " + counted(segment.processes, "process", "processes");
  if (!segment.jobs.empty()) {
    text += fmt::format(" ({} {})", segment.jobs.size() == 1 ? "job" : "jobs",
                        numbers_text(segment.jobs));
  }
  return text + ", stays " + stays_text(segment);
}

std::string segments_text(const std::vector<Segment>& segments, std::int64_t now_ns,
                          const Style& style) {
  if (segments.empty()) return "";
  const std::vector<Column> columns = {
      {.title = "KEY", .least = 12},         {.title = "KIND"},
      {.title = "SIZE", .right = true},      {.title = "AGE", .right = true},
      {.title = "PROCESSES", .right = true}, {.title = "JOBS", .least = 6},
      {.title = "STAYS", .least = 12}};
  std::vector<TableRow> rows;
  for (const Segment& segment : segments) {
    const std::string jobs = numbers_text(segment.jobs);
    rows.push_back({
        Cell{key_of(segment), Tone::Plain},
        Cell{segment.kind, Tone::Plain},
        Cell{size_text(static_cast<std::int64_t>(segment.bytes)), Tone::Plain},
        Cell{age_of(segment, now_ns), Tone::Plain},
        Cell{std::to_string(segment.processes), Tone::Plain},
        Cell{jobs.empty() ? "-" : jobs, Tone::Plain},
        Cell{stays_text(segment), Tone::Plain},
    });
  }
  return render_table(columns, rows, style) + sum_of(segments) + "\n";
}

json segment_json(const Segment& segment) {
  json sweeps = json::array();
  for (const auto& [id, name] : segment.sweeps) {
    sweeps.push_back(json::object({{"id", id}, {"sweep", name}}));
  }
  return {{"name", segment.name},
          {"kind", segment.kind},
          {"key", segment.key.empty() ? json(nullptr) : json(segment.key)},
          {"bytes", segment.bytes},
          {"made_at", segment.made_at == 0 ? json(nullptr) : json(rfc3339(segment.made_at))},
          {"processes", segment.processes},
          {"jobs", segment.jobs},
          {"held", segment.held},
          {"keep", segment.keep},
          {"sweeps", std::move(sweeps)}};
}

Segment segment_in(const json& object) {
  Segment segment{.name = object.at("name").get<std::string>(),
                  .kind = object.at("kind").get<std::string>(),
                  .bytes = object.at("bytes").get<std::uint64_t>(),
                  .processes = object.at("processes").get<std::int64_t>(),
                  .jobs = object.at("jobs").get<std::vector<std::int64_t>>(),
                  .held = object.at("held").get<bool>(),
                  .keep = object.at("keep").get<bool>()};
  if (object.at("key").is_string()) segment.key = object.at("key").get<std::string>();
  if (object.at("made_at").is_string()) {
    segment.made_at = from_rfc3339(object.at("made_at").get<std::string>());
  }
  for (const json& sweep : object.at("sweeps")) {
    segment.sweeps.emplace_back(sweep.at("id").get<std::int64_t>(),
                                sweep.at("sweep").get<std::string>());
  }
  return segment;
}

json segments_json(const std::vector<Segment>& segments) {
  json list = json::array();
  for (const Segment& segment : segments) list.push_back(segment_json(segment));
  return list;
}

}  // namespace pergpu::view
