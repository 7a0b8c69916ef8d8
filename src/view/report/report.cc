// The page from top to bottom: what people ask first comes first.
#include "view/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "json_text.h"
#include "plural.h"
#include "view/charts/gantt.h"
#include "view/charts/plot.h"
#include "view/model/job_facts.h"
#include "view/report/report_style.h"
#include "view/report/report_tables.h"
#include "view/text/html.h"
#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

std::string tile(std::string_view value, std::string_view what) {
  return fmt::format("<li><b>{}</b>{}</li>\n", html_text(value), html_text(what));
}

/// "UTC+02:00"
std::string zone_text(std::int64_t offset_s) {
  const std::int64_t minutes = std::abs(offset_s) / 60;
  return fmt::format("UTC{}{:02}:{:02}", offset_s < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

std::string section(std::string_view id, std::string_view title, const std::string& content) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, title, content);
}

std::string fact(std::string_view name, std::string_view value) {
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html_text(name),
                     html_text(value));
}

/// A table of names and values.
std::string facts(std::string_view id, std::string_view caption, const std::string& rows) {
  return fmt::format(
      "<div class=\"scroll\"><table id=\"{}\"><caption>{}</caption>\n<thead><tr><th "
      "scope=\"col\">what</th><th "
      "scope=\"col\">value</th></tr></thead>\n<tbody>\n{}</tbody></table>"
      "</div>\n",
      id, html_text(caption), rows);
}

std::string ratio_text(const Efficiency& e) {
  return e.bound_s > 0 ? fmt::format("{:.2f}", e.span_s / e.bound_s) : std::string("-");
}

/// Lanes of a pool, by the beginning of their names.
std::string lanes_text(const std::string& pool) {
  if (pool == "gpu") return "GPU lanes";
  if (pool == "cpu") return "CPU lanes";
  return pool == "lane" ? "the sweep's own lanes" : pool + " lanes";
}

class Page {
 public:
  explicit Page(const Report& report)
      : r_(report),
        timeline_(timeline_of(report.jobs, report.now_ns)),
        efficiency_(efficiency_of(report.jobs, timeline_, report.machine.cores)) {
    for (const JobHistory& history : report.jobs) snapshots_.push_back(history.job);
    runs_ = run_table(report, snapshots_);
  }

  std::string text() const {
    return head() + summary() + section("timeline", "Timeline", timeline()) +
           section("efficiency", "Efficiency", efficiency()) +
           section("runs", "Runs", runs_html(r_, runs_)) + section("plots", "Metrics", plots()) +
           section("failures", "Failures", failures_html(r_)) +
           section("jobs", "Jobs", jobs_html(r_)) +
           section("attempts", "Attempts", attempts_html(r_)) +
           section("machine", "Machine", machine()) + foot();
  }

 private:
  std::string head() const {
    return fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<meta name=\"generator\" content=\"pergpu {}\">\n<title>{}: report</title>\n"
        "<style>{}</style>\n</head>\n<body>\n",
        kReportPolicy, html_text(r_.machine.version), html_text(r_.sweep.name), kReportStyle);
  }

  std::string summary() const {
    const std::map<std::string, std::int64_t> counts = counts_of(snapshots_);
    const auto count = [&](const char* state) {
      const auto found = counts.find(state);
      return found == counts.end() ? std::int64_t{0} : found->second;
    };
    const std::int64_t failed = count("failed") + count("timeout") + count("lost");
    const std::int64_t live = count("starting") + count("running") + count("stopping");
    std::int64_t all = 0;
    for (const auto& [state, jobs] : counts) all += jobs;
    const std::int64_t others = all - count("done") - failed - live;

    std::string out = fmt::format(
        "<header>\n<h1>{}</h1>\n<p class=\"soft\">{}; made {} ({}) by pergpu {} on {}</p>\n",
        html_text(r_.sweep.name), html_text(r_.sweep.root),
        date_and_time(r_.now_ns, r_.utc_offset_s), zone_text(r_.utc_offset_s),
        html_text(r_.machine.version), html_text(r_.machine.host));
    if (!r_.selector.empty()) {
      out += fmt::format("<p>Only <code>{}</code> of this sweep.</p>\n", html_text(r_.selector));
    }
    out +=
        "<ul class=\"tiles\">\n" + tile(fmt::format("{} of {}", count("done"), all), "jobs done");
    if (failed > 0) out += tile(std::to_string(failed), "failed");
    if (live > 0) out += tile(std::to_string(live), "still running");
    if (others > 0) out += tile(std::to_string(others), "queued, held, cancelled or skipped");
    if (!timeline_.rows.empty()) {
      out += tile(duration_text(efficiency_.span_s), "from the first start to the last end");
      out += tile(ratio_text(efficiency_), "times the lower bound");
    }
    out += "</ul>\n";
    out += "<nav aria-label=\"sections\">";
    for (const std::string_view id :
         {"timeline", "efficiency", "runs", "plots", "failures", "jobs", "attempts", "machine"}) {
      out += fmt::format("<a href=\"#{}\">{}</a>\n", id, id == "plots" ? "metrics" : id);
    }
    out += "</nav>\n</header>\n<main>\n";

    std::string rows = fact("sweep", r_.sweep.name) + fact("results folder", r_.sweep.root) +
                       fact("jobs", counts_text(counts, Style{})) +
                       fact("runs", std::to_string(runs_.rows.size())) +
                       fact("steps", fmt::format("{}", fmt::join(r_.sweep.steps, ", "))) +
                       fact("time zone", zone_text(r_.utc_offset_s));
    if (!timeline_.rows.empty()) {
      rows += fact("first start", date_and_time(timeline_.begin_ns, r_.utc_offset_s)) +
              fact("last end",
                   is_live() ? "not yet" : date_and_time(timeline_.end_ns, r_.utc_offset_s));
    }
    for (const auto& [name, text] : runs_.constants) {
      rows += fact("parameter " + name, plain_text(text));
    }
    for (const auto& [code, jobs] : code_of_jobs()) {
      rows += fact("git commit", fmt::format("{}: {}", code, counted(jobs, "job")));
    }
    for (const std::string& warning : r_.sweep.warnings) rows += fact("warning", warning);
    return out +
           section("summary", "Summary",
                   facts("summary-table",
                         "the sweep, with the parameters that are the same in all runs", rows));
  }

  /// Of the newest attempts: commit -> how many.
  std::map<std::string, std::int64_t> code_of_jobs() const {
    std::map<std::string, std::int64_t> found;
    for (const JobHistory& history : r_.jobs) {
      if (history.attempts.empty() || history.attempts.back().git_commit.empty()) continue;
      const AttemptFacts& last = history.attempts.back();
      ++found[last.git_commit + (last.git_dirty ? " with uncommitted changes" : "")];
    }
    return found;
  }

  bool is_live() const {
    return std::any_of(snapshots_.begin(), snapshots_.end(),
                       [](const JobSnapshot& job) { return view::is_live(job); });
  }

  std::string timeline() const {
    if (timeline_.rows.empty()) return "<p>Nothing has run yet.</p>\n";
    std::vector<double> shares;
    for (const LaneUse& lane : efficiency_.lanes) shares.push_back(lane.share);
    const Gantt gantt{.jobs = r_.jobs,
                      .timeline = timeline_,
                      .steps = r_.sweep.steps,
                      .shares = shares,
                      .utc_offset_s = r_.utc_offset_s};
    std::string out =
        "<p class=\"soft\">One row per lane, with its busy share of the time; one bar per attempt, "
        "with the index of its run. Times are relative to the first start.</p>\n" +
        gantt_legend(gantt) + "<div class=\"scroll\">" + gantt_svg(gantt) + "</div>\n";
    if (r_.without_series > 0) {
      out += fmt::format(
          "<p>Usage over time is not drawn for {} more long attempts: attempts on GPUs come first, "
          "then the longest.</p>\n",
          r_.without_series);
    }
    if (timeline_.left_out > 0) {
      out += fmt::format(
          "<p>{} attempts are not drawn: the records of their times are missing from the jobs' "
          "folders.</p>\n",
          timeline_.left_out);
    }
    return out;
  }

  std::string efficiency() const {
    if (timeline_.rows.empty()) return "<p>Nothing has run yet.</p>\n";
    const Efficiency& e = efficiency_;
    std::string rows = fact("makespan, seconds", seconds_text(e.span_s)) +
                       fact("lower bound, seconds", seconds_text(e.bound_s)) +
                       fact("makespan / lower bound", ratio_text(e)) +
                       fact("longest chain of dependencies, seconds", seconds_text(e.chain_s)) +
                       fact("work of all attempts, seconds", seconds_text(e.work_s));
    for (const PoolUse& pool : e.pools) {
      const std::string lanes = lanes_text(pool.pool);
      rows += fact(fmt::format("work on {}, seconds", lanes), seconds_text(pool.work_s)) +
              fact(fmt::format("{} used", lanes), std::to_string(pool.lanes));
    }
    return "<p>The lower bound is the longest chain of dependent jobs, or the work of the attempts "
           "divided by the lanes used, whichever is longer. No schedule of these attempts on these "
           "lanes can end earlier. It ignores pauses before retries, limits such as "
           "<code>max_parallel</code>, and times without a submitted job.</p>\n" +
           facts("efficiency-table", "computed from the measured times", rows) + lanes_html(e) +
           facts("cpu-table",
                 "cores that were reserved for the attempts, and that they used on average",
                 cpu_rows(e.cpu));
  }

  static std::string cpu_rows(const CpuUse& cpu) {
    std::string rows;
    if (cpu.cores > 0) rows += fact("cores of the machine for jobs", std::to_string(cpu.cores));
    rows += fact("most cores reserved at once", fmt::format("{:.0f}", cpu.most_shares));
    if (cpu.cores > 0) {
      rows +=
          fact("seconds with more cores reserved than available", seconds_text(cpu.beyond_cores_s));
    }
    rows += fact("most cores used at once", fmt::format("{:.2f}", cpu.most_used)) +
            fact("attempts that used more than they reserved", std::to_string(cpu.over_share));
    if (cpu.unknown > 0) {
      rows += fact("attempts with unknown usage", std::to_string(cpu.unknown));
    }
    return rows;
  }

  std::string plots() const {
    std::vector<std::string> names;
    for (const RunRow& row : runs_.rows) names.push_back(row.name);
    const std::string html = plots_html(runs_.parameters, runs_.metrics, names);
    if (!html.empty()) return html;
    return runs_.metrics.empty() ? "<p>No run has written metrics.</p>\n"
                                 : "<p>No parameter and no metric differ between runs.</p>\n";
  }

  std::string machine() const {
    const MachineFacts& m = r_.machine;
    std::string rows = fact("host", m.host) + fact("system", m.system) + fact("pergpu", m.version);
    if (m.cores > 0) rows += fact("cores for jobs", std::to_string(m.cores));
    if (m.memory_bytes > 0) {
      rows += fact("memory", size_text(static_cast<std::int64_t>(m.memory_bytes)));
    }
    return facts("machine-table", "the machine, when this page was made", rows) + gpus_html(m.gpus);
  }

  std::string foot() const {
    return "</main>\n"
           "<footer class=\"soft\">\n"
           "<p>For programs: <code>pandas.read_html(file)</code> reads the tables. The element "
           "<code>pergpu-data</code> below contains all jobs and attempts as JSON. <code>pergpu "
           "export --trace</code> writes the timeline for ui.perfetto.dev.</p>\n"
           "</footer>\n"
           "<script type=\"application/json\" id=\"pergpu-data\">" +
           script_json(json_text(data(), true)) + "</script>\n<script>" +
           std::string(kReportScript) + "</script>\n</body>\n</html>\n";
  }

  json data() const {
    json jobs = json::array();
    for (const JobHistory& history : r_.jobs) jobs.push_back(to_json_value(history));
    json lanes = json::array();
    for (const LaneUse& lane : efficiency_.lanes) {
      lanes.push_back({{"lane", lane.lane},
                       {"attempts", lane.attempts},
                       {"busy_s", lane.busy_s},
                       {"busy_share", lane.share}});
    }
    json tails = json::array();
    for (const auto& [job, lines] : r_.tails)
      tails.push_back({{"job", job}, {"last_lines", lines}});
    json gpus = json::array();
    for (const GpuSnapshot& gpu : r_.machine.gpus) {
      gpus.push_back({{"uuid", gpu.uuid},
                      {"name", gpu.name},
                      {"pci", gpu.pci},
                      {"memory_bytes", gpu.memory_bytes}});
    }
    // Not SweepSnapshot::rows: they hold parameters as written, those of secret names included.
    return {{"schema", 1},
            {"made_at", rfc3339(r_.now_ns)},
            {"sweep",
             {{"id", r_.sweep.id},
              {"name", r_.sweep.name},
              {"root", r_.sweep.root},
              {"steps", r_.sweep.steps},
              {"columns", r_.sweep.columns}}},
            {"jobs", std::move(jobs)},
            {"failures", std::move(tails)},
            {"lanes", std::move(lanes)},
            {"efficiency",
             {{"makespan_s", efficiency_.span_s},
              {"work_s", efficiency_.work_s},
              {"longest_chain_s", efficiency_.chain_s},
              {"lower_bound_s", efficiency_.bound_s}}},
            {"machine",
             {{"host", r_.machine.host},
              {"system", r_.machine.system},
              {"pergpu", r_.machine.version},
              {"cores", r_.machine.cores},
              {"memory_bytes", r_.machine.memory_bytes},
              {"gpus", std::move(gpus)}}}};
  }

  const Report& r_;
  Timeline timeline_;
  Efficiency efficiency_;
  std::vector<JobSnapshot> snapshots_;
  RunTable runs_;
};

}  // namespace

std::string report_page(const Report& report) { return Page(report).text(); }

}  // namespace pergpu::view
