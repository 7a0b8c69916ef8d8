// What is not known is null, so that every line of an export has the same keys.
#include "view/model/history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "duration.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

/// Instants are given in milliseconds and the clocks are read one after the other.
constexpr double kClocksAgree_s = 0.05;

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json time_or_null(std::int64_t wall_ns) {
  return wall_ns == 0 ? json(nullptr) : json(rfc3339(wall_ns));
}

json object_of(const Fields& fields) {
  json object = json::object();
  for (const auto& [name, text] : fields) {
    json value = json::parse(text, nullptr, false);
    object[name] = value.is_discarded() ? json(text) : std::move(value);
  }
  return object;
}

/// As op `show` has it, of the measures that AttemptUsage has.
json value_of(const AttemptUsage& usage) {
  json mean = json::object();
  json most = json::object();
  const auto add = [&](const char* name, const std::optional<AttemptUsage::Extent>& extent) {
    if (!extent) return;
    mean[name] = extent->mean;
    most[name] = extent->most;
  };
  const auto add_bytes = [&](const char* name, const std::optional<AttemptUsage::Extent>& extent) {
    if (!extent) return;
    mean[name] = static_cast<std::int64_t>(extent->mean);
    most[name] = static_cast<std::int64_t>(extent->most);
  };
  add("cores", usage.cores);
  add_bytes("resident_bytes", usage.resident_bytes);
  add("gpu_busy_percent", usage.gpu_busy_percent);
  add_bytes("gpu_memory_bytes", usage.gpu_memory_bytes);
  if (mean.empty()) return nullptr;
  return {{"mean", std::move(mean)}, {"most", std::move(most)}};
}

json git_of(const AttemptFacts& attempt) {
  if (attempt.git_commit.empty()) return nullptr;
  return {{"commit", attempt.git_commit}, {"dirty", attempt.git_dirty}};
}

json files_of(const AttemptFacts& attempt) {
  json files = json::object();
  for (const auto& [path, hash] : attempt.files) files[path] = hash;
  return files;
}

json value_of(const AttemptFacts& attempt) {
  return {{"attempt", attempt.number},
          {"outcome", outcome_of(attempt)},
          {"reason", text_or_null(attempt.reason)},
          {"exit", or_null(attempt.exit)},
          {"signal", or_null(attempt.signal)},
          {"lane", text_or_null(attempt.lane)},
          {"lanes", lanes_of(attempt)},
          {"node", text_or_null(attempt.node)},
          {"gpus", attempt.gpus},
          {"cpus", or_null(attempt.cpus)},
          {"starting_at", time_or_null(attempt.starting_at)},
          {"started_at", time_or_null(attempt.started_at)},
          {"ended_at", time_or_null(attempt.ended_at)},
          {"duration_s", or_null(attempt.duration_s)},
          {"cpu_s", or_null(attempt.cpu_s)},
          {"peak_memory_bytes", or_null(attempt.peak_memory_bytes)},
          {"usage", value_of(attempt.usage)},
          {"git", git_of(attempt)},
          {"files", files_of(attempt)}};
}

}  // namespace

std::string plain_text(const std::string& json_text) {
  if (!json_text.starts_with('"')) return json_text;
  const json value = json::parse(json_text, nullptr, false);
  return value.is_string() ? value.get<std::string>() : json_text;
}

std::vector<std::string> lanes_of(const AttemptFacts& attempt) {
  if (!attempt.lanes.empty() || attempt.lane.empty()) return attempt.lanes;
  return {attempt.lane};
}

std::string outcome_of(const AttemptFacts& attempt) {
  if (!attempt.cls.empty()) return attempt.cls;
  return attempt.live ? "running" : "unknown";
}

std::int64_t end_of(const AttemptFacts& attempt, std::int64_t now_ns) {
  if (attempt.started_at == 0) return attempt.ended_at;
  if (attempt.live) return std::max(attempt.started_at, now_ns);
  if (!attempt.duration_s) return attempt.ended_at;
  const double wall_s = static_cast<double>(attempt.ended_at - attempt.started_at) / 1e9;
  if (attempt.ended_at >= attempt.started_at &&
      std::fabs(wall_s - *attempt.duration_s) <= kClocksAgree_s) {
    return attempt.ended_at;
  }
  const auto whole_ms = static_cast<std::int64_t>(std::fmax(0, *attempt.duration_s) * 1000);
  return attempt.started_at + whole_ms * kMillisecond;
}

json to_json_value(const JobHistory& history) {
  json value = history.job;
  value["schema"] = 1;
  value["params"] = object_of(history.params);
  value["last_metrics"] = object_of(history.metrics);
  value["needs"] = history.needs;
  json attempts = json::array();
  for (const AttemptFacts& attempt : history.attempts) attempts.push_back(value_of(attempt));
  value["attempts"] = std::move(attempts);
  return value;
}

}  // namespace pergpu::view
