// Which sweeps are archived, as every store has to know it after these rows (store.h).
#pragma once

#include <map>
#include <variant>

#include "store/store.h"

namespace pergpu::simulation {

class ArchiveBook {
 public:
  /// The next row that is durable.
  void take(const Row& row) {
    if (const auto* job = std::get_if<row::NewJob>(&row)) sweeps_[job->id] = job->sweep;
    if (const auto* sweep = std::get_if<row::Sweep>(&row)) {
      names_[sweep->id] = {.root = sweep->root, .name = sweep->name, .at = sweep->at};
    }
    if (const auto* archived = std::get_if<row::Archived>(&row)) {
      row::Archived told = names_.at(archived->sweep);
      told.sweep = archived->sweep;
      told.key = archived->key;
      told.first_job = archived->first_job;
      told.last_job = archived->last_job;
      told.jobs = archived->jobs;
      archived_[archived->sweep] = told;
    } else if (const SweepId sweep = sweep_of(row)) {
      archived_.erase(sweep);
    }
  }
  /// Whose row it is; none: SweepId{}.
  SweepId sweep_of(const Row& row) const {
    if (const auto* sweep = std::get_if<row::Sweep>(&row)) return sweep->id;
    if (const auto* run = std::get_if<row::Run>(&row)) return run->sweep;
    if (const auto* job = std::get_if<row::NewJob>(&row)) return job->sweep;
    if (const auto* event = std::get_if<row::Event>(&row)) return sweeps_.at(event->job);
    return {};
  }
  const std::map<SweepId, row::Archived>& archived() const { return archived_; }
  bool contains(SweepId sweep) const { return archived_.contains(sweep); }

 private:
  std::map<JobId, SweepId> sweeps_;
  std::map<SweepId, row::Archived> names_;  // of all sweeps, the rest of it empty
  std::map<SweepId, row::Archived> archived_;
};

}  // namespace pergpu::simulation
