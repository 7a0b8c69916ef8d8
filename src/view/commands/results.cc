// Where the terminal is too narrow, metric columns are left out from the right and the table says
// how many.
#include "view/commands/results.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "plural.h"
#include "view/model/job_facts.h"
#include "view/text/escape.h"
#include "view/text/long_text.h"
#include "view/text/quantity.h"
#include "view/text/table.h"

namespace pergpu::view {
namespace {

Cell step_cell(const RunRow& row, const std::string& step) {
  const auto found = row.jobs.find(step);
  if (found == row.jobs.end()) return Cell{};
  const JobSnapshot& job = *found->second;
  Cell cell{job.state, tone_of_state(job.state)};
  const double seconds = elapsed_s(job, 0);
  if (is_ended(job) && seconds >= 0) cell.text += " " + duration_text(seconds);
  return cell;
}

}  // namespace

std::string final_table(const SweepSnapshot& sweep, const std::vector<JobSnapshot>& jobs,
                        const MetricsOfJobs& metrics, const Style& style) {
  const std::vector<RunRow> runs = run_rows(jobs);
  std::vector<MetricColumn> shown = metric_columns(sweep, jobs, metrics);

  std::vector<Column> columns = {{.title = "RUN", .least = 8}};
  for (const std::string& name : sweep.columns) {
    columns.push_back({.title = safe_line(name), .least = 6});
  }
  for (const std::string& step : sweep.steps) columns.push_back({.title = safe_line(step)});
  std::vector<TableRow> rows;
  for (const RunRow& run : runs) {
    // The folder name repeats the parameters: where these have columns, the index is enough.
    TableRow row = {Cell{
        sweep.columns.empty() || run.index < 0 ? run.name : run.name.substr(0, run.name.find('-')),
        Tone::Plain}};
    for (std::size_t i = 0; i < sweep.columns.size(); ++i) {
      const auto at = static_cast<std::size_t>(run.index);
      const bool known = run.index >= 0 && at < sweep.rows.size() && i < sweep.rows[at].size();
      row.push_back(Cell{known ? short_value(sweep.rows[at][i], style) : "", Tone::Plain});
    }
    for (const std::string& step : sweep.steps) row.push_back(step_cell(run, step));
    rows.push_back(std::move(row));
  }

  std::size_t left_out = 0;
  for (std::size_t m = 0; m < shown.size(); ++m) {
    std::vector<Column> wider = columns;
    std::vector<TableRow> wider_rows = rows;
    wider.push_back({.title = safe_line(shown[m].title()), .right = true, .least = 0});
    for (std::size_t r = 0; r < runs.size(); ++r) {
      wider_rows[r].push_back(Cell{metric_cell(runs[r], shown[m], metrics), Tone::Plain});
    }
    if (table_width(wider, wider_rows) > room_of(style)) {
      left_out = shown.size() - m;
      break;
    }
    columns = std::move(wider);
    rows = std::move(wider_rows);
  }
  std::string out = render_table(columns, rows, style);
  if (left_out > 0) {
    out += fmt::format("({}: use a wider terminal, or see metrics.jsonl in each run's folder)\n",
                       counted(left_out, "more metric"));
  }
  return out;
}

std::string failures(const SweepSnapshot& sweep, const std::vector<JobSnapshot>& jobs,
                     const TailsOfJobs& tails, std::size_t limit, const Style& style) {
  std::string out;
  std::size_t count = 0;
  for (const JobSnapshot& job : jobs) {
    if (job.replaced || !is_failure(job) || ++count > limit) continue;
    out += fmt::format("\n{} {} {}: {}\n", paint(style, Tone::Bad, safe_line(job.state)), job.id,
                       safe_line(name_of(job)), safe_line(short_reason(job.reason)));
    if (job.log.empty()) continue;
    out += fmt::format("  {}\n", safe_line(job.log));
    const auto tail = tails.find(job.id);
    if (tail == tails.end()) continue;
    for (const std::string& line : tail->second) {
      out += fmt::format("  | {}\n", safe_line(after_carriage_return(line)));
    }
  }
  if (count > limit) {
    out += fmt::format("\nand {} more failed: pergpu ps -a {}\n", count - limit,
                       safe_line(sweep.name));
  }
  return out;
}

std::string left_running(const SweepSnapshot& sweep, const std::vector<JobSnapshot>& jobs,
                         std::size_t limit, const Style& style) {
  std::string out;
  std::size_t count = 0;
  for (const JobSnapshot& job : jobs) {
    if (job.replaced || job.state != "done" || job.reason.empty() || ++count > limit) continue;
    out += fmt::format("{} {} {}: {}\n", paint(style, Tone::Warn, "left running"), job.id,
                       safe_line(name_of(job)), safe_line(short_reason(job.reason)));
  }
  if (count == 0) return out;
  if (count > limit) {
    out += fmt::format("and {} more: pergpu ps -a {}\n", count - limit, safe_line(sweep.name));
  }
  return "\n" + out + "A job ends with its first process: make that process wait for the others.\n";
}

std::string sweep_text(const SweepSnapshot& sweep,
                       const std::map<std::string, std::int64_t>& counts, const Style& style) {
  std::string out = fmt::format("{}: {}", safe_line(sweep.name), counts_text(counts, style));
  for (const std::string& warning : sweep.warnings) out += "; " + safe_line(warning);
  return out;
}

}  // namespace pergpu::view
