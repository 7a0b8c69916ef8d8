// The order that is not asked for otherwise: what runs, what waits, what is held, then what ended,
// the last first.
#include "view/top/top_rows.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "view/model/job_facts.h"
#include "view/model/top_snapshot.h"
#include "view/text/natural_order.h"

namespace pergpu::view {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool contains_any_case(std::string_view text, std::string_view word) {
  return lower(text).find(word) != std::string::npos;
}

/// As it is shown, and each by its name: "gpu0-3 gpu0 gpu1 gpu2 gpu3".
std::string lane_words(const JobSnapshot& job) {
  std::string words = lane_text_of(job);
  if (job.lanes.size() < 2) return words;
  for (const std::string& lane : job.lanes) words += " " + lane;
  return words;
}

/// Null: there is no such field.
const std::string* field_of(const JobSnapshot& job, std::string_view field, std::string& storage) {
  if (field == "sweep") return &job.sweep;
  if (field == "run") return &job.run;
  if (field == "step") return &job.step;
  if (field == "state") return &job.state;
  if (field == "reason") return &job.reason;
  if (field == "lane") return &(storage = lane_words(job));
  if (field == "id") return &(storage = std::to_string(job.id));
  return nullptr;
}

/// `word` is in small letters.
bool holds(const JobSnapshot& job, std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos) {
    std::string storage;
    const std::string* field = field_of(job, word.substr(0, equals), storage);
    // Else it is part of a run's name: "method=edm".
    if (field != nullptr) return contains_any_case(*field, word.substr(equals + 1));
  }
  return contains_any_case(name_of(job), word) || contains_any_case(job.state, word) ||
         contains_any_case(std::to_string(job.id), word) ||
         contains_any_case(lane_words(job), word) || contains_any_case(job.reason, word);
}

int rank_of(const JobSnapshot& job) {
  if (is_live(job)) return 0;
  if (job.state == "queued") return 1;
  if (job.state == "held") return 2;
  return 3;
}

/// Those without a lane come last.
NaturalName lane_key(const JobSnapshot& job) {
  return {job.lane && !is_waiting(job) ? *job.lane : std::string_view("~")};
}

bool comes_before(const JobSnapshot& a, const JobSnapshot& b, TopSort sort, std::int64_t now_ns) {
  switch (sort) {
    case TopSort::Order:
      return std::tuple(rank_of(a), rank_of(a) == 3 ? -a.ended_at : 0, a.id) <
             std::tuple(rank_of(b), rank_of(b) == 3 ? -b.ended_at : 0, b.id);
    case TopSort::Id:
      return a.id < b.id;
    case TopSort::Name:
      return std::tie(a.sweep, a.run, a.step, a.id) < std::tie(b.sweep, b.run, b.step, b.id);
    case TopSort::State:
      return std::tie(a.state, a.id) < std::tie(b.state, b.id);
    case TopSort::Time:
      return std::tuple(-elapsed_s(a, now_ns), a.id) < std::tuple(-elapsed_s(b, now_ns), b.id);
    case TopSort::Lane:
      return std::tuple(lane_key(a), a.id) < std::tuple(lane_key(b), b.id);
  }
  return a.id < b.id;
}

}  // namespace

bool passes(const JobSnapshot& job, std::string_view filter) {
  const std::string words = lower(filter);
  std::string_view rest = words;
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    const bool is_unwanted = word.starts_with('!');
    if (is_unwanted) word.remove_prefix(1);
    if (word.empty()) continue;
    if (holds(job, word) == is_unwanted) return false;
  }
  return true;
}

std::vector<const JobSnapshot*> rows_of(const TopSnapshot& snapshot, const TopState& state) {
  std::vector<const JobSnapshot*> rows;
  rows.reserve(snapshot.jobs.size());
  for (const auto& [id, job] : snapshot.jobs) {
    if (state.filter.empty() || passes(job, state.filter)) rows.push_back(&job);
  }
  std::sort(rows.begin(), rows.end(), [&](const JobSnapshot* a, const JobSnapshot* b) {
    return comes_before(*a, *b, state.sort, snapshot.now_ns);
  });
  if (state.reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

std::string_view name_of(TopSort sort) {
  switch (sort) {
    case TopSort::Order:
      return "order";
    case TopSort::Id:
      return "id";
    case TopSort::Name:
      return "job";
    case TopSort::State:
      return "state";
    case TopSort::Time:
      return "time";
    case TopSort::Lane:
      return "lane";
  }
  return "?";
}

TopLayout layout_of(const TopSnapshot& snapshot, const TopState& state, const TopSurface& surface) {
  TopLayout layout;
  const int rows = surface.rows;
  int rest = rows - 2;  // the headline and the last line
  if (rest <= 0) return layout;
  if (rows >= 18 && !snapshot.sweeps.empty()) layout.sweeps = 1;
  if (state.charts && rows >= 14) {
    layout.charts = snapshot.gpus.empty() || rows < 20 ? 1 : 2;
  }
  rest -= layout.sweeps + layout.charts;
  if (state.mode == TopState::Mode::Page) {
    layout.page = rest;
    return layout;
  }
  if (state.log == TopState::Log::Large) {
    layout.log = rest;
    return layout;
  }
  const auto lanes = static_cast<int>(std::min<std::size_t>(lanes_of(snapshot).size(), 10'000));
  layout.lanes = std::min(lanes, rest >= 6 ? rest / 3 : 0);
  if (state.log == TopState::Log::Shown && rest >= 14) layout.log = std::max(4, rest / 3);
  layout.jobs = rest - layout.lanes - layout.log;
  return layout;
}

std::vector<std::string> lines_of(const TopState::Page& page, const TopSurface& surface) {
  std::vector<std::string> lines;
  for (const std::string& line : page.lines) {
    for (std::string& part : wrap(line, surface.columns)) lines.push_back(std::move(part));
  }
  return lines;
}

}  // namespace pergpu::view
