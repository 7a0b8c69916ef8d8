// Written event by event; a sweep may have very many.
#include "view/export/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json_text.h"
#include "view/model/job_facts.h"
#include "view/model/timeline.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

constexpr int kProcess = 1;

std::string ascii_dump(const json& value) { return json_text(value, true); }

json named(const char* what, std::size_t thread, const std::string& name) {
  return {
      {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}};
}

json event_of(const Timeline& timeline, const Bar& bar, std::size_t thread,
              const JobHistory& history, bool with_sweep) {
  const AttemptFacts& attempt = history.attempts[bar.attempt];
  const JobSnapshot& job = history.job;
  json args = {{"job", job.id},       {"attempt", attempt.number}, {"sweep", job.sweep},
               {"run", job.run},      {"step", job.step},          {"outcome", outcome_of(attempt)},
               {"gpus", attempt.gpus}};
  if (!attempt.reason.empty()) args["reason"] = attempt.reason;
  if (attempt.exit) args["exit"] = *attempt.exit;
  if (attempt.signal) args["signal"] = *attempt.signal;
  if (attempt.cpu_s) args["cpu_s"] = *attempt.cpu_s;
  if (attempt.peak_memory_bytes) args["peak_memory_bytes"] = *attempt.peak_memory_bytes;
  for (const auto& [name, text] : history.params) args["params." + name] = plain_text(text);
  // Both ends are rounded the same way, so that what touches goes on touching.
  const std::int64_t begin_us = (bar.begin_ns - timeline.begin_ns) / 1000;
  const std::int64_t end_us = (bar.end_ns - timeline.begin_ns) / 1000;
  return {{"ph", "X"},
          {"pid", kProcess},
          {"tid", thread},
          {"ts", begin_us},
          {"dur", end_us - begin_us},
          {"name", with_sweep ? name_of(job) : short_name_of(job)},
          {"cat", job.step},
          {"args", std::move(args)}};
}

}  // namespace

std::string trace_text(const std::vector<JobHistory>& jobs, const std::string& machine,
                       std::int64_t now_ns) {
  const Timeline timeline = timeline_of(jobs, now_ns);
  const bool with_sweep = std::any_of(jobs.begin(), jobs.end(), [&](const JobHistory& history) {
    return history.job.sweep_id != jobs.front().job.sweep_id;
  });
  json other = {{"machine", machine}};
  if (timeline.begin_ns != 0) other["begins_at"] = rfc3339(timeline.begin_ns);
  if (timeline.left_out > 0) other["attempts_left_out"] = timeline.left_out;
  std::string out = "{\"displayTimeUnit\":\"ms\",\"otherData\":" + ascii_dump(other) +
                    ",\"traceEvents\":[\n" + ascii_dump(named("process_name", 0, machine));
  const auto add = [&](const json& event) { out += ",\n" + ascii_dump(event); };
  for (std::size_t i = 0; i < timeline.rows.size(); ++i) {
    const std::size_t thread = i + 1;
    add(named("thread_name", thread, timeline.rows[i].name));
    add({{"ph", "M"},
         {"pid", kProcess},
         {"tid", thread},
         {"name", "thread_sort_index"},
         {"args", {{"sort_index", thread}}}});
    for (const Bar& bar : timeline.rows[i].bars) {
      add(event_of(timeline, bar, thread, jobs[bar.job], with_sweep));
    }
  }
  return out + "\n]}\n";
}

}  // namespace pergpu::view
