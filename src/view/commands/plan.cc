// Lanes without a job are counted, not drawn.
#include "view/commands/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/snapshot.h"
#include "job/json_fields.h"
#include "job/text.h"
#include "plural.h"
#include "view/charts/lane_chart.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"

namespace pergpu::view {
namespace {

using nlohmann::json;

/// "4h", "2h14m"
std::string time_text(double seconds) {
  return pergpu::duration_text(static_cast<std::int64_t>(std::llround(seconds * 1e3)) * 1'000'000);
}

json list(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : json::array();
}

/// "03 train" of run 03-method=edm,seed=2: what differs first, because bars are short.
std::string label_of(const json& job) {
  const std::string run = string_at(job, "run");
  const std::string number = run.substr(0, run.find_first_not_of("0123456789"));
  const std::string step = string_at(job, "step");
  if (run.empty()) return step;
  return (number.empty() ? run : number) + " " + step;
}

std::string names_of(const json& plan) {
  std::string names;
  for (const json& sweep : list(plan, "sweeps")) {
    if (sweep.is_string()) names += (names.empty() ? "" : ", ") + sweep.get<std::string>();
  }
  return safe_line(names);
}

std::string lanes_text(const json& plan, std::int64_t count) {
  const std::string kind = string_at(plan, "lane_kind");
  return counted(count, kind.empty() ? "lane" : kind);
}

void add_bars(const json& jobs, bool is_other, double total_s,
              const std::map<std::string, std::size_t>& place_of, LaneChart& chart) {
  for (const json& job : jobs) {
    const double start = number_at(job, "start_s").value_or(0);
    if (start > total_s) continue;
    for (const json& lane : list(job, "lanes")) {
      const auto place = lane.is_string() ? place_of.find(lane.get<std::string>()) : place_of.end();
      if (place == place_of.end()) continue;
      chart.bars.push_back({.lane = place->second,
                            .start_s = start,
                            .end_s = number_at(job, "end_s").value_or(total_s),
                            .label = is_other ? std::string() : label_of(job),
                            .is_other = is_other});
    }
  }
}

std::string chart_text(const json& plan, double total_s, const Style& style) {
  LaneChart chart{.total_s = total_s};
  std::map<std::string, std::size_t> place_of;
  for (const json& lane : list(plan, "lanes")) {
    if (!lane.is_string()) continue;
    place_of.emplace(lane.get<std::string>(), chart.lanes.size());
    chart.lanes.push_back(lane.get<std::string>());
  }
  add_bars(list(plan, "others"), true, total_s, place_of, chart);
  add_bars(list(plan, "jobs"), false, total_s, place_of, chart);
  std::stable_sort(chart.bars.begin(), chart.bars.end(),
                   [](const auto& a, const auto& b) { return a.start_s < b.start_s; });

  std::vector<bool> is_used(chart.lanes.size(), false);
  for (const LaneChart::Bar& bar : chart.bars) is_used[bar.lane] = true;
  std::vector<std::size_t> shown_at(chart.lanes.size(), 0);
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < chart.lanes.size(); ++i) {
    shown_at[i] = shown.size();
    if (is_used[i]) shown.push_back(chart.lanes[i]);
  }
  const std::size_t idle = chart.lanes.size() - shown.size();
  for (LaneChart::Bar& bar : chart.bars) bar.lane = shown_at[bar.lane];
  chart.lanes = std::move(shown);
  std::string out = lane_chart(chart, style);
  if (idle > 0) {
    out += fmt::format("{} idle throughout\n", counted(idle, "more lane"));
  }
  return out;
}

std::string durations_text(const json& plan) {
  std::string text;
  for (const json& step : list(plan, "durations")) {
    const std::string source = string_at(step, "source");
    text +=
        fmt::format("{}{} {} ({}{})", text.empty() ? "" : ", ", safe_line(string_at(step, "step")),
                    time_text(number_at(step, "mean_s").value_or(0)),
                    counted(static_cast<std::int64_t>(number_at(step, "jobs").value_or(0)), "job"),
                    source == "learnt"  ? ", learned from done jobs"
                    : source == "given" ? ", as given"
                                        : "");
  }
  return text;
}

/// "with 9 to 16 GPUs: 4h" for those that make no difference.
std::string with_lanes_text(const json& plan) {
  struct Line {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::string total = {};
  };
  std::vector<Line> lines;
  for (const json& one : list(plan, "with_lanes")) {
    const auto lanes = static_cast<std::int64_t>(number_at(one, "lanes").value_or(0));
    const std::optional<double> total = number_at(one, "total_s");
    const std::string text = total ? time_text(*total) : "not all jobs could start";
    if (!lines.empty() && lines.back().total == text) {
      lines.back().last = lanes;
    } else {
      lines.push_back({.first = lanes, .last = lanes, .total = text});
    }
  }
  std::string out;
  for (const Line& line : lines) {
    const std::string range =
        line.first == line.last ? lanes_text(plan, line.last)
                                : fmt::format("{} to {}", line.first, lanes_text(plan, line.last));
    out += fmt::format("with {}: {}\n", range, line.total);
  }
  return out;
}

std::string headline(const json& plan, const std::optional<double>& total_s, const Style& style) {
  const auto jobs = static_cast<std::int64_t>(list(plan, "jobs").size());
  const auto lanes = static_cast<std::int64_t>(number_at(plan, "lane_count").value_or(0));
  std::string text = fmt::format("{}: {}", names_of(plan), counted(jobs, "job"));
  if (lanes > 0) text += " on " + lanes_text(plan, lanes);
  if (!total_s) return text + ", and others can't start\n";
  const std::string end = time_of_day(from_rfc3339(string_at(plan, "end_at")), style.utc_offset_s);
  return fmt::format("{}, done in {} ({})\n", text, time_text(*total_s), end);
}

}  // namespace

std::string plan_text(const json& plan, const Style& style) {
  const std::optional<double> total = number_at(plan, "total_s");
  const json jobs = list(plan, "jobs");
  if (jobs.empty() && list(plan, "stuck").empty()) return "nothing left to do\n";
  double shown_s = total.value_or(0);
  for (const json& job : jobs) shown_s = std::max(shown_s, number_at(job, "end_s").value_or(0));

  std::string out = headline(plan, total, style) + "\n" + chart_text(plan, shown_s, style) + "\n";
  if (total) out += fmt::format("total        {}\n", time_text(*total));
  out += fmt::format("lower bound  {}\n", time_text(number_at(plan, "lower_bound_s").value_or(0)));
  const json bound = plan.value("bound_by", json::object());
  out += fmt::format("bottleneck   {}\n", safe_line(string_at(bound, "words")));
  if (const std::optional<double> idle = number_at(plan, "idle_share")) {
    out += fmt::format(
        "idle         {:.0f} % of {}\n", *idle * 100,
        lanes_text(plan, static_cast<std::int64_t>(number_at(plan, "lane_count").value_or(0))));
  }
  if (const std::string durations = durations_text(plan); !durations.empty()) {
    out += fmt::format("durations    {}\n", durations);
  }
  const std::optional<double> with_expect = number_at(plan, "with_expect_s");
  if (total && with_expect && *with_expect < *total * 0.99) {
    out += fmt::format(
        "with expect  {}: set `expect` in the sweep file, and the longest jobs start first\n",
        time_text(*with_expect));
  }
  const std::string with_lanes = with_lanes_text(plan);
  return with_lanes.empty() ? out : out + "\n" + with_lanes;
}

std::vector<std::string> plan_notes(const json& plan) {
  std::vector<std::string> notes;
  const auto held = static_cast<std::int64_t>(number_at(plan, "held").value_or(0));
  if (held > 0) {
    notes.push_back(fmt::format("{} held, or need{} a held job: not counted",
                                counted(held, "job") + (held == 1 ? " is" : " are"),
                                held == 1 ? "s" : ""));
  }
  for (const json& stuck : list(plan, "stuck")) {
    notes.push_back(
        fmt::format("{} of step {} can't start: {}",
                    counted(static_cast<std::int64_t>(number_at(stuck, "jobs").value_or(0)), "job"),
                    string_at(stuck, "step"), string_at(stuck, "why")));
  }
  for (const json& note : list(plan, "notes")) {
    if (note.is_string()) notes.push_back(note.get<std::string>());
  }
  return notes;
}

std::string missing_text(const json& missing) {
  std::string text;
  for (const json& one : missing) {
    const std::string step = string_at(one, "step");
    const auto jobs = static_cast<std::int64_t>(number_at(one, "jobs").value_or(0));
    text += fmt::format(
        "{}can't estimate step {} of {} ({}): no job of it is done yet, and its file has no "
        "`expect`; write expect = \"1h\" into [steps.{}], or pass --expect {}=1h",
        text.empty() ? "" : "\n", step, string_at(one, "sweep"), counted(jobs, "job"), step, step);
  }
  return text;
}

std::string missing_question(const json& step) {
  const auto jobs = static_cast<std::int64_t>(number_at(step, "jobs").value_or(0));
  return safe_line(fmt::format("How long does a job of step {} take ({} of {})? ",
                               string_at(step, "step"), jobs, string_at(step, "sweep")));
}

}  // namespace pergpu::view
