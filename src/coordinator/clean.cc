// `pergpu clean`: ended sweeps that are not shown any more, and their results put aside.
//
// What is forgotten is one row, durable before the answer, and nothing of the history is rewritten:
// a restart skips those sweeps, the numbers of their jobs are never given again, and the same file
// submitted again is a new sweep.  The client removes the results, because that takes long and may
// hang: until it says that it has, or leaves, no sweep may begin in the same folder.  It moves them
// aside before the sweep is forgotten: of a client that dies before that the sweep is still there
// to be cleaned again, of one that dies later that row names what is left, for the next `clean`.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/attempt_planner.h"
#include "coordinator/coordinator.h"
#include "slurm/cluster.h"

namespace pergpu {

Coordinator::CleanFacts Coordinator::clean_facts(bool results) const {
  const World& world = *parts_.world;
  CleanFacts facts{.results = results};
  for (const auto& [id, live] : live_) facts.live.emplace(world.job(id)->sweep, id);
  if (!results) return facts;
  for (const auto& [id, sweep] : world.sweeps()) {
    if (!world.is_forgotten(id)) facts.folders.push_back({.path = sweep.folder(), .sweep = id});
  }
  for (const auto& [id, sweep] : world.archived()) {
    facts.folders.push_back({.path = sweep.root + "/" + sweep.name, .sweep = id});
  }
  std::ranges::sort(facts.folders, {}, &CleanFacts::Folder::path);
  return facts;
}

std::string Coordinator::why_not_cleaned(const Sweep& sweep, const CleanFacts& facts) const {
  const World& world = *parts_.world;
  if (sweep.open > 0) {
    return fmt::format("{} of its jobs {} not ended", sweep.open, sweep.open == 1 ? "has" : "have");
  }
  if (const auto live = facts.live.find(sweep.id); live != facts.live.end()) {
    return fmt::format("processes left behind by job {} are still running", live->second.value);
  }
  if (cluster_) {
    std::string rest = cluster_->why_not_gone(sweep, /*strictly=*/facts.results);
    if (!rest.empty()) return rest;
  }
  if (notices_->owes(sweep.id)) return "a notification about it is still pending";
  if (is_cleaning(sweep.id)) return "another `pergpu clean` is removing its results";
  const std::string inside = sweep.folder() + "/";
  const auto other = std::ranges::lower_bound(facts.folders, inside, {}, &CleanFacts::Folder::path);
  if (other == facts.folders.end() || !other->path.starts_with(inside)) return "";
  const Sweep* known = world.sweep(other->sweep);
  return fmt::format("its folder contains the results of sweep {}",
                     known != nullptr ? known->name : world.archived().at(other->sweep).name);
}

void Coordinator::begin_cleaning(const std::vector<SweepId>& sweeps) {
  for (const SweepId id : sweeps) {
    const Sweep& sweep = *parts_.world->sweep(id);
    cleaning_[id] = {.root = sweep.root, .name = sweep.name};
  }
}

void Coordinator::forget(const std::vector<SweepId>& sweeps, bool results) {
  for (const SweepId id : sweeps) {
    const Sweep& sweep = *parts_.world->sweep(id);
    parts_.journal->record(World::cleaned_row(id, results ? World::aside_of(sweep) : ""));
    breaker_.forget(id);
    planner_->forget_root(sweep);
    ++changes_;
  }
}

void Coordinator::begin_moving(SweepId id) { parts_.journal->record(World::moving_row(id, true)); }

void Coordinator::end_cleaning(SweepId id, bool all_told) {
  const World& world = *parts_.world;
  cleaning_.erase(id);
  if (!all_told) return;
  if (world.is_half_moved(id)) parts_.journal->record(World::moving_row(id, false));
  if (world.put_aside().contains(id)) parts_.journal->record(World::cleaned_row(id, ""));
}

std::string Coordinator::why_cleaned_now(const SweepSpec& file,
                                         const SubmitContext& context) const {
  const World& world = *parts_.world;
  const std::string root = output_root(file);
  const bool is_now = std::any_of(cleaning_.begin(), cleaning_.end(), [&](const auto& one) {
    return one.second.root == root && (context.unique_name || one.second.name == file.name);
  });
  if (is_now) {
    return "`pergpu clean` is removing results from that folder; submit again when it has finished";
  }
  if (context.unique_name || !world.is_half_moved(world.sweep_at(root, file.name))) return "";
  return fmt::format(
      "`pergpu clean` was interrupted while it removed results of that sweep; finish it with "
      "`pergpu clean {} --results --yes`, then submit again",
      file.name);
}

}  // namespace pergpu
