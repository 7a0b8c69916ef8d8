// Lanes are told apart by their names.  Those of `--lanes` belong to a sweep: lane0 of one sweep is
// not lane0 of another.
#include "view/model/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

namespace pergpu::view {
namespace {

struct LaneSortKey {
  int rank = 3;  // of the pool
  std::string pool = {};
  std::int64_t number = -1;
  std::int64_t part = 0;   // of a GPU that jobs share
  std::int64_t sweep = 0;  // of lanes that belong to one
  auto operator<=>(const LaneSortKey&) const = default;
};

LaneSortKey key_of(const std::string& lane, std::int64_t sweep) {
  LaneSortKey key;
  const std::size_t digits = std::min(lane.find_first_of("0123456789"), lane.size());
  const char* const end = lane.data() + lane.size();
  key.pool = lane.substr(0, digits);
  const auto number = std::from_chars(lane.data() + digits, end, key.number);
  if (number.ptr != end && *number.ptr == '.') std::from_chars(number.ptr + 1, end, key.part);
  if (key.pool == "gpu") key.rank = 0;
  if (key.pool == "cpu") key.rank = 1;
  if (key.pool == "lane") {
    key.rank = 2;
    key.sweep = sweep;
  }
  return key;
}

/// Puts each into the first row that is free at its begin.
void lay_out(std::vector<Bar> bars, const std::string& name, const std::string& pool,
             std::vector<TimelineRow>& out) {
  std::sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) {
    return std::tie(a.begin_ns, a.end_ns, a.job, a.attempt) <
           std::tie(b.begin_ns, b.end_ns, b.job, b.attempt);
  });
  const std::size_t first = out.size();
  for (const Bar& bar : bars) {
    const auto free = std::find_if(
        out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
        [&](const TimelineRow& row) { return row.bars.back().end_ns <= bar.begin_ns; });
    if (free != out.end()) {
      free->bars.push_back(bar);
      continue;
    }
    const std::size_t nth = out.size() - first + 1;
    out.push_back(
        {.name = nth == 1 ? name : fmt::format("{} ({})", name, nth), .pool = pool, .bars = {bar}});
  }
}

}  // namespace

Timeline timeline_of(const std::vector<JobHistory>& jobs, std::int64_t now_ns) {
  struct Lane {
    std::string name = {};
    std::string sweep = {};
    std::vector<Bar> bars = {};
  };
  std::map<LaneSortKey, Lane> lanes;
  std::set<std::int64_t> sweeps_with_lanes;
  Timeline timeline;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::size_t a = 0; a < jobs[j].attempts.size(); ++a) {
      const AttemptFacts& attempt = jobs[j].attempts[a];
      if (attempt.live && attempt.started_at == 0) continue;  // not begun
      const std::int64_t end = end_of(attempt, now_ns);
      // One that could not be started is a moment.
      const std::int64_t begin = attempt.started_at != 0 ? attempt.started_at : end;
      if (attempt.lane.empty() || begin == 0 || end < begin) {
        ++timeline.left_out;
        continue;
      }
      bool is_first = true;
      for (const std::string& name : lanes_of(attempt)) {
        const LaneSortKey key = key_of(name, jobs[j].job.sweep_id);
        if (key.sweep != 0) sweeps_with_lanes.insert(key.sweep);
        Lane& lane = lanes[key];
        lane.name = name;
        lane.sweep = jobs[j].job.sweep;
        lane.bars.push_back(
            {.begin_ns = begin, .end_ns = end, .job = j, .attempt = a, .is_first = is_first});
        is_first = false;
      }
    }
  }
  for (auto& [key, lane] : lanes) {
    for (const Bar& bar : lane.bars) {
      if (timeline.begin_ns == 0 || bar.begin_ns < timeline.begin_ns) {
        timeline.begin_ns = bar.begin_ns;
      }
      timeline.end_ns = std::max(timeline.end_ns, bar.end_ns);
    }
    const bool is_ambiguous = key.sweep != 0 && sweeps_with_lanes.size() > 1;
    const std::string name = is_ambiguous ? lane.name + " of " + lane.sweep : lane.name;
    lay_out(std::move(lane.bars), name, key.pool, timeline.rows);
  }
  return timeline;
}

}  // namespace pergpu::view
