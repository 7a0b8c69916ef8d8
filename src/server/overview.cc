// A look costs what it shows: the sets of the world give the first jobs of a state without a look
// at the others, and what ended is searched among the newest numbers once.
#include "server/overview.h"

#include <algorithm>
#include <utility>

namespace pergpu {
namespace {

/// How many numbers are looked at for those that ended before the first look.
constexpr std::int64_t kMostSearched = 50'000;

void add_first(const JobSet& set, std::size_t most, std::vector<JobId>& to) {
  const std::size_t end = to.size() + most;
  set.for_each_while([&](JobId id) {
    to.push_back(id);
    return to.size() < end;
  });
}

std::int64_t ended_at_ns(const Job& job) {
  return job.last ? job.last->ended_at.wall_ns : job.queued_at.wall_ns;
}

SweepSummary summary_of(const Sweep& sweep) {
  SweepSummary s{.id = sweep.id.value, .name = sweep.name, .lanes = sweep.context.lanes};
  for (const Step& step : sweep.steps) {
    for (std::size_t i = 0; i < kJobStates; ++i) {
      if (step.in_state[i] == 0) continue;
      s.counts[std::string(to_string(static_cast<JobState>(i)))] += step.in_state[i];
    }
  }
  return s;
}

}  // namespace

void Overview::changed(const std::vector<JobId>& jobs) {
  if (!knows_ended_) return;
  // Of a million that ended at once the last are enough.
  std::vector<JobId> news;
  for (auto id = jobs.rbegin(); id != jobs.rend() && news.size() < kMostShownOfAState; ++id) {
    if (is_ended(coordinator_.world().job(*id)->state)) news.push_back(*id);
  }
  for (auto id = news.rbegin(); id != news.rend(); ++id) {
    std::erase(ended_, *id);  // it was retried, and has ended again
    ended_.push_back(*id);
    if (ended_.size() > kMostShownOfAState) ended_.pop_front();
  }
}

void Overview::find_ended() {
  knows_ended_ = true;
  const World& world = coordinator_.world();
  std::vector<std::pair<std::int64_t, JobId>> found;
  const std::int64_t newest = world.next_job_id().value - 1;
  for (std::int64_t id = newest; id > 0 && newest - id < kMostSearched; --id) {
    const Job* job = world.job(JobId{id});
    const bool is_shown = job != nullptr && !world.is_forgotten(job->sweep);
    if (is_shown && is_ended(job->state)) found.emplace_back(ended_at_ns(*job), job->id);
  }
  std::sort(found.begin(), found.end());
  const std::size_t begin =
      found.size() > kMostShownOfAState ? found.size() - kMostShownOfAState : 0;
  for (std::size_t i = begin; i < found.size(); ++i) ended_.push_back(found[i].second);
}

std::vector<JobId> Overview::window() {
  if (!knows_ended_) find_ended();
  const World& world = coordinator_.world();
  std::vector<JobId> jobs;
  add_first(world.live_jobs(), kMostLiveShown, jobs);
  add_first(world.queued_jobs(), kMostShownOfAState, jobs);
  add_first(world.held_jobs(), kMostShownOfAState, jobs);
  for (const JobId id : ended_) {
    const Job& job = *world.job(id);
    if (is_ended(job.state) && !world.is_forgotten(job.sweep)) jobs.push_back(id);
  }
  std::sort(jobs.begin(), jobs.end());
  return jobs;
}

Overview::Sweeps Overview::sweeps() const {
  Sweeps out;
  // A job whose definition or row is gone from the file has its lane until it ends.
  const World& world = coordinator_.world();
  std::map<SweepId, std::map<std::string, std::int64_t>> old_ones;
  world.live_jobs().for_each([&](JobId id) {
    const Job& job = *world.job(id);
    if (world.is_current(job) && world.is_listed(id)) return;
    ++old_ones[job.sweep][std::string(to_string(job.state))];
  });
  std::vector<SweepSummary> ended;
  const std::map<SweepId, Sweep>& all = coordinator_.world().sweeps();
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const Sweep& sweep = it->second;
    if (coordinator_.world().is_forgotten(it->first)) continue;
    const bool is_open = sweep.open > 0;
    if (!is_open && ended.size() == kMostEndedSweepsShown) continue;
    SweepSummary summary = summary_of(sweep);
    if (const auto old = old_ones.find(it->first); old != old_ones.end()) {
      for (const auto& [state, count] : old->second) summary.counts[state] += count;
    }
    for (const auto& [state, count] : summary.counts) out.counts[state] += count;
    if (!is_open) {
      ended.push_back(std::move(summary));
    } else if (out.shown.size() < kMostSweepsShown) {
      out.shown.push_back(std::move(summary));
    }
  }
  for (SweepSummary& summary : ended) {
    if (out.shown.size() < kMostSweepsShown) out.shown.push_back(std::move(summary));
  }
  return out;
}

}  // namespace pergpu
