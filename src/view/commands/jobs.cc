// Of several jobs `why` shows those that are not done.  The others are counted, and what holds for
// all of them is said once.
#include "view/commands/jobs.h"

#include <fmt/format.h>

#include <set>
#include <string_view>

#include "view/model/job_facts.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"
#include "view/text/table.h"

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
