// One function a mode.  Nothing that ends a job happens by one key alone: it is asked for first.
#include "view/top/top_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "utf8_bytes.h"
#include "view/model/job_facts.h"
#include "view/text/utf8.h"
#include "view/top/top_rows.h"

namespace pergpu::view {
namespace {

using Kind = TopAction::Kind;
using Mode = TopState::Mode;
using Name = TopKey::Name;

constexpr std::array kSorts = {TopSort::Order, TopSort::Id,   TopSort::Name,
                               TopSort::State, TopSort::Time, TopSort::Lane};
constexpr std::size_t kLongestFilter = 200;

bool is(const TopKey& key, char c) {
  return key.name == Name::Char && key.code == static_cast<unsigned char>(c);
}

void say(TopState& state, std::string words, Tone tone = Tone::Plain) {
  state.message = std::move(words);
  state.message_tone = tone;
}

void move_to(TopState& state, const TopSnapshot& snapshot, std::int64_t row) {
  const std::vector<const JobSnapshot*> rows = rows_of(snapshot, state);
  if (rows.empty()) return;
  const auto last = static_cast<std::int64_t>(rows.size()) - 1;
  state.row = static_cast<std::size_t>(std::clamp<std::int64_t>(row, 0, last));
  state.selected = rows[state.row]->id;
}

/// The rows that a key moves by; 0: it moves nothing.
std::int64_t distance(const TopKey& key, int page) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  if (key.name == Name::Up || is(key, 'k')) return -1;
  if (key.name == Name::Down || is(key, 'j')) return 1;
  if (key.name == Name::PageUp) return -std::max(page, 1);
  if (key.name == Name::PageDown) return std::max(page, 1);
  if (key.name == Name::Home) return -kFar;
  if (key.name == Name::End) return kFar;
  return 0;
}

/// The tagged jobs, else the chosen one.
std::vector<std::int64_t> chosen(const TopState& state) {
  if (!state.tagged.empty()) return {state.tagged.begin(), state.tagged.end()};
  if (state.selected != 0) return {state.selected};
  return {};
}

std::string names_of(const std::vector<std::int64_t>& jobs, const TopSnapshot& snapshot) {
  const auto first = snapshot.jobs.find(jobs.front());
  std::string text = fmt::format("{}", jobs.front());
  if (first != snapshot.jobs.end()) text += " " + name_of(first->second);
  if (jobs.size() > 1) text += fmt::format(" and {} more", jobs.size() - 1);
  return text;
}

bool is_held(std::int64_t id, const TopSnapshot& snapshot) {
  const auto job = snapshot.jobs.find(id);
  return job != snapshot.jobs.end() && job->second.state == "held";
}

void sort_by(TopState& state, TopSort sort) {
  state.sort = sort;
  say(state, fmt::format("sorted by {}", name_of(sort)));
}

void next_sort(TopState& state, int step) {
  const auto at = std::find(kSorts.begin(), kSorts.end(), state.sort) - kSorts.begin();
  const auto count = static_cast<std::ptrdiff_t>(kSorts.size());
  sort_by(state, kSorts[static_cast<std::size_t>((at + step + count) % count)]);
}

void open_filter(TopState& state) {
  state.mode = Mode::Filter;
  state.filter_before = state.filter;
}

/// What would change a job.  Cancelling is only asked about here.
TopAction change(TopState& state, Kind kind, const TopSnapshot& snapshot) {
  if (state.readonly) {
    say(state, "--readonly: you can't change jobs here", Tone::Warn);
    return {};
  }
  std::vector<std::int64_t> jobs = chosen(state);
  if (jobs.empty()) {
    say(state, "no job is selected", Tone::Warn);
    return {};
  }
  if (kind == Kind::Hold && is_held(jobs.front(), snapshot)) kind = Kind::Release;
  if (kind != Kind::Cancel && kind != Kind::Kill) return {kind, std::move(jobs)};
  state.question = fmt::format("{} {}? y: yes, any other key: no",
                               kind == Kind::Kill ? "SIGKILL" : "cancel", names_of(jobs, snapshot));
  state.asked = {kind, std::move(jobs)};
  state.mode = Mode::Confirm;
  return {};
}

TopAction ask(TopState& state, Kind kind) {
  if (state.selected != 0) return {kind, {state.selected}};
  say(state, "no job is selected", Tone::Warn);
  return {};
}

void clear_all(TopState& state) {
  state.tagged.clear();
  state.filter.clear();
}

void tag(TopState& state, const TopSnapshot& snapshot) {
  if (state.selected == 0) return;
  if (state.tagged.erase(state.selected) == 0) state.tagged.insert(state.selected);
  move_to(state, snapshot, static_cast<std::int64_t>(state.row) + 1);
}

void next_log(TopState& state) {
  using Log = TopState::Log;
  switch (state.log) {
    case Log::Shown:
      state.log = Log::Large;
      return;
    case Log::Large:
      state.log = Log::Hidden;
      return;
    case Log::Hidden:
      state.log = Log::Shown;
      return;
  }
}

void next_palette(TopState& state) {
  if (state.palette == Palette::None) return say(state, "no colors: see --color");
  const bool is_standard = state.palette == Palette::Standard;
  state.palette = is_standard ? Palette::ColourBlind : Palette::Standard;
  say(state, is_standard ? "colors for color blindness" : "standard colors");
}

TopAction press_character(TopState& state, char c, const TopSnapshot& snapshot) {
  switch (c) {
    case 'q':
      return {Kind::Leave, {}};
    case '?':
    case 'h':
      state.page = help_page(state.readonly);
      state.mode = Mode::Page;
      return {};
    case '/':
      open_filter(state);
      return {};
    case 'f':
      open_filter(state);
      state.filter = "state=";
      return {};
    case ' ':
      tag(state, snapshot);
      return {};
    case 'o':
      state.mode = Mode::Sort;
      return {};
    case ',':
    case '<':
      next_sort(state, -1);
      return {};
    case '.':
    case '>':
      next_sort(state, 1);
      return {};
    case 'i':
      state.reversed = !state.reversed;
      return {};
    case 'w':
      return ask(state, Kind::Why);
    case 'p':
      return change(state, Kind::Hold, snapshot);
    case 'r':
      return change(state, Kind::Retry, snapshot);
    case 'c':
    case 'T':
      return change(state, Kind::Cancel, snapshot);
    case 'K':
      return change(state, Kind::Kill, snapshot);
    case 'l':
      next_log(state);
      return {};
    case 's':
      state.charts = !state.charts;
      return {};
    case 'C':
      next_palette(state);
      return {};
    case 0x0c:  // Ctrl-L
      return {Kind::Redraw, {}};
    default:
      return {};
  }
}

TopAction press_in_jobs(TopState& state, const TopKey& key, const TopSnapshot& snapshot,
                        const TopSurface& surface) {
  const std::int64_t moves = distance(key, layout_of(snapshot, state, surface).job_rows());
  if (moves != 0) {
    move_to(state, snapshot, static_cast<std::int64_t>(state.row) + moves);
    return {};
  }
  switch (key.name) {
    case Name::Char:
      return key.code < 0x80 ? press_character(state, static_cast<char>(key.code), snapshot)
                             : TopAction{};
    case Name::Enter:
      return ask(state, Kind::Show);
    case Name::Escape:
      clear_all(state);
      return {};
    case Name::F1:
      return press_character(state, '?', snapshot);
    case Name::F3:
    case Name::F4:
      return press_character(state, '/', snapshot);
    case Name::F6:
      return press_character(state, 'o', snapshot);
    case Name::F9:
      return press_character(state, 'c', snapshot);
    case Name::F10:
      return press_character(state, 'q', snapshot);
    case Name::Up:
    case Name::Down:
    case Name::PageUp:
    case Name::PageDown:
    case Name::Home:
    case Name::End:
    case Name::Backspace:
    case Name::Other:
      return {};
  }
  return {};
}

void press_in_filter(TopState& state, const TopKey& key) {
  if (key.name == Name::Enter) {
    state.mode = Mode::Jobs;
  } else if (key.name == Name::Escape) {
    state.filter = state.filter_before;
    state.mode = Mode::Jobs;
  } else if (key.name == Name::Backspace) {
    while (!state.filter.empty() && is_continuation(state.filter.back())) state.filter.pop_back();
    if (!state.filter.empty()) state.filter.pop_back();
  } else if (is(key, 0x15)) {  // Ctrl-U
    state.filter.clear();
  } else if (key.name == Name::Char && key.code >= 0x20 && key.code != 0x7f &&
             state.filter.size() < kLongestFilter) {
    append_utf8(state.filter, key.code);
  }
}

void press_in_sort(TopState& state, const TopKey& key) {
  state.mode = Mode::Jobs;
  const std::array<std::pair<char, TopSort>, 6> letters = {{{'o', TopSort::Order},
                                                            {'i', TopSort::Id},
                                                            {'j', TopSort::Name},
                                                            {'s', TopSort::State},
                                                            {'t', TopSort::Time},
                                                            {'l', TopSort::Lane}}};
  for (const auto& [letter, sort] : letters) {
    if (is(key, letter)) return sort_by(state, sort);
  }
}

void press_in_page(TopState& state, const TopKey& key, const TopSnapshot& snapshot,
                   const TopSurface& surface) {
  const int rows = layout_of(snapshot, state, surface).page - 1;
  const std::int64_t moves = distance(key, rows);
  if (moves == 0) {
    state.mode = Mode::Jobs;
    return;
  }
  const auto lines = static_cast<std::int64_t>(lines_of(state.page, surface).size());
  state.page.first = static_cast<int>(std::clamp<std::int64_t>(
      state.page.first + moves, 0, std::max<std::int64_t>(0, lines - std::max(rows, 1))));
}

}  // namespace

TopStep press(TopState state, const TopKey& key, const TopSnapshot& snapshot,
              const TopSurface& surface) {
  state.message.clear();
  TopAction action;
  switch (state.mode) {
    case Mode::Jobs:
      action = press_in_jobs(state, key, snapshot, surface);
      break;
    case Mode::Filter:
      press_in_filter(state, key);
      break;
    case Mode::Sort:
      press_in_sort(state, key);
      break;
    case Mode::Confirm:
      state.mode = Mode::Jobs;
      if (is(key, 'y') || is(key, 'Y')) action = std::exchange(state.asked, {});
      break;
    case Mode::Page:
      press_in_page(state, key, snapshot, surface);
      break;
  }
  settle(state, snapshot, surface);
  return {std::move(state), std::move(action)};
}

TopState::Page help_page(bool readonly) {
  TopState::Page page{.title = "keys of pergpu top"};
  page.lines = {
      "up down j k        select the job above or below",
      "PgUp PgDn Home End a page up or down, the first job, the last job",
      "/ F3 F4            filter: all words must match; !word must not match;",
      "                   state=failed: match one field (sweep run step lane id reason)",
      "f                  filter by state",
      ", . < >            sort by the previous or next column",
      "o F6               sort by: o order, i id, j job, s state, t time, l lane",
      "i                  reverse the order",
      "Space              tag a job: p, r, c and K then act on tagged jobs",
      "Esc                clear the filter and tags",
      "w                  why the job waits, or how it ended",
      "Enter              all details of the job",
      "l                  log: some lines, full screen, off",
      "s                  charts on or off",
      "C                  the other colors (blue and yellow)",
      "Ctrl-L             redraw",
      "q F10 Ctrl-C       leave; jobs keep running",
      "",
      readonly ? "These do nothing (--readonly):" : "These change jobs:",
      "p                  hold queued jobs, release held ones",
      "r                  retry ended jobs",
      "c T F9             cancel (asks first): SIGTERM, then SIGKILL after the grace",
      "K                  kill (asks first): SIGKILL at once",
  };
  return page;
}

}  // namespace pergpu::view
