// Base units, `_total` for counters, and no sample where a value is not known: unknown is not zero.
#include "view/export/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "view/model/lane_names.h"

namespace pergpu::view {
namespace {

/// Of a label's value.
std::string label_value(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string head(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string labels(std::initializer_list<std::pair<std::string_view, std::string_view>> pairs) {
  std::string out = "{";
  for (const auto& [name, value] : pairs) {
    out += (out.size() > 1 ? "," : "") + std::string(name) + "=" + label_value(value);
  }
  return out + "}";
}

constexpr std::array<std::string_view, 11> kExportedStates = {
    "queued", "held",    "starting",  "running", "stopping", "done",
    "failed", "timeout", "cancelled", "skipped", "lost"};

std::string jobs_text(const TopSnapshot& s) {
  std::string out = head("pergpu_jobs", "gauge", "Jobs of the shown sweeps, by state.");
  for (const std::string_view state : kExportedStates) {
    const auto count = s.counts.find(std::string(state));
    out += fmt::format("pergpu_jobs{} {}\n", labels({{"state", state}}),
                       count == s.counts.end() ? 0 : count->second);
  }
  out += head("pergpu_sweep_jobs", "gauge", "Jobs of a sweep, by state.");
  for (const SweepSummary& sweep : s.sweeps) {
    for (const auto& [state, count] : sweep.counts) {
      const std::string id = std::to_string(sweep.id);
      out +=
          fmt::format("pergpu_sweep_jobs{} {}\n",
                      labels({{"sweep", sweep.name}, {"sweep_id", id}, {"state", state}}), count);
    }
  }
  return out;
}

/// One gauge of all GPUs that report it.
template <typename Value>
std::string gpu_gauge(const TopSnapshot& s, std::string_view name, std::string_view help,
                      Value value) {
  std::string samples;
  for (const GpuSnapshot& gpu : s.gpus) {
    const std::optional<double> known = value(gpu);
    if (!known) continue;
    samples += fmt::format("{}{} {}\n", name, labels({{"gpu", number_of(gpu)}, {"uuid", gpu.uuid}}),
                           *known);
  }
  return samples.empty() ? samples : head(name, "gauge", help) + samples;
}

std::string gpus_text(const TopSnapshot& s) {
  using Known = std::optional<double>;
  std::string out =
      gpu_gauge(s, "pergpu_gpu_busy", "1 while a job of this user has the GPU.",
                [](const GpuSnapshot& gpu) -> Known { return gpu.state == "busy" ? 1.0 : 0.0; }) +
      gpu_gauge(s, "pergpu_gpu_usable", "1 when the GPU is free or busy with a job of this user.",
                [](const GpuSnapshot& gpu) -> Known {
                  return gpu.state == "busy" || gpu.state == "free" ? 1.0 : 0.0;
                }) +
      gpu_gauge(s, "pergpu_gpu_utilization_ratio", "Share of time with a kernel running.",
                [](const GpuSnapshot& gpu) -> Known {
                  if (!gpu.busy_percent) return std::nullopt;
                  return *gpu.busy_percent / 100;
                }) +
      gpu_gauge(s, "pergpu_gpu_memory_used_bytes", "GPU memory in use by all processes.",
                [](const GpuSnapshot& gpu) -> Known {
                  if (gpu.memory_bytes <= 0) return std::nullopt;
                  return static_cast<double>(gpu.used_bytes);
                }) +
      gpu_gauge(s, "pergpu_gpu_memory_bytes", "Memory of the GPU.",
                [](const GpuSnapshot& gpu) -> Known {
                  if (gpu.memory_bytes <= 0) return std::nullopt;
                  return static_cast<double>(gpu.memory_bytes);
                }) +
      gpu_gauge(s, "pergpu_gpu_power_watts", "Power drawn.",
                [](const GpuSnapshot& gpu) { return gpu.power_w; }) +
      gpu_gauge(s, "pergpu_gpu_temperature_celsius", "Temperature.",
                [](const GpuSnapshot& gpu) { return gpu.temperature_c; });
  return out;
}

std::string lanes_text(const TopSnapshot& s) {
  std::string samples;
  for (const LaneSnapshot& lane : s.gpu_lanes) {
    const bool is_part = lane.name.find('.') != std::string::npos;  // gpu0.1: as idle as gpu0 is
    if (!lane.idle_s || is_part) continue;
    samples += fmt::format("pergpu_lane_idle_seconds_total{} {}\n", labels({{"lane", lane.name}}),
                           *lane.idle_s);
  }
  if (samples.empty()) return samples;
  return head("pergpu_lane_idle_seconds_total", "counter",
              "Time without a job since the coordinator started.") +
         samples;
}

}  // namespace

void Durations::add(double seconds) {
  seconds = std::max(0.0, seconds);
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    if (seconds <= kBounds[i]) ++at_most_[i];
  }
  ++count_;
  sum_ += seconds;
}

std::string Durations::text(const std::string& name) const {
  std::string out;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], at_most_[i]);
  }
  return out + fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name,
                           count_, sum_);
}

void AttemptTally::see(const JobSnapshot& job) {
  Last& last = last_.try_emplace(job.id, forgotten_).first->second;
  if (job.started_at > last.started_at) {
    last.started_at = job.started_at;
    // One that waits again after an attempt was put into the queue later than that one started.
    const bool is_known = job.queued_at > 0 && job.queued_at <= job.started_at;
    if (job.started_at >= since_ns_ && is_known) {
      waited_.add(static_cast<double>(job.started_at - job.queued_at) / 1e9);
    }
  }
  if (job.ended_at > last.ended_at) {
    last.ended_at = job.ended_at;
    if (job.ended_at < since_ns_ || !job.cls) return;
    ++ended_[*job.cls];
    if (job.duration_s) ran_.add(*job.duration_s);
  }
}

void AttemptTally::forget(std::int64_t job) {
  const auto found = last_.find(job);
  if (found == last_.end()) return;
  forgotten_.started_at = std::max(forgotten_.started_at, found->second.started_at);
  forgotten_.ended_at = std::max(forgotten_.ended_at, found->second.ended_at);
  last_.erase(found);
}

std::string AttemptTally::text() const {
  std::string out = head("pergpu_attempts_ended_total", "counter",
                         "Attempts that ended since this server started, by class.");
  for (const auto& [cls, count] : ended_) {
    out += fmt::format("pergpu_attempts_ended_total{} {}\n", labels({{"class", cls}}), count);
  }
  return out +
         head("pergpu_attempt_seconds", "histogram",
              "Run time of attempts that ended since this server started.") +
         ran_.text("pergpu_attempt_seconds") +
         head("pergpu_queue_wait_seconds", "histogram",
              "Queue time of attempts that started since this server started.") +
         waited_.text("pergpu_queue_wait_seconds");
}

std::string prometheus_text(const TopSnapshot& snapshot, const AttemptTally& tally) {
  return jobs_text(snapshot) + gpus_text(snapshot) + lanes_text(snapshot) + tally.text();
}

}  // namespace pergpu::view
