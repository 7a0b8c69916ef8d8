// A sweep's jobs as they would be once a submit is taken, before it is: for `--dry-run` and `plan`.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spec/sweep/sweep.h"
#include "state/submit.h"
#include "state/world.h"

namespace pergpu {

/// The sweep's jobs as they would be once the plan is taken, by step and row of the file.
class PlannedJobs {
 public:
  struct Entry {
    JobId id = {};
    bool is_new = false;
    JobState becomes = JobState::Queued;
    bool waits = false;  // for a time, or for the end of the job's earlier version,
    JobId older = {};    // which lives; {}: there is none
  };

  PlannedJobs(const World& world, const SweepSpec& file, const SubmitPlan& plan, Instant now);

  const std::vector<Entry>& of_step(std::size_t step) const { return entries_[step]; }
  /// Queued, and all that it needs is there.
  bool ready(std::size_t step, std::size_t row) const;
  std::int32_t run_of(std::size_t row) const { return runs_[row]; }
  const std::string& folder_of(std::size_t row) const { return folders_[row]; }
  std::vector<std::string> take_folders() { return std::move(folders_); }
  /// What declares its steps to the scheduler: nothing else of it is filled.
  Sweep as_sweep(SweepId id, const SubmitContext& context) const;
  /// The step's place in Sweep::steps: World appends the new ones in file order.
  std::int16_t slot_of(std::size_t step) const { return slots_[step]; }

 private:
  const SweepSpec& file_;
  std::vector<std::vector<Entry>> entries_;
  std::vector<std::size_t> done_;   // by step
  std::vector<std::size_t> ended_;  // by step
  std::vector<std::int32_t> runs_;  // index of each row's run
  std::vector<std::string> folders_;
  std::vector<std::int16_t> slots_;
};

}  // namespace pergpu
