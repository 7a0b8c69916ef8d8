// What a forecast (forecast/forecast.h) is made of: every job that has not ended, as the world has
// it or as it would be once a submit is taken.  Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "forecast/forecast.h"
#include "forecast/learnt.h"
#include "forecast/telemetry.h"
#include "state/planned_jobs.h"
#include "state/world.h"

namespace pergpu {

/// An attempt of this machine, as far as a forecast goes.
struct RunningAttempt {
  AttemptId id = {};
  StepKey key = {};
  Demand demand = {};
  LaneId lane = {};
  std::vector<std::string> gpus = {};
  bool starting_up = false;
  bool has_ended = false;
};

struct ForecastInput {
  ForecastJobs jobs = {};
  ForecastMachine machine = {};
  std::vector<JobId> ids = {};   // by job; of one that is only planned the number it would get
  std::vector<bool> asked = {};  // by job: it is what is asked about, others only compete
  std::int64_t now_boot_ns = 0;  // when it was taken
  std::int64_t now_wall_ns = 0;

  /// What people see of a job.
  struct Name {
    std::string sweep = {};
    std::string run = {};  // folder; "": of a once-step
    std::string step = {};
    bool is_new = false;  // only planned
  };
  std::vector<Name> names = {};  // by job; empty if they were not asked for

  std::string path_of(std::uint32_t job) const;
};

/// Durations in ns that were given for steps by name, for the jobs that are asked about.
using GivenDurations = std::map<std::string, std::int64_t>;

/// What a job that a cluster runs asks of this machine: a lane of its sweep's, which is none of the
/// machine's, and nothing else.
Demand demand_on_cluster(const StepSpec& step);

class ForecastInputBuilder {
 public:
  struct Parts {
    const World* world = nullptr;
    std::map<JobId, RunningAttempt> running = {};
    const Learnt* learnt = nullptr;
    const Telemetry* telemetry = nullptr;  // may be null
    Instant now = {};
    GivenDurations given = {};
    bool with_names = false;
  };
  explicit ForecastInputBuilder(Parts parts);

  /// All open jobs of the world.  Of sweep `planned` the live ones only: its others come with the
  /// plan.  `asked`: whether a job is what is asked about.
  void add_world(SweepId planned, const std::function<bool(JobId)>& asked);
  /// Those of a sweep as its submit would have them; they are what is asked about.  `file` and
  /// `planned` outlive build().
  void add_planned(const SweepSpec& file, const SubmitPlan& plan, const PlannedJobs& planned);
  /// Without `machine`.  What can never start because of a held job counts as held itself.
  ForecastInput build();

 private:
  std::uint32_t add(JobId id, ForecastJob job, bool asked, ForecastInput::Name name);
  void add_job(const Job& job, bool asked);
  void add_live(const Job& job, ForecastJob forecast, bool asked);
  void add_elsewhere(const Job& job, ForecastJob forecast, bool asked);
  struct Foreseen {
    std::int64_t ns = 0;  // how long it takes, with `cores` where these are known; 0: not known
    double cores = 0;
    std::int64_t order_ns = 0;  // what the scheduler knows
  };
  Foreseen foreseen(const StepKey& key, const StepSpec& step, bool asked, std::int64_t told_ns,
                    const std::optional<Estimate>& like) const;
  Foreseen foreseen(const Job& job, bool asked) const;
  std::int64_t done_of(const Job& job, const RunningAttempt& running, double cores) const;
  std::int64_t learnt_of(const StepKey& step) const;
  std::int64_t elapsed_of(const Job& job) const;
  ForecastInput::Name name_of(const Job& job) const;
  void link_world(std::uint32_t place);
  void link_planned();
  void need(std::uint32_t place, JobId id, JobState state, bool must_be_done);
  void need_all(std::uint32_t place, StepKey step, bool is_doomed);
  std::uint32_t barrier_of(StepKey step);
  void hold_what_waits_for_held();

  struct PlannedSweep {
    const SweepSpec* file = nullptr;
    SweepId sweep = {};
    const PlannedJobs* jobs = nullptr;
  };

  Parts parts_;
  ForecastInput out_;
  std::unordered_map<JobId, std::uint32_t> place_of_;
  std::map<StepKey, std::vector<std::uint32_t>> of_step_;  // open ones that a barrier waits for
  std::map<StepKey, std::uint32_t> barriers_;
  std::map<StepKey, std::vector<std::int64_t>> elapsed_;  // of those that run
  PlannedSweep planned_;
};

}  // namespace pergpu
