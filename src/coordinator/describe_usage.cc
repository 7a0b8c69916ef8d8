// A measure that was not read is left out, so that it is not taken for zero.
#include "coordinator/describe_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "gpu/throttle.h"
#include "job/rollup.h"
#include "job/usage_blob.h"
#include "store/present.h"

namespace pergpu {
namespace {

using nlohmann::json;

constexpr std::int64_t kReadingLasts = 30 * kSecond;

/// Null: none, or none of late.
const UsageReading* newest(const Coordinator& coordinator, AttemptId attempt) {
  const Telemetry* telemetry = coordinator.telemetry();
  const Rollup* rollup = telemetry == nullptr ? nullptr : telemetry->of(attempt);
  const store::Present* present = coordinator.present(attempt);
  const UsageReading* last = rollup != nullptr && rollup->last() ? &*rollup->last()
                             : present != nullptr                ? &present->reading
                                                                 : nullptr;
  if (last == nullptr) return nullptr;
  const std::int64_t age = coordinator.now().boot_ns - last->boot_ns;
  return age > kReadingLasts ? nullptr : last;
}

/// Floats have some seven digits: no more are shown, and none of what is counted behind the point.
json value_json(Measure m, double value) {
  switch (m) {
    case Measure::Resident:
    case Measure::Proportional:
    case Measure::Read:
    case Measure::Written:
    case Measure::GpuMemory:
      return static_cast<std::int64_t>(std::clamp(value, 0.0, 1e18));
    case Measure::Cores:
    case Measure::Processes:
    case Measure::GpuBusy:
    case Measure::GpuPower:
    case Measure::GpuTemperature:
    case Measure::GpuClock:
      break;
  }
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

json bucket_json(const UsageBucket& bucket, std::int64_t from_wall_ns) {
  json j = {{"at", rfc3339(from_wall_ns)}, {"readings", bucket.readings}};
  for (const Measure m : kAllMeasures) {
    const Stat& stat = bucket[m];
    if (stat.count == 0) continue;
    j[std::string(to_string(m))] = {value_json(m, static_cast<double>(stat.least)),
                                    value_json(m, *stat.mean()),
                                    value_json(m, static_cast<double>(stat.most))};
  }
  j["throttle"] = gpu::throttle_words(bucket.throttle);
  return j;
}

json series_json(AttemptId attempt, std::int64_t step_ns, json buckets) {
  return {{"schema", 1},
          {"job", attempt.job.value},
          {"attempt", attempt.number},
          {"step_s", step_ns / kSecond},
          {"buckets", std::move(buckets)}};
}

}  // namespace

void tell_usage(const Coordinator& coordinator, AttemptId attempt, JobSnapshot& to) {
  const UsageReading* reading = newest(coordinator, attempt);
  if (reading == nullptr) return;
  const auto value = [&](Measure m) -> std::optional<double> {
    const std::optional<float>& told = (*reading)[m];
    return told ? std::optional(static_cast<double>(*told)) : std::nullopt;
  };
  const auto bytes = [&](Measure m) -> std::optional<std::int64_t> {
    const std::optional<float>& told = (*reading)[m];
    return told ? std::optional(static_cast<std::int64_t>(*told)) : std::nullopt;
  };
  to.cores = value(Measure::Cores);
  to.resident_bytes = bytes(Measure::Resident);
  to.gpu_busy_percent = value(Measure::GpuBusy);
  to.gpu_memory_bytes = bytes(Measure::GpuMemory);
}

void tell_usage(const Coordinator& coordinator, GpuSnapshot& to) {
  const Telemetry* telemetry = coordinator.telemetry();
  const GpuUsage* usage = telemetry == nullptr ? nullptr : telemetry->gpu(to.uuid);
  if (usage == nullptr) return;
  if (usage->busy_percent) to.busy_percent = *usage->busy_percent;
  if (usage->used_bytes) to.used_bytes = static_cast<std::int64_t>(*usage->used_bytes);
  if (usage->power_mw) to.power_w = static_cast<double>(*usage->power_mw) / 1000;
  if (usage->temperature_c) to.temperature_c = *usage->temperature_c;
  if (usage->clock_mhz) to.clock_mhz = *usage->clock_mhz;
  if (usage->throttle) to.throttle = gpu::throttle_words(*usage->throttle);
}

json describe_usage(const Coordinator& coordinator, const Job& job) {
  std::optional<UsageSummary> summary;
  json now = nullptr;
  if (job.last->outcome) {
    summary = job.last->outcome->usage;
  } else if (coordinator.telemetry() != nullptr) {
    const AttemptId attempt{job.id, job.last->number};
    summary = coordinator.telemetry()->summary(attempt);
    if (const UsageReading* reading = newest(coordinator, attempt)) {
      now = json::object();
      for (const Measure m : kAllMeasures) {
        if ((*reading)[m]) now[std::string(to_string(m))] = value_json(m, *(*reading)[m]);
      }
    }
  }
  if (!summary) return nullptr;
  json mean = json::object();
  json most = json::object();
  for (const Measure m : kAllMeasures) {
    const std::optional<UsageSummary::Extent>& extent = (*summary)[m];
    if (!extent) continue;
    mean[std::string(to_string(m))] = value_json(m, extent->mean);
    most[std::string(to_string(m))] = value_json(m, extent->most);
  }
  json j = {{"readings", summary->readings},
            {"now", std::move(now)},
            {"mean", std::move(mean)},
            {"most", std::move(most)},
            {"throttle", gpu::throttle_words(summary->throttle)}};
  if (summary->read_bytes) j["read_bytes"] = *summary->read_bytes;
  if (summary->written_bytes) j["written_bytes"] = *summary->written_bytes;
  return j;
}

json describe_learnt(const Estimate& learnt) {
  const auto bytes = [](const std::optional<std::uint64_t>& known) {
    return known ? json(*known) : json();
  };
  return {{"jobs", learnt.jobs},
          {"duration_s", learnt.duration_s},
          {"memory_bytes", bytes(learnt.memory_bytes)},
          {"gpu_memory_bytes", bytes(learnt.gpu_memory_bytes)}};
}

std::optional<json> describe_series(const Coordinator& coordinator, AttemptId attempt,
                                    const Request& request) {
  const Telemetry* telemetry = coordinator.telemetry();
  const Rollup* rollup = telemetry == nullptr ? nullptr : telemetry->of(attempt);
  if (rollup == nullptr) return std::nullopt;
  const Instant now = coordinator.now();
  const std::int64_t from_ns =
      request.from_wall_ns == 0 ? 0 : now.boot_ns - (now.wall_ns - request.from_wall_ns);
  const Rollup::Series series = rollup->series(from_ns, request.step_s * kSecond);
  json buckets = json::array();
  for (const UsageBucket& bucket : series.buckets) {
    buckets.push_back(bucket_json(bucket, now.wall_ns - (now.boot_ns - bucket.from_ns)));
  }
  return series_json(attempt, series.step_ns, std::move(buckets));
}

Result<json> describe_series(AttemptId attempt, const std::vector<row::Usage>& rows,
                             const Request& request) {
  json buckets = json::array();
  for (const row::Usage& row : rows) {
    const Result<std::vector<UsageBucket>> minutes = minutes_of_bytes(row.minutes, row.at.wall_ns);
    if (!minutes) return minutes.error();
    for (const UsageBucket& minute : *minutes) {
      if (minute.from_ns + minute.width_ns <= request.from_wall_ns) continue;
      buckets.push_back(bucket_json(minute, minute.from_ns));
    }
  }
  return series_json(attempt, Rollup::kMinuteNs, std::move(buckets));
}

}  // namespace pergpu
