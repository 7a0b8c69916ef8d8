// The lower bound: a chain of jobs that need each other takes its length on any number of lanes,
// and the work of one kind of lanes takes at least its share of each of them.  Neither the pauses
// before a retry nor limits such as max_parallel are part of it.
#include "view/model/efficiency.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

namespace pergpu::view {
namespace {

/// More than this times its share is more than the noise of measuring.
constexpr double kOverShare = 1.1;

/// Times are given in milliseconds: of one that took none, nothing can be said of its cores.
constexpr std::int64_t kShortestNs = 1'000'000;

double seconds_of(const Bar& bar) { return static_cast<double>(bar.end_ns - bar.begin_ns) / 1e9; }

/// How long after the begin of the first job each job could end at the earliest.
class Chains {
 public:
  Chains(const std::vector<JobHistory>& jobs, const std::vector<double>& length_s)
      : jobs_(jobs), length_s_(length_s), end_s_(jobs.size(), kUnseen) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const JobSnapshot& job = jobs[i].job;
      if (job.replaced) continue;
      of_run_[{job.step, job.index.value_or(kOnce)}] = i;
      of_step_[job.step].push_back(i);
    }
  }

  double longest() {
    double longest = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) longest = std::max(longest, end_of(i));
    return longest;
  }

 private:
  static constexpr double kUnseen = -1;
  static constexpr std::int64_t kOnce = -1;

  double end_of(std::size_t i) {
    if (end_s_[i] != kUnseen) return end_s_[i];
    end_s_[i] = length_s_[i];  // a circle, which no sweep file has, would end here
    double ready_s = 0;
    for (const std::string& need : jobs_[i].needs) {
      ready_s = std::max(ready_s, end_of_need(need, jobs_[i].job.index.value_or(kOnce)));
    }
    return end_s_[i] = ready_s + length_s_[i];
  }

  double end_of_need(const std::string& need, std::int64_t index) {
    const std::size_t colon = need.find(':');
    const std::string step = need.substr(0, colon);
    if (colon != std::string::npos) return end_of_step(step);  // ":all", ":ended"
    for (const std::int64_t of : {index, kOnce}) {
      if (const auto found = of_run_.find({step, of}); found != of_run_.end()) {
        return end_of(found->second);
      }
    }
    return 0;
  }

  double end_of_step(const std::string& step) {
    if (const auto known = step_end_s_.find(step); known != step_end_s_.end()) return known->second;
    double last = 0;
    if (const auto found = of_step_.find(step); found != of_step_.end()) {
      for (const std::size_t i : found->second) last = std::max(last, end_of(i));
    }
    return step_end_s_[step] = last;
  }

  const std::vector<JobHistory>& jobs_;
  const std::vector<double>& length_s_;
  std::vector<double> end_s_;
  std::map<std::pair<std::string, std::int64_t>, std::size_t> of_run_;
  std::map<std::string, std::vector<std::size_t>> of_step_;
  std::map<std::string, double> step_end_s_;
};

CpuUse cpu_use_of(const std::vector<JobHistory>& jobs, const Timeline& timeline, int cores) {
  CpuUse use{.cores = cores};
  struct Change {
    std::int64_t at_ns = 0;
    double shares = 0;
    double used = 0;
  };
  std::vector<Change> changes;
  for (const TimelineRow& row : timeline.rows) {
    for (const Bar& bar : row.bars) {
      if (!bar.is_first) continue;
      const AttemptFacts& attempt = jobs[bar.job].attempts[bar.attempt];
      const double seconds = seconds_of(bar);
      const double share = static_cast<double>(attempt.cpus.value_or(0));
      double used = 0;
      if (attempt.live || !attempt.cpu_s) {
        if (attempt.live || bar.end_ns - bar.begin_ns >= kShortestNs) ++use.unknown;
      } else if (seconds > 0) {
        used = *attempt.cpu_s / seconds;
        if (share > 0 && used > share * kOverShare) ++use.over_share;
      }
      changes.push_back({.at_ns = bar.begin_ns, .shares = share, .used = used});
      changes.push_back({.at_ns = bar.end_ns, .shares = -share, .used = -used});
    }
  }
  // At one instant what ends comes first: a lane is given on, not shared.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.shares < b.shares;
  });
  double shares = 0;
  double used = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    shares += changes[i].shares;
    used += changes[i].used;
    if (i + 1 == changes.size() || changes[i + 1].at_ns == changes[i].at_ns) continue;
    use.most_shares = std::max(use.most_shares, shares);
    use.most_used = std::max(use.most_used, used);
    if (cores > 0 && shares > cores) {
      use.beyond_cores_s += static_cast<double>(changes[i + 1].at_ns - changes[i].at_ns) / 1e9;
    }
  }
  return use;
}

}  // namespace

Efficiency efficiency_of(const std::vector<JobHistory>& jobs, const Timeline& timeline, int cores) {
  Efficiency e;
  e.span_s = static_cast<double>(timeline.end_ns - timeline.begin_ns) / 1e9;
  std::vector<double> length_s(jobs.size(), 0);
  std::map<std::string, PoolUse> pools;
  for (const TimelineRow& row : timeline.rows) {
    LaneUse lane{.lane = row.name, .attempts = row.bars.size()};
    for (const Bar& bar : row.bars) {
      lane.busy_s += seconds_of(bar);
      if (bar.is_first) length_s[bar.job] += seconds_of(bar);
    }
    if (e.span_s > 0) lane.share = lane.busy_s / e.span_s;
    e.work_s += lane.busy_s;
    PoolUse& pool = pools[row.pool];
    pool.pool = row.pool;
    ++pool.lanes;
    pool.work_s += lane.busy_s;
    e.lanes.push_back(std::move(lane));
  }
  e.chain_s = Chains(jobs, length_s).longest();
  e.bound_s = e.chain_s;
  for (auto& [name, pool] : pools) {
    e.bound_s = std::max(e.bound_s, pool.work_s / static_cast<double>(pool.lanes));
    e.pools.push_back(std::move(pool));
  }
  e.cpu = cpu_use_of(jobs, timeline, cores);
  return e;
}

}  // namespace pergpu::view
