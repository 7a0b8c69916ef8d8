// From top to bottom: headline, sweeps, charts, lanes, jobs, log, and one line for keys, messages
// and questions.  Only what is shown is looked at closely: ten thousand jobs cost a filter and a
// sort.
#include "view/top/top.h"

#include <fmt/format.h>

#include <algorithm>

#include "view/model/job_facts.h"
#include "view/model/top_snapshot.h"
#include "view/text/quantity.h"
#include "view/text/utf8.h"
#include "view/top/top_panels.h"
#include "view/top/top_rows.h"

namespace pergpu::view {
namespace {

constexpr int kChartColumns = 60;

Style plain_style(const TopSurface& surface) {
  return Style{.unicode = surface.unicode,
               .width = surface.columns,
               .height = surface.rows,
               .utc_offset_s = surface.utc_offset_s};
}

void draw_headline(Grid& grid, const TopSnapshot& s, const TopState& state,
                   const TopSurface& surface) {
  const Look good = look_of(Tone::Bold, state.palette);
  int column = grid.put(0, 0, "pergpu", good) + 2;
  const std::string clock = time_of_day(s.now_ns, surface.utc_offset_s);
  const int room = surface.columns - columns_of(clock) - 1;
  if (!s.trouble.empty()) {
    grid.put(0, column, s.trouble, look_of(Tone::Warn, state.palette), room - column);
  } else if (!s.known) {
    grid.put(0, column, "connecting to the coordinator", {}, room - column);
  } else {
    grid.put(0, column, counts_text(s.counts, plain_style(surface)), {}, room - column);
  }
  if (surface.columns >= 40)
    grid.put_right(0, room + 1, clock, look_of(Tone::Dim, state.palette), columns_of(clock));
}

std::int64_t count_of(const SweepSummary& sweep, const char* state) {
  const auto found = sweep.counts.find(state);
  return found == sweep.counts.end() ? 0 : found->second;
}

/// "thirteen 6/26, 1 failed | night 3/400"
std::string sweeps_text(const TopSnapshot& s, const TopSurface& surface) {
  std::string text;
  for (const SweepSummary& sweep : s.sweeps) {
    std::int64_t all = 0;
    for (const auto& [state, count] : sweep.counts) all += count;
    const std::int64_t failed =
        count_of(sweep, "failed") + count_of(sweep, "timeout") + count_of(sweep, "lost");
    if (!text.empty()) text += separator(plain_style(surface));
    text += fmt::format("{} {}/{}", sweep.name, count_of(sweep, "done"), all);
    if (failed > 0) text += fmt::format(", {} failed", failed);
    if (columns_of(text) > surface.columns) break;
  }
  return text;
}

/// "87 %", or "?" where it is not known.
std::string mean_load_text(std::optional<double> share) {
  return share ? fmt::format("{:.0f} %", *share * 100) : "?";
}

std::optional<double> mean_load(const TopSnapshot& s) {
  double sum = 0;
  int known = 0;
  for (const auto& [uuid, load] : s.loads) {
    if (!load.utilization) continue;
    sum += *load.utilization;
    ++known;
  }
  return known == 0 ? std::nullopt : std::optional(sum / known);
}

/// The GPU that is used least or most says more than a mean of charts would: each has one in its
/// row where there is room.  Here: how many of the lanes have a job, over the last minutes.
void draw_charts(Grid& grid, int row, int rows, const TopSnapshot& s, const TopState& state,
                 const TopSurface& surface) {
  const LanesInUse lanes = lanes_in_use(s, lanes_of(s));
  const Look look = look_of(Tone::Busy, state.palette);
  const int chart = std::clamp(surface.columns - 40, 8, kChartColumns);
  int column = grid.put(row, 0, "lanes  ");
  column += grid.put(row, column, s.busy.sparkline(chart, 1, surface.unicode), look);
  grid.put(row, column + 1, fmt::format("{} of {} in use", lanes.used, lanes.all));
  if (rows < 2) return;
  grid.put(row + 1, 0,
           fmt::format("GPUs   {} used on average{}", mean_load_text(mean_load(s)),
                       s.gpu_trouble.empty() ? "" : "; " + s.gpu_trouble));
}

void draw_page(Grid& grid, int row, int rows, const TopState& state, const TopSurface& surface) {
  const std::vector<std::string> lines = lines_of(state.page, surface);
  const auto begin = static_cast<std::size_t>(std::max(state.page.first, 0));
  const int room = rows - 1;
  const bool fits = lines.size() <= static_cast<std::size_t>(std::max(room, 0));
  std::string title = state.page.title;
  if (!fits) {
    title += fmt::format(
        " ({} to {} of {} lines)", begin + 1,
        std::min(begin + static_cast<std::size_t>(std::max(room, 0)), lines.size()), lines.size());
  }
  draw_title(grid, row, title, state.palette);
  for (int i = 0; i < room && begin + static_cast<std::size_t>(i) < lines.size(); ++i) {
    grid.put(row + 1 + i, 0, lines[begin + static_cast<std::size_t>(i)]);
  }
}

struct KeyHint {
  std::string_view text;
  bool changes = false;  // greyed out where nothing may be changed
};

void draw_keys(Grid& grid, int row, const TopState& state) {
  static constexpr KeyHint kHints[] = {{"? help"},        {"q leave"},        {"/ filter"},
                                       {"w why"},         {"c cancel", true}, {"p hold", true},
                                       {"r retry", true}, {"l log"},          {"s charts"},
                                       {", . sort"},      {"Space tag"}};
  int column = 0;
  for (const KeyHint& hint : kHints) {
    if (column + columns_of(hint.text) > grid.columns()) return;
    const bool is_off = hint.changes && state.readonly;
    column +=
        grid.put(row, column, hint.text, look_of(is_off ? Tone::Dim : Tone::Plain, state.palette));
    column += 2;
  }
}

void draw_last_line(Grid& grid, int row, const TopState& state) {
  using Mode = TopState::Mode;
  switch (state.mode) {
    case Mode::Confirm:
      grid.put(row, 0, state.question, look_of(Tone::Bad, state.palette));
      return;
    case Mode::Filter:
      grid.put(row, 0, "filter: " + state.filter + "_", look_of(Tone::Bold, state.palette));
      return;
    case Mode::Sort:
      grid.put(row, 0, "sort by: o order, i id, j job, s state, t time, l lane",
               look_of(Tone::Bold, state.palette));
      return;
    case Mode::Page:
      grid.put(row, 0, "up, down: scroll; any other key: back");
      return;
    case Mode::Jobs:
      break;
  }
  if (!state.message.empty()) {
    grid.put(row, 0, state.message, look_of(state.message_tone, state.palette));
  } else {
    draw_keys(grid, row, state);
  }
}

}  // namespace

void settle(TopState& state, const TopSnapshot& snapshot, const TopSurface& surface) {
  std::erase_if(state.tagged, [&](std::int64_t id) { return !snapshot.jobs.contains(id); });
  const std::vector<const JobSnapshot*> rows = rows_of(snapshot, state);
  const auto chosen = std::find_if(
      rows.begin(), rows.end(), [&](const JobSnapshot* job) { return job->id == state.selected; });
  if (rows.empty()) {
    state.selected = 0;
    state.row = 0;
  } else {
    state.row = chosen != rows.end() ? static_cast<std::size_t>(chosen - rows.begin())
                                     : std::min(state.row, rows.size() - 1);
    state.selected = rows[state.row]->id;
  }
  const TopLayout layout = layout_of(snapshot, state, surface);
  if (state.mode == TopState::Mode::Page) {
    const auto lines = static_cast<int>(lines_of(state.page, surface).size());
    const int last = std::max(0, lines - std::max(layout.page - 1, 1));
    state.page.first = std::clamp(state.page.first, 0, last);
  }
  const auto shown = static_cast<std::size_t>(std::max(layout.job_rows(), 1));
  if (state.row < state.first) state.first = state.row;
  if (state.row >= state.first + shown) state.first = state.row + 1 - shown;
  if (state.first + shown > rows.size()) {
    state.first = rows.size() > shown ? rows.size() - shown : 0;
  }
}

Grid draw_top(const TopSnapshot& snapshot, const TopState& state, const TopSurface& surface) {
  Grid grid(surface.columns, surface.rows, surface.unicode);
  if (grid.rows() == 0 || grid.columns() == 0) return grid;
  const TopLayout layout = layout_of(snapshot, state, surface);
  draw_headline(grid, snapshot, state, surface);
  int row = 1;
  if (layout.sweeps > 0) grid.put(row, 0, sweeps_text(snapshot, surface));
  row += layout.sweeps;
  if (layout.charts > 0) draw_charts(grid, row, layout.charts, snapshot, state, surface);
  row += layout.charts;
  if (layout.page > 0) draw_page(grid, row, layout.page, state, surface);
  row += layout.page;
  if (layout.lanes > 0) draw_lanes(grid, row, layout.lanes, snapshot, state, surface);
  row += layout.lanes;
  if (layout.jobs > 0) draw_jobs(grid, row, layout.jobs, snapshot, state);
  row += layout.jobs;
  if (layout.log > 0) draw_log(grid, row, layout.log, snapshot, state);
  if (grid.rows() >= 2) draw_last_line(grid, grid.rows() - 1, state);
  return grid;
}

}  // namespace pergpu::view
