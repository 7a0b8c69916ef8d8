// A live job's time is computed from its start, so that a table drawn later than its snapshot is
// still right; `duration_s` serves where no start is known.
#include "view/model/job_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "view/model/lane_names.h"
#include "view/text/escape.h"

namespace pergpu::view {
namespace {

constexpr std::array<std::string_view, 11> kStateOrder = {
    "done",     "failed",  "timeout",  "lost",   "cancelled", "skipped",
    "stopping", "running", "starting", "queued", "held"};

}  // namespace

std::string short_name_of(const JobSnapshot& job) {
  return fmt::format("{}/{}", job.run.empty() ? "_once" : job.run, job.step);
}

/// An older coordinator reports only the first.
std::vector<std::string> lanes_of(const JobSnapshot& job) {
  if (!job.lanes.empty() || !job.lane) return job.lanes;
  return {*job.lane};
}

std::string lane_text_of(const JobSnapshot& job) { return lanes_text(lanes_of(job)); }

std::string place_of(const JobSnapshot& job) { return job.node ? *job.node : lane_text_of(job); }

std::string name_of(const JobSnapshot& job) {
  return fmt::format("{}/{}", job.sweep, short_name_of(job));
}

bool is_live(const JobSnapshot& job) {
  return job.state == "starting" || job.state == "running" || job.state == "stopping";
}

bool is_waiting(const JobSnapshot& job) { return job.state == "queued" || job.state == "held"; }

bool is_failure(const JobSnapshot& job) {
  return job.state == "failed" || job.state == "timeout" || job.state == "lost";
}

bool is_ended(const JobSnapshot& job) {
  return job.state == "done" || job.state == "cancelled" || job.state == "skipped" ||
         is_failure(job);
}

std::string sign_of_life(const std::map<std::int64_t, std::string>& newest,
                         const JobSnapshot& job) {
  std::string text = job.progress;
  if (!job.status.empty()) text += (text.empty() ? "" : " ") + job.status;
  if (!text.empty()) return text;
  const auto found = newest.find(job.id);
  return found == newest.end() ? std::string() : found->second;
}

double elapsed_s(const JobSnapshot& job, std::int64_t now_ns) {
  if (is_live(job) && job.started_at != 0 && now_ns != 0) {
    return std::max(0.0, static_cast<double>(now_ns - job.started_at) / 1e9);
  }
  if (job.attempt == 0) return -1;
  return job.duration_s.value_or(-1);
}

std::map<std::string, std::int64_t> counts_of(const std::vector<JobSnapshot>& jobs) {
  std::map<std::string, std::int64_t> counts;
  for (const JobSnapshot& job : jobs) {
    if (!job.replaced) ++counts[job.state];
  }
  return counts;
}

std::string counts_text(const std::map<std::string, std::int64_t>& counts, const Style& style) {
  std::string out;
  const auto add = [&](std::string_view state, std::int64_t count) {
    if (count == 0) return;
    if (!out.empty()) out += ", ";
    out += paint(style, tone_of_state(state), fmt::format("{} {}", count, safe_line(state)));
  };
  for (const std::string_view state : kStateOrder) {
    const auto found = counts.find(std::string(state));
    if (found != counts.end()) add(state, found->second);
  }
  for (const auto& [state, count] : counts) {  // of a newer coordinator
    if (std::find(kStateOrder.begin(), kStateOrder.end(), state) == kStateOrder.end())
      add(state, count);
  }
  return out.empty() ? "no jobs" : out;
}

}  // namespace pergpu::view
