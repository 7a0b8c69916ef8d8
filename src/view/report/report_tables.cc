// Cells hold plain numbers (seconds, bytes) where a program may want them, as pandas.read_html
// does; the charts and the summary have them as people read them.
#include "view/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "job/outcome.h"
#include "view/model/job_facts.h"
#include "view/model/lane_names.h"
#include "view/text/escape.h"
#include "view/text/html.h"
#include "view/text/long_text.h"
#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

using Histories = std::map<std::int64_t, const JobHistory*>;  // one job of each run, by index

std::string text_of(const Fields& fields, const std::string& name) {
  for (const auto& [field, text] : fields) {
    if (field == name) return plain_text(text);
  }
  return "";
}

/// `order`: RFC 3339 sorts as it is.
HtmlCell time_cell(std::int64_t wall_ns, std::int64_t utc_offset_s) {
  if (wall_ns == 0) return {};
  return {.html = date_and_time(wall_ns, utc_offset_s), .order = rfc3339(wall_ns)};
}

template <typename T>
HtmlCell integer_cell(const std::optional<T>& value) {
  return number_cell(value ? std::to_string(*value) : "");
}

std::optional<std::int64_t> most_bytes(const std::optional<AttemptUsage::Extent>& extent) {
  return extent ? std::optional(static_cast<std::int64_t>(extent->most)) : std::nullopt;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
}

HtmlCell value_cell(const std::string& text) {
  HtmlCell cell = text_cell(text);
  cell.number = is_number(text);
  return cell;
}

std::string run_name(const JobSnapshot& job) { return job.run.empty() ? "_once" : job.run; }

PlotColumn parameter_column(const std::string& name, const std::vector<RunRow>& rows,
                            const Histories& histories) {
  PlotColumn column{.name = name};
  for (const RunRow& row : rows) {
    const auto found = histories.find(row.index);
    column.texts.push_back(
        found == histories.end() ? "" : shortened(text_of(found->second->params, name)));
  }
  return column;
}

}  // namespace

std::string seconds_text(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.3f}", *seconds) : std::string();
}

RunTable run_table(const Report& report, const std::vector<JobSnapshot>& jobs) {
  RunTable table{.rows = run_rows(jobs)};
  Histories histories;
  MetricsOfJobs values;
  for (const JobHistory& history : report.jobs) {
    if (history.job.replaced) continue;
    if (history.job.index) histories.try_emplace(*history.job.index, &history);
    if (!history.metrics.empty()) values[history.job.id] = history.metrics;
  }
  const std::set<std::string> differ(report.sweep.columns.begin(), report.sweep.columns.end());
  for (const std::string& name : report.sweep.columns) {
    table.parameters.push_back(parameter_column(name, table.rows, histories));
  }
  if (!histories.empty()) {
    for (const auto& [name, text] : histories.begin()->second->params) {
      if (!differ.contains(name)) table.constants.emplace_back(name, shortened(text));
    }
  }
  for (const MetricColumn& metric : metric_columns(report.sweep, jobs, values)) {
    PlotColumn column{.name = metric.title()};
    for (const RunRow& row : table.rows) {
      column.texts.push_back(plain_text(metric_cell(row, metric, values)));
    }
    table.metrics.push_back(std::move(column));
  }
  return table;
}

std::string runs_html(const Report& report, const RunTable& table) {
  std::vector<std::string> columns = {"index", "run"};
  for (const PlotColumn& parameter : table.parameters) columns.push_back(parameter.name);
  for (const std::string& step : report.sweep.steps) {
    columns.push_back(step);
    columns.push_back(step + " seconds");
  }
  for (const PlotColumn& metric : table.metrics) columns.push_back(metric.name);
  HtmlTable html("runs-table", "one row per run, with the seconds of the newest attempt", columns);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const RunRow& row = table.rows[r];
    std::vector<HtmlCell> cells = {number_cell(row.index < 0 ? "" : std::to_string(row.index)),
                                   text_cell(row.name)};
    for (const PlotColumn& parameter : table.parameters) {
      cells.push_back(value_cell(parameter.texts[r]));
    }
    for (const std::string& step : report.sweep.steps) {
      const auto found = row.jobs.find(step);
      if (found == row.jobs.end()) {
        cells.resize(cells.size() + 2);
        continue;
      }
      const JobSnapshot& job = *found->second;
      cells.push_back(state_cell(job.state));
      const double seconds = elapsed_s(job, report.now_ns);
      cells.push_back(number_cell(seconds < 0 ? "" : seconds_text(seconds)));
    }
    for (const PlotColumn& metric : table.metrics) cells.push_back(value_cell(metric.texts[r]));
    html.add(cells);
  }
  return html.take();
}

namespace {

std::string lane_text(const std::string& lane, const std::string& node) {
  return node.empty() ? lane : fmt::format("{} on {}", lane, node);
}

}  // namespace

std::string jobs_html(const Report& report) {
  HtmlTable html("jobs-table", "one row per job, with the times and cause of its newest attempt",
                 {"job", "run", "step", "state", "cause", "reason", "attempts", "exit", "signal",
                  "lane", "queued", "started", "ended", "seconds"});
  for (const JobHistory& history : report.jobs) {
    const JobSnapshot& job = history.job;
    std::string reason = job.reason;
    for (const std::string& warning : job.warnings) {
      reason += (reason.empty() ? "warning: " : "; warning: ") + warning;
    }
    const double seconds = elapsed_s(job, report.now_ns);
    html.add({number_cell(std::to_string(job.id)), text_cell(run_name(job)), text_cell(job.step),
              state_cell(job.state), text_cell(std::string(shown_class(job.cls.value_or("")))),
              text_cell(reason), number_cell(std::to_string(job.attempt)), integer_cell(job.exit),
              integer_cell(job.signal),
              text_cell(lane_text(lane_text_of(job), job.node.value_or(""))),
              time_cell(job.queued_at, report.utc_offset_s),
              time_cell(job.started_at, report.utc_offset_s),
              time_cell(job.ended_at, report.utc_offset_s),
              number_cell(seconds < 0 ? "" : seconds_text(seconds))});
  }
  return html.take();
}

std::string attempts_html(const Report& report) {
  HtmlTable html("attempts-table",
                 "one row per attempt (one execution of a job); cores and GPU busy are means",
                 {"job", "run", "step", "attempt", "outcome", "reason", "lane", "started", "ended",
                  "seconds", "CPU seconds", "cores used", "share of cores", "peak memory bytes",
                  "GPU busy percent", "peak GPU memory bytes"});
  for (const JobHistory& history : report.jobs) {
    const JobSnapshot& job = history.job;
    for (const AttemptFacts& attempt : history.attempts) {
      const AttemptUsage& usage = attempt.usage;
      std::string cores;
      if (attempt.cpu_s && attempt.duration_s.value_or(0) > 0) {
        cores = fmt::format("{:.2f}", *attempt.cpu_s / *attempt.duration_s);
      } else if (usage.cores) {
        cores = fmt::format("{:.2f}", usage.cores->mean);
      }
      std::optional<std::int64_t> memory = attempt.peak_memory_bytes;
      if (!memory) memory = most_bytes(usage.resident_bytes);
      const std::string busy =
          usage.gpu_busy_percent ? fmt::format("{:.1f}", usage.gpu_busy_percent->mean) : "";
      html.add({number_cell(std::to_string(job.id)), text_cell(run_name(job)), text_cell(job.step),
                number_cell(std::to_string(attempt.number)), state_cell(outcome_of(attempt)),
                text_cell(attempt.reason),
                text_cell(lane_text(lanes_text(lanes_of(attempt)), attempt.node)),
                time_cell(attempt.started_at, report.utc_offset_s),
                time_cell(attempt.ended_at, report.utc_offset_s),
                number_cell(seconds_text(attempt.duration_s)),
                number_cell(seconds_text(attempt.cpu_s)), number_cell(cores),
                integer_cell(attempt.cpus), integer_cell(memory), number_cell(busy),
                integer_cell(most_bytes(usage.gpu_memory_bytes))});
    }
  }
  return html.size() == 0 ? "<p>No attempts yet.</p>\n" : html.take();
}

std::string lanes_html(const Efficiency& efficiency) {
  HtmlTable html("lanes-table",
                 "how long each lane was busy between the first start and the last end",
                 {"lane", "attempts", "busy seconds", "busy percent"});
  for (const LaneUse& lane : efficiency.lanes) {
    html.add({text_cell(lane.lane), number_cell(std::to_string(lane.attempts)),
              number_cell(seconds_text(lane.busy_s)),
              number_cell(fmt::format("{:.1f}", lane.share * 100))});
  }
  return html.take();
}

std::string failures_html(const Report& report) {
  HtmlTable html("failures-table", "jobs that failed, timed out or were lost",
                 {"job", "run", "step", "state", "cause", "exit", "signal", "attempts", "reason"});
  std::map<std::string, std::size_t> causes;
  std::string ends;
  for (const JobHistory& history : report.jobs) {
    const JobSnapshot& job = history.job;
    if (job.replaced || !is_failure(job)) continue;
    const std::string cause(shown_class(job.cls.value_or(job.state)));
    ++causes[cause];
    html.add({number_cell(std::to_string(job.id)), text_cell(run_name(job)), text_cell(job.step),
              state_cell(job.state), text_cell(cause), integer_cell(job.exit),
              integer_cell(job.signal), number_cell(std::to_string(job.attempt)),
              text_cell(job.reason)});
    const auto tail = report.tails.find(job.id);
    if (tail == report.tails.end()) continue;
    ends += fmt::format("<h3>{} {}: {}</h3>\n<p class=\"soft\">{}</p>\n", job.id,
                        html_text(short_name_of(job)), html_text(job.reason), html_text(job.log));
    if (tail->second.empty()) {
      ends += "<p>Its log is empty or missing.</p>\n";
      continue;
    }
    ends += "<pre>";
    for (const std::string& line : tail->second) {
      ends += html_text(after_carriage_return(line)) + "\n";
    }
    ends += "</pre>\n";
  }
  if (html.size() == 0) return "<p>None.</p>\n";
  std::string counts;
  for (const auto& [cause, count] : causes) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, html_text(cause));
  }
  const std::size_t failed = html.size();
  std::string out = "<p>By cause: " + counts + ".</p>\n" + html.take() + ends;
  if (failed > report.tails.size()) {
    out += fmt::format("<p>For {} more, see <code>pergpu logs</code>.</p>\n",
                       failed - report.tails.size());
  }
  return out;
}

std::string gpus_html(const std::vector<GpuSnapshot>& gpus) {
  if (gpus.empty()) return "";
  HtmlTable html("gpus-table", "GPUs, when this page was made",
                 {"GPU", "model", "UUID", "PCI", "memory bytes", "state"});
  for (const GpuSnapshot& gpu : gpus) {
    html.add({number_cell(number_of(gpu)), text_cell(gpu.name), text_cell(gpu.uuid),
              text_cell(gpu.pci), number_cell(std::to_string(gpu.memory_bytes)),
              text_cell(gpu.state)});
  }
  return html.take();
}

}  // namespace pergpu::view
