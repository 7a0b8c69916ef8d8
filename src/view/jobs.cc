// A live job's time is computed from its start, so that a table drawn later than its snapshot is
// still right; `duration_s` serves where no start is known.
#include "view/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "view/escape.h"
#include "view/lane_names.h"
#include "view/quantity.h"
#include "view/table.h"

namespace pergpu::view {
namespace {

std::string time_cell(const JobSnapshot& job, std::int64_t now_ns) {
  const double elapsed = elapsed_s(job, now_ns);
  if (elapsed < 0 || is_waiting(job)) return "-";
  if (is_live(job) && job.expected_s) {
    return fmt::format("{} / ~{}", duration_text(elapsed), duration_text(*job.expected_s));
  }
  return duration_text(elapsed);
}

std::string reason_cell(const JobSnapshot& job) {
  std::string text = job.reason;
  if (job.replaced) text += text.empty() ? "older version" : "; older version";
  for (const std::string& warning : job.warnings) {
    text += text.empty() ? "warning: " : "; warning: ";
    text += warning;
  }
  return text;
}

std::string_view after_first_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

std::string indented(std::string_view lines) {
  std::string out;
  for (; !lines.empty(); lines = after_first_line(lines)) {
    out += fmt::format("    {}\n", safe_line(lines.substr(0, lines.find('\n'))));
  }
  return out;
}

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

std::string ps_table(const std::vector<JobSnapshot>& jobs, std::int64_t now_ns,
                     const Style& style) {
  const std::vector<Column> columns = {
      {.title = "ID", .right = true},
      {.title = "JOB", .least = 20},
      {.title = "STATE"},
      {.title = "TIME", .right = true},
      {.title = "LANE"},
      {.title = "REASON", .least = 12},
  };
  std::vector<TableRow> rows;
  rows.reserve(jobs.size());
  for (const JobSnapshot& job : jobs) {
    std::string state = job.state;
    if (is_live(job) && job.attempt > 1) state += fmt::format(" #{}", job.attempt);
    rows.push_back({
        Cell{std::to_string(job.id), Tone::Plain},
        Cell{name_of(job), job.replaced ? Tone::Dim : Tone::Plain},
        Cell{state, tone_of_state(job.state)},
        Cell{time_cell(job, now_ns), Tone::Plain},
        Cell{is_waiting(job) || place_of(job).empty() ? "-" : place_of(job), Tone::Plain},
        Cell{reason_cell(job), Tone::Plain},
    });
  }
  return render_table(columns, rows, style);
}

std::string why_text(const std::vector<Why>& jobs, const Style& style) {
  std::string out;
  std::size_t done = 0;
  std::set<std::string> sweeps;
  std::string_view of_done;  // what is to be known of each of them
  for (const Why& job : jobs) {
    if (job.state == "done" && jobs.size() > 1) {
      const std::string_view more = after_first_line(job.why);
      of_done = done == 0 || more == of_done ? more : std::string_view();
      ++done;
      sweeps.insert(job.name.substr(0, job.name.find('/')));
      continue;
    }
    out += fmt::format("{} {}: {}\n", job.id, safe_line(job.name),
                       paint(style, tone_of_state(job.state), safe_line(job.state)));
    out += indented(job.why);
    if (!job.last_line.empty()) {
      out += fmt::format("    last line of its log: {}\n    whole log: pergpu logs {}\n",
                         safe_line(job.last_line), job.id);
    }
  }
  if (done > 0) {
    const std::string of = sweeps.size() == 1 ? "sweep " + safe_line(*sweeps.begin())
                                              : fmt::format("{} sweeps", sweeps.size());
    out += done == 1 ? fmt::format("1 job of {} is done\n", of)
                     : fmt::format("{} jobs of {} are done\n", done, of);
  }
  out += indented(of_done);
  return out;
}

}  // namespace pergpu::view
