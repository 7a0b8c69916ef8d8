// Rows replayed into jobs and nothing else: what must hold for every store, whatever its sweeps
// are.
#pragma once

#include <map>
#include <string>

#include "job/job.h"
#include "store/store.h"

namespace pergpu::testing_store {

class Replay {
 public:
  /// What contradicts.  REQUIRES: rows in the order of Store::load().
  Result<void> absorb(const Row& row) {
    Result<void> applied;
    if (const auto* born = std::get_if<row::NewJob>(&row)) {
      Job& job = jobs[born->id];
      job = {.id = born->id, .sweep = born->sweep, .run = born->run, .step = born->step};
      applied = apply(job, event::Submitted{}, born->at);
    } else if (const auto* e = std::get_if<row::Event>(&row)) {
      applied = apply(jobs.at(e->job), e->event, e->at);
    }
    if (applied) return {};
    return Error{ErrorKind::Corrupt, 0, applied.error().message};
  }

  std::map<JobId, Job> jobs = {};
};

}  // namespace pergpu::testing_store
