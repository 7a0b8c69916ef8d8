// Before a submit is planned: which of the sweep's done jobs have lost outputs that their step
// declares, because they were removed.  The deciding thread touches no disk for that: it names the
// files in batches, and another thread looks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "os/clock.h"
#include "spec/sweep/sweep.h"
#include "state/declared_outputs.h"
#include "state/submit.h"
#include "state/world.h"
#include "timers.h"

namespace pergpu {

struct OutputsOfJob {
  JobId job = {};
  DeclaredOutputs outputs = {};
};

struct LostOutput {
  JobId job = {};
  std::string what = {};   // "/…/model.pt does not exist"
  bool is_certain = true;  // false: it could not be looked at
};

/// The first output of each job that is not there.  For any thread.
std::vector<LostOutput> find_lost(const std::vector<OutputsOfJob>& jobs);

/// Has find_lost() done elsewhere; `done` runs on the deciding thread, later or at once.
using LookForOutputs = std::function<void(std::vector<OutputsOfJob> jobs,
                                          std::function<void(std::vector<LostOutput>)> done)>;

class OutputSurvey {
 public:
  struct Parts {
    const World* world = nullptr;
    const Timers* timers = nullptr;
    os::Clock* clock = nullptr;
    LookForOutputs look = {};  // empty: nothing is ever lost
  };
  explicit OutputSurvey(Parts parts) : parts_(std::move(parts)) {}

  /// `done` runs exactly once, at once where there is nothing to look at.  A disk that does not
  /// answer, or not soon for that many, is waited for some seconds: then what is left counts as
  /// there.
  void begin(const SweepSpec& file, const SubmitContext& context,
             std::function<void(LostOutputs)> done) const;

 private:
  struct Walk;
  std::vector<JobId> done_jobs(const SweepSpec& file, const SubmitContext& context) const;
  void go_on(const std::shared_ptr<Walk>& walk) const;

  Parts parts_;
};

}  // namespace pergpu
