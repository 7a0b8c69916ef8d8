// Columns are as wide as what stands in the rows that are shown, and shrink, the widest first,
// until they fit; where even that is too wide the last ones are cut off.
#include "view/top/top_panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plural.h"
#include "view/model/job_facts.h"
#include "view/model/top_snapshot.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"
#include "view/text/table.h"
#include "view/text/utf8.h"
#include "view/top/top_rows.h"

namespace pergpu::view {
namespace {

/// From here on there is room for a chart in each GPU's row.
constexpr int kWideEnoughForCharts = 110;
constexpr int kLaneChart = 16;

void put_row(Grid& grid, int row, const TableRow& cells, const std::vector<Column>& columns,
             const std::vector<int>& widths, Palette palette) {
  int column = 0;
  for (std::size_t i = 0; i < cells.size() && i < columns.size(); ++i) {
    const Look look = look_of(cells[i].tone, palette);
    // The last column takes what is left.
    const int width = i + 1 == columns.size() ? grid.columns() - column : widths[i];
    if (columns[i].right) {
      grid.put_right(row, column, cells[i].text, look, width);
    } else {
      grid.put(row, column, cells[i].text, look, width);
    }
    column += widths[i] + kColumnGap;
  }
}

std::string time_of(const JobSnapshot& job, std::int64_t now_ns) {
  const double elapsed = elapsed_s(job, now_ns);
  if (elapsed < 0 || is_waiting(job)) return "-";
  std::string text = duration_text(elapsed);
  if (is_live(job) && job.expected_s) text += fmt::format(" / ~{}", duration_text(*job.expected_s));
  return text;
}

std::string load_text(const TopSnapshot& s, const TopLane& lane, bool with_chart, bool unicode) {
  if (lane.uuid.empty()) return "";
  const auto load = s.loads.find(lane.uuid);
  const bool is_known = load != s.loads.end() && load->second.utilization;
  std::string text = is_known ? fmt::format("{:.0f} %", *load->second.utilization * 100) : "?";
  if (load != s.loads.end() && load->second.power_w) {
    text += fmt::format(" {:.0f} W", *load->second.power_w);
  }
  const auto chart = s.loads_so_far.find(lane.uuid);
  if (!with_chart || chart == s.loads_so_far.end() || !chart->second.any_known()) return text;
  return chart->second.sparkline(kLaneChart, 1, unicode) + pad(text, 12, true);
}

TableRow cells_of(const TopLane& lane, const TopSnapshot& s) {
  if (lane.job != nullptr) {
    const JobSnapshot& job = *lane.job;
    std::string name = fmt::format("{} {}", job.id, name_of(job));
    if (job.attempt > 1) name += fmt::format(" #{}", job.attempt);
    std::string time = time_of(job, s.now_ns);
    if (job.state != "running") time = job.state + " " + time;
    return {Cell{lane.name, Tone::Bold}, Cell{name, Tone::Plain}, Cell{time, Tone::Busy},
            Cell{"", Tone::Plain}, Cell{sign_of_life(s.newest, job), Tone::Dim}};
  }
  // A lane that was busy when it was last reported shows nothing once no live job names it.
  const bool is_closed = !lane.why.empty() && lane.state != "free";
  const std::string state = lane.state == "busy" && !is_closed ? "-" : lane.state;
  return {Cell{lane.name, Tone::Dim}, Cell{"-", Tone::Dim}, Cell{state, tone_of_state(state)},
          Cell{"", Tone::Plain}, Cell{is_closed ? lane.why : "", Tone::Plain}};
}

std::string reason_of(const JobSnapshot& job) {
  std::string text = job.reason;
  if (job.replaced) text += text.empty() ? "older version" : "; older version";
  for (const std::string& warning : job.warnings) {
    text += (text.empty() ? "warning: " : "; warning: ") + warning;
  }
  return text;
}

/// The jobs of a state that are not among those we know: a long queue is shown by its begin.
std::int64_t not_shown(const TopSnapshot& s) {
  std::int64_t all = 0;
  for (const auto& [state, count] : s.counts) all += count;
  std::int64_t known = 0;
  for (const auto& [id, job] : s.jobs) known += job.replaced ? 0 : 1;
  return std::max<std::int64_t>(0, all - known);
}

std::string jobs_title(const TopSnapshot& s, const TopState& state, std::size_t rows) {
  std::string text = counted(rows, "job");
  if (!state.filter.empty()) text += fmt::format(" with \"{}\"", state.filter);
  if (const std::int64_t more = not_shown(s); more > 0) {
    text += fmt::format(", {} more not loaded", more);
  }
  if (!state.tagged.empty()) text += fmt::format(", {} tagged", state.tagged.size());
  if (state.sort != TopSort::Order || state.reversed) {
    text += fmt::format(", by {}{}", name_of(state.sort), state.reversed ? " reversed" : "");
  }
  return text;
}

/// The last `count` lines that are not blank, as a terminal would show them.
std::vector<std::string> last_lines_of(std::string_view text, std::size_t count) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() < count) {
    if (text.back() == '\n') text.remove_suffix(1);
    const std::size_t at = text.rfind('\n');
    const std::string_view line = at == std::string_view::npos ? text : text.substr(at + 1);
    text = at == std::string_view::npos ? std::string_view() : text.substr(0, at + 1);
    const std::string_view shown = after_carriage_return(line);
    if (shown.find_first_not_of(" \t\r") != std::string_view::npos) lines.emplace_back(shown);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace

void draw_title(Grid& grid, int row, std::string_view text, Palette palette) {
  const std::string rule = "-- " + std::string(text) + " ";
  const int used = grid.put(row, 0, rule, look_of(Tone::Bold, palette));
  const int left = grid.columns() - used;
  if (left > 0) {
    grid.put(row, used, std::string(static_cast<std::size_t>(left), '-'),
             look_of(Tone::Dim, palette));
  }
}

void draw_lanes(Grid& grid, int row, int rows, const TopSnapshot& snapshot, const TopState& state,
                const TopSurface& surface) {
  std::vector<TopLane> lanes = lanes_of(snapshot);
  const auto room = static_cast<std::size_t>(rows);
  std::size_t hidden = 0;
  if (lanes.size() > room) {
    std::stable_partition(lanes.begin(), lanes.end(),
                          [](const TopLane& lane) { return lane.job != nullptr; });
    hidden = lanes.size() - (room - 1);
    lanes.resize(room - 1);
  }
  const bool has_gpus = !snapshot.gpu_lanes.empty();
  const bool with_chart = grid.columns() >= kWideEnoughForCharts;
  const std::vector<Column> columns = {
      {.title = "", .least = 6},    {.title = "", .least = 16}, {.title = "", .right = true},
      {.title = "", .right = true}, {.title = "", .least = 10},
  };
  std::vector<TableRow> cells;
  for (const TopLane& lane : lanes) {
    cells.push_back(cells_of(lane, snapshot));
    if (has_gpus) cells.back()[3].text = load_text(snapshot, lane, with_chart, surface.unicode);
  }
  const std::vector<int> widths = column_widths(columns, cells, grid.columns());
  for (const TableRow& cell : cells) put_row(grid, row++, cell, columns, widths, state.palette);
  if (hidden > 0) {
    grid.put(row, 0, "and " + counted(hidden, "more lane"), look_of(Tone::Dim, state.palette));
  }
}

void draw_jobs(Grid& grid, int row, int rows, const TopSnapshot& snapshot, const TopState& state) {
  const std::vector<const JobSnapshot*> jobs = rows_of(snapshot, state);
  draw_title(grid, row++, jobs_title(snapshot, state, jobs.size()), state.palette);
  const std::vector<Column> columns = {
      {.title = ""},
      {.title = "", .right = true},
      {.title = "", .least = 14},
      {.title = ""},
      {.title = "", .right = true},
      {.title = "", .least = 4},
      {.title = "", .least = 8},
  };
  const std::size_t end =
      std::min(jobs.size(), state.first + static_cast<std::size_t>(std::max(rows - 1, 0)));
  std::vector<TableRow> cells;
  for (std::size_t i = state.first; i < end; ++i) {
    const JobSnapshot& job = *jobs[i];
    std::string word = job.state;
    if (is_live(job) && job.attempt > 1) word += fmt::format(" #{}", job.attempt);
    cells.push_back({
        Cell{state.tagged.contains(job.id) ? "*" : " ", Tone::Bold},
        Cell{std::to_string(job.id), Tone::Plain},
        Cell{name_of(job), job.replaced ? Tone::Dim : Tone::Plain},
        Cell{word, tone_of_state(job.state)},
        Cell{time_of(job, snapshot.now_ns), Tone::Plain},
        Cell{is_waiting(job) || place_of(job).empty() ? "-" : place_of(job), Tone::Plain},
        Cell{reason_of(job), Tone::Plain},
    });
  }
  const std::vector<int> widths = column_widths(columns, cells, grid.columns());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    put_row(grid, row, cells[i], columns, widths, state.palette);
    if (state.first + i == state.row) grid.mark(row);
    ++row;
  }
  if (jobs.empty() && rows > 1) {
    const bool is_filtered = !state.filter.empty() && !snapshot.jobs.empty();
    grid.put(row, 2, is_filtered ? "no job matches the filter; Esc shows all" : "no jobs",
             look_of(Tone::Dim, state.palette));
  }
}

void draw_log(Grid& grid, int row, int rows, const TopSnapshot& snapshot, const TopState& state) {
  const auto job = snapshot.jobs.find(state.selected);
  if (job == snapshot.jobs.end()) {
    draw_title(grid, row, "log", state.palette);
    return;
  }
  draw_title(grid, row++, fmt::format("log of {} {}", job->first, name_of(job->second)),
             state.palette);
  const bool is_its = snapshot.log_of == state.selected;
  const std::vector<std::string> lines = last_lines_of(
      is_its ? snapshot.log : std::string_view(), static_cast<std::size_t>(std::max(rows - 1, 0)));
  if (lines.empty()) {
    grid.put(row, 2, job->second.attempt == 0 ? "not started yet" : "no output yet",
             look_of(Tone::Dim, state.palette), grid.columns() - 2);
  }
  for (const std::string& line : lines) grid.put(row++, 0, line);
}

}  // namespace pergpu::view
