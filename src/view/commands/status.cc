// Rows come from the lanes of the sweep's snapshot and from the lanes that live jobs name, because
// lanes may appear while the sweep is followed.  Where the terminal is too low for all, lanes with
// a job stay and the others are counted.
#include "view/commands/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "plural.h"
#include "view/commands/results.h"
#include "view/model/job_facts.h"
#include "view/text/escape.h"
#include "view/text/long_text.h"
#include "view/text/natural_order.h"
#include "view/text/quantity.h"
#include "view/text/table.h"
#include "view/text/utf8.h"

namespace pergpu::view {
namespace {

struct LaneRow {
  std::string name;
  const LaneSnapshot* lane = nullptr;
  const JobSnapshot* job = nullptr;
};

std::vector<LaneRow> lane_rows(const Followed& followed) {
  std::map<std::string, LaneRow> by_name;
  for (const LaneSnapshot& lane : followed.lanes) {
    by_name[lane.name].name = lane.name;
    by_name[lane.name].lane = &lane;
  }
  for (const std::int64_t id : followed.live) {
    const JobSnapshot& job = followed.jobs.at(id);
    for (const std::string& lane : lanes_of(job)) {
      by_name[lane].name = lane;
      by_name[lane].job = &job;
    }
  }
  std::vector<LaneRow> rows;
  for (const auto& [name, row] : by_name) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [](const LaneRow& a, const LaneRow& b) {
    return NaturalName{a.name} < NaturalName{b.name};
  });
  return rows;
}

/// A lane that was busy when the sweep was first seen is not known any more once none of our jobs
/// names it.
bool is_closed(const LaneSnapshot& lane) {
  return !lane.why.empty() && lane.state != "free" && lane.state != "busy";
}

TableRow cells_of(const LaneRow& row, const Followed& followed, std::int64_t now_ns) {
  if (row.job) {
    const JobSnapshot& job = *row.job;
    std::string name = short_name_of(job);
    if (job.attempt > 1) name += fmt::format(" #{}", job.attempt);
    std::string time = duration_text(elapsed_s(job, now_ns));
    if (job.expected_s) time += fmt::format(" / ~{}", duration_text(*job.expected_s));
    if (job.state != "running") time = job.state + " " + time;
    return {Cell{row.name, Tone::Bold}, Cell{name, Tone::Plain}, Cell{time, Tone::Busy},
            Cell{sign_of_life(followed.newest, job), Tone::Dim}};
  }
  if (!row.lane || !is_closed(*row.lane)) return {Cell{row.name, Tone::Dim}, Cell{"-", Tone::Dim}};
  return {Cell{row.name, Tone::Dim}, Cell{"-", Tone::Dim},
          Cell{row.lane->state, tone_of_state(row.lane->state)}, Cell{row.lane->why, Tone::Plain}};
}

std::string fit(const std::string& text, const Style& style) {
  return style.width > 0 ? cut(text, style.width, cut_mark(style)) : text;
}

}  // namespace

void Followed::take(JobSnapshot job) {
  const std::int64_t id = job.id;
  const auto known = jobs.find(id);
  if (known != jobs.end() && !known->second.replaced) --counts[known->second.state];
  if (!job.replaced) ++counts[job.state];
  if (is_live(job)) {
    live.insert(id);
  } else {
    live.erase(id);
    newest.erase(id);
  }
  jobs.insert_or_assign(id, std::move(job));
}

std::string expected_end(const Followed& followed, std::int64_t now_ns, const Style& style) {
  if (!followed.sweep.remaining_s) return "";
  const double since = static_cast<double>(now_ns - followed.sweep_at_ns) / 1e9;
  const double left = *followed.sweep.remaining_s - std::max(0.0, since);
  if (left <= 0) return "";
  const std::int64_t end_ns = now_ns + static_cast<std::int64_t>(left * 1e9);
  return fmt::format("about {} left ({})", duration_text(left < 10 ? 10 : left),
                     time_of_day(end_ns, style.utc_offset_s));
}

std::string headline(const Followed& followed, std::int64_t now_ns, const Style& style) {
  const auto& counts = followed.counts.empty() ? followed.sweep.counts : followed.counts;
  std::string text = sweep_text(followed.sweep, counts, style);
  const std::string end = expected_end(followed, now_ns, style);
  return end.empty() ? text : text + ", " + end;
}

std::vector<std::string> status_lines(const Followed& followed, std::int64_t now_ns,
                                      const Style& style) {
  std::vector<std::string> lines;
  Style plain = style;
  plain.colour = false;
  // Colors take bytes but no columns: cut only when the plain text does not fit.
  std::string head = headline(followed, now_ns, plain);
  const bool fits = style.width == 0 || columns_of(head) <= style.width;
  lines.push_back(fits ? headline(followed, now_ns, style) : fit(head, style));

  std::vector<LaneRow> rows = lane_rows(followed);
  const auto room = static_cast<std::size_t>(std::max(1, style.height - 4));
  std::size_t hidden = 0;
  if (rows.size() > room) {
    std::stable_partition(rows.begin(), rows.end(),
                          [](const LaneRow& row) { return row.job != nullptr; });
    hidden = rows.size() - room;
    rows.resize(room);
  }
  const std::vector<Column> columns = {
      {.title = ""},
      {.title = "", .least = 16},
      {.title = "", .right = true},
      {.title = "", .least = 10},
  };
  std::vector<TableRow> cells;
  for (const LaneRow& row : rows) cells.push_back(cells_of(row, followed, now_ns));
  for (std::string& line : split_lines(render_rows(columns, cells, style))) {
    lines.push_back(std::move(line));
  }
  if (hidden > 0) lines.push_back(fit("and " + counted(hidden, "more lane"), style));
  const std::string keys = fmt::format("q: detach{}Ctrl-C: hold queued jobs", separator(style));
  const std::string last = followed.message.empty() ? keys : followed.message;
  lines.push_back(
      paint(style, followed.message.empty() ? Tone::Dim : Tone::Warn, fit(last, style)));
  return lines;
}

std::string change_line(const JobSnapshot* before, const JobSnapshot& after, std::int64_t since_ns,
                        std::int64_t now_ns, const Style& style) {
  const bool same = before && before->state == after.state && before->attempt == after.attempt;
  // "starting" lasts until the process exists: the line that matters is the next one.
  if (same || after.state == "starting" || after.replaced) return "";
  if (!before && after.state == "queued") return "";
  if (!before && is_ended(after) && std::max(after.ended_at, after.queued_at) < since_ns) {
    return "";
  }

  std::string what = after.state;
  if (after.state == "running") {
    if (after.lane) what += " on " + place_of(after);
    if (after.attempt > 1) what += fmt::format(" (attempt {})", after.attempt);
  } else if (after.state == "queued" && before) {
    what = "queued again";
  }
  const double seconds = elapsed_s(after, now_ns);
  if (is_ended(after) && seconds >= 0) what += " after " + duration_text(seconds);
  if (after.state != "running" && !after.reason.empty()) {
    what += (after.state == "done" ? "; " : ": ") + short_reason(after.reason);
  }
  if (is_failure(after) && !after.log.empty()) what += "; log: " + after.log;
  return fmt::format("{} {} {} {}\n", time_of_day(now_ns, style.utc_offset_s), after.id,
                     safe_line(name_of(after)),
                     paint(style, tone_of_state(after.state), safe_line(what)));
}

}  // namespace pergpu::view
