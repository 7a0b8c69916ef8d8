// Rows replayed into jobs and nothing else: what must hold for every store, whatever its sweeps
// are.
#pragma once

#include <map>
#include <string>

#include "job/job.h"
#include "store/store.h"

namespace pergpu::store {

class Replay {
 public:
  /// REQUIRES: rows in the order of Store::load().
  void absorb(const Row& row);

  const std::map<JobId, Job>& jobs() const { return jobs_; }
  /// The first contradiction; empty: there is none.
  const std::string& problem() const { return problem_; }

 private:
  std::map<JobId, Job> jobs_;
  std::string problem_;
};

}  // namespace pergpu::store
