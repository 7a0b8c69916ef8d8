// A step's fact is written at most every five seconds: it holds all of its records.
#include "forecast/learnt.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "json_text.h"
#include "spec/templates/run_parameters.h"
#include "timers.h"

namespace pergpu {
namespace {

using nlohmann::json;

constexpr const char* kLearntKey = "learnt ";
constexpr std::int64_t kSavePause = 5 * kSecond;
constexpr double kLongestRun = 1e9;  // s: 30 years
constexpr double kMostMeasuredCores = 1e6;

std::uint64_t key_of(const StepSpec& step) {
  std::string text = step.shell;
  for (const Template& word : step.command) {
    text += '\0';
    text += word;
  }
  return XXH3_64bits(text.data(), text.size());
}

std::uint32_t mark_of(const std::string& text) {
  return static_cast<std::uint32_t>(XXH3_64bits(text.data(), text.size()));
}

json or_null(const std::optional<std::uint64_t>& bytes) { return bytes ? json(*bytes) : json(); }

/// [name, value, name, value …]
json json_of(const std::vector<ParameterMark>& marks) {
  json list = json::array();
  for (const ParameterMark& mark : marks) {
    list.push_back(mark.name);
    list.push_back(mark.value);
  }
  return list;
}

std::optional<std::vector<ParameterMark>> marks_of(const json& list) {
  if (!list.is_array() || list.size() % 2 != 0) return std::nullopt;
  std::vector<ParameterMark> marks;
  for (std::size_t i = 0; i < list.size(); i += 2) {
    if (!list[i].is_number_unsigned() || !list[i + 1].is_number_unsigned()) return std::nullopt;
    marks.push_back({list[i].get<std::uint32_t>(), list[i + 1].get<std::uint32_t>()});
  }
  return marks;
}

/// [duration, memory, GPU memory, parameters, cores, duration alone]; the last two where they are
/// known.
json json_of(const UsageRecord& record) {
  json fact = json::array({record.duration_s, or_null(record.memory_bytes),
                           or_null(record.gpu_memory_bytes), json_of(record.parameters)});
  if (record.cores > 0) {
    fact.push_back(record.cores);
    fact.push_back(record.alone_s);
  }
  return fact;
}

std::optional<UsageRecord> record_of(const json& j) {
  const auto is_bytes = [](const json& one) { return one.is_null() || one.is_number_unsigned(); };
  const bool fits = j.is_array() && (j.size() == 4 || j.size() == 6) && j[0].is_number() &&
                    is_bytes(j[1]) && is_bytes(j[2]);
  if (!fits) return std::nullopt;
  UsageRecord record{.duration_s = j[0].get<double>()};
  if (!(record.duration_s >= 0 && record.duration_s <= kLongestRun)) return std::nullopt;
  if (j.size() == 6) {
    if (!j[4].is_number() || !j[5].is_number()) return std::nullopt;
    record.cores = j[4].get<double>();
    record.alone_s = j[5].get<double>();
    const bool makes_sense = record.cores > 0 && record.cores <= kMostMeasuredCores &&
                             record.alone_s >= 0 && record.alone_s <= record.duration_s;
    if (!makes_sense) record.cores = record.alone_s = 0;  // the rest is good
  }
  if (!j[1].is_null()) record.memory_bytes = j[1].get<std::uint64_t>();
  if (!j[2].is_null()) record.gpu_memory_bytes = j[2].get<std::uint64_t>();
  std::optional<std::vector<ParameterMark>> marks = marks_of(j[3]);
  if (!marks) return std::nullopt;
  record.parameters = *std::move(marks);
  return record;
}

/// [bytes, busy, measured, cores]
json json_of(const GpuNeed& need) {
  return json::array({need.bytes, need.busy, need.measured, need.cores});
}

/// What makes no sense is forgotten.
GpuNeed need_of(const json& j) {
  const bool fits = j.is_array() && j.size() == 4 && j[0].is_number_unsigned() &&
                    j[1].is_number() && j[2].is_number_unsigned() && j[3].is_number();
  if (!fits) return {};
  const auto measured = std::min<std::uint64_t>(j[2].get<std::uint64_t>(), GpuNeed::kMostMeasured);
  return {.bytes = j[0].get<std::uint64_t>(),
          .busy = std::clamp(j[1].get<double>(), 0.0, 1.0),
          .measured = static_cast<int>(measured),
          .cores = std::clamp(j[3].get<double>(), 0.0, kMostMeasuredCores)};
}

/// Each is [need, parameters]; what makes no sense is left out.
std::vector<GpuShapes::Seen> seen_of(const json& list) {
  std::vector<GpuShapes::Seen> seen;
  for (const json& one : list.is_array() ? list : json::array()) {
    if (!one.is_array() || one.size() != 2) continue;
    std::optional<std::vector<ParameterMark>> marks = marks_of(one[1]);
    if (marks) seen.push_back({.parameters = *std::move(marks), .need = need_of(one[0])});
  }
  return seen;
}

}  // namespace

std::vector<ParameterMark> marks_of(const RunSpec& run) {
  std::vector<ParameterMark> marks;
  const Result<RunParameters> parameters = RunParameters::parse(run);
  if (!parameters) return marks;
  for (const auto& [name, text] : parameters->all()) {
    if (marks.size() == Learnt::kMostParameters) break;
    marks.push_back({mark_of(name), mark_of(text)});
  }
  return marks;
}

Learnt::Learnt(const std::map<std::string, std::string>& meta, os::Clock& clock,
               std::function<void(row::Meta)> record)
    : clock_(clock), record_(std::move(record)) {
  for (std::size_t slot = 0; slot < kMostSteps; ++slot) {
    const auto fact = meta.find(kLearntKey + std::to_string(slot));
    if (fact != meta.end()) restore(slot, fact->second);
  }
}

void Learnt::restore(std::size_t slot, const std::string& text) {
  const json fact = json::parse(text, nullptr, false);
  if (!fact.is_object()) return;
  const auto key = fact.find("key");
  const auto used = fact.find("used");
  const auto records = fact.find("records");
  const auto name = fact.find("step");
  const bool fits = key != fact.end() && key->is_string() && used != fact.end() &&
                    used->is_number_integer() && records != fact.end() && records->is_array();
  if (!fits) return;
  Known known{.slot = slot, .used_wall_ns = used->get<std::int64_t>()};
  if (name != fact.end() && name->is_string()) known.name = name->get<std::string>();
  for (const json& one : *records) {
    if (std::optional<UsageRecord> record = record_of(one)) {
      known.records.push_back(*std::move(record));
    }
  }
  if (const auto need = fact.find("gpu_need"); need != fact.end()) {
    known.gpu = GpuShapes(need_of(*need), seen_of(fact.value("gpu_seen", json::array())));
  }
  if (known.records.size() > kMostRecords) known.records.resize(kMostRecords);
  known.weights = weights_of(known.records);
  steps_.insert_or_assign(std::strtoull(key->get<std::string>().c_str(), nullptr, 16),
                          std::move(known));
}

/// A new one gets a slot that is free, else that of the one that was used longest ago.
Learnt::Known& Learnt::known_of(std::uint64_t key, const std::string& name) {
  if (const auto it = steps_.find(key); it != steps_.end()) return it->second;
  std::vector<bool> taken(kMostSteps, false);
  for (const auto& [other, known] : steps_) taken[known.slot] = true;
  const auto free = std::find(taken.begin(), taken.end(), false);
  std::size_t slot = static_cast<std::size_t>(free - taken.begin());
  if (free == taken.end()) {
    const auto oldest = std::min_element(
        steps_.begin(), steps_.end(),
        [](const auto& a, const auto& b) { return a.second.used_wall_ns < b.second.used_wall_ns; });
    slot = oldest->second.slot;
    steps_.erase(oldest);
  }
  return steps_.emplace(key, Known{.slot = slot, .name = name}).first->second;
}

void Learnt::add(const StepSpec& step, UsageRecord record) {
  if (record.duration_s < kShortest) return;
  const std::uint64_t key = key_of(step);
  Known& known = known_of(key, step.name);
  const std::int64_t now = clock_.now().wall_ns;
  known.used_wall_ns = now;
  if (known.records.size() == kMostRecords) known.records.erase(known.records.begin());
  known.records.push_back(std::move(record));
  known.weights = weights_of(known.records);
  known.is_saved = false;
  if (now - known.saved_wall_ns >= kSavePause) save(key, known);
}

const GpuShapes* Learnt::gpu_shapes(const StepSpec& step) const {
  const auto it = steps_.find(key_of(step));
  if (it == steps_.end() || it->second.gpu.all() == GpuNeed{}) return nullptr;
  return &it->second.gpu;
}

GpuShape Learnt::gpu_shape(const StepSpec& step, const RunSpec* run) const {
  const GpuShapes* shapes = run == nullptr || !step.gpu_auto ? nullptr : gpu_shapes(step);
  if (shapes == nullptr || shapes->needs().empty()) return 0;
  return shapes->shape_of(marks_of(*run));
}

GpuShapes::News Learnt::add(const StepSpec& step, const RunSpec* run, const GpuNeed& need) {
  const std::uint64_t key = key_of(step);
  Known& known = known_of(key, step.name);
  const GpuShapes::News news = known.gpu.add(
      {.parameters = run == nullptr ? std::vector<ParameterMark>() : marks_of(*run), .need = need});
  if (news == GpuShapes::News::None) return news;
  const std::int64_t now = clock_.now().wall_ns;
  known.used_wall_ns = now;
  known.is_saved = false;
  // A promise hangs on what is needed.
  if (news != GpuShapes::News::Seen || now - known.saved_wall_ns >= kSavePause) save(key, known);
  return news;
}

bool Learnt::are_alike(const StepSpec& a, const StepSpec& b) { return key_of(a) == key_of(b); }

void Learnt::save() {
  for (auto& [key, known] : steps_) save(key, known);
}

void Learnt::save(std::uint64_t key, Known& known) {
  if (std::exchange(known.is_saved, true)) return;
  known.saved_wall_ns = clock_.now().wall_ns;
  json records = json::array();
  for (const UsageRecord& record : known.records) records.push_back(json_of(record));
  json fact = {{"key", fmt::format("{:016x}", key)},
               {"step", known.name},
               {"used", known.used_wall_ns},
               {"records", std::move(records)}};
  if (known.gpu.all() != GpuNeed{}) {
    fact["gpu_need"] = json_of(known.gpu.all());
    json& seen = fact["gpu_seen"] = json::array();
    for (const GpuShapes::Seen& one : known.gpu.seen()) {
      seen.push_back(json::array({json_of(one.need), json_of(one.parameters)}));
    }
  }
  record_(row::Meta{kLearntKey + std::to_string(known.slot), json_text(fact)});
}

std::optional<Estimate> Learnt::estimate(const StepSpec& step, const RunSpec* run) const {
  if (steps_.empty()) return std::nullopt;
  const auto it = steps_.find(key_of(step));
  if (it == steps_.end()) return std::nullopt;
  return pergpu::estimate(it->second.records, it->second.weights,
                          run == nullptr ? std::vector<ParameterMark>() : marks_of(*run));
}

std::optional<Estimate> Learnt::estimate_of_step(const StepSpec& step) const {
  if (steps_.empty()) return std::nullopt;
  const auto it = steps_.find(key_of(step));
  if (it == steps_.end()) return std::nullopt;
  return pergpu::estimate(it->second.records, {}, {});
}

}  // namespace pergpu
