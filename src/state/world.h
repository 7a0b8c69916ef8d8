// The one owner of mutable state: sweeps, runs, jobs, limits.
//
// The world changes only through absorb(), one row at a time, live and at a restart alike: what the
// store gives back is what was absorbed before.  A job's own state changes only in apply()
// (job/job.h), which absorb() calls for Event rows.  Everything derived (counts per step, which job
// of a run is current) is kept here and is never stored.
//
// Of a sweep whose jobs had all ended when the store was loaded only a summary is here
// (archived()); what asks for its jobs has to bring it back first (Journal::fetch).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/snapshot.h"
#include "ids.h"
#include "job/job.h"
#include "job/step.h"
#include "result.h"
#include "spec/sweep/sweep.h"
#include "state/job_ranges.h"
#include "state/job_set.h"
#include "state/job_table.h"
#include "state/run.h"
#include "store/store.h"

namespace pergpu {

/// A step of a sweep.  Its slot (index in Sweep::steps) never changes; Need::step of `spec` is a
/// slot.
struct Step {
  StepSpec spec = {};
  bool listed = true;  // still in the sweep's file
  int file_order = 0;
  std::vector<JobId> current = {};  // per run index; once-steps: one entry

  // Of the current jobs of listed runs:
  int total = 0;
  int done = 0;
  int ended = 0;
  int live = 0;
  std::array<int, kJobStates> in_state = {};
  int held_by_breaker = 0;
  int timed = 0;               // done ones whose duration was measured,
  std::uint64_t timed_ns = 0;  // and how long they took together
};

/// Jobs that are still to start.
inline std::int64_t queued_of(const Step& step) {
  return step.in_state[static_cast<std::size_t>(JobState::Queued)];
}

struct Sweep {
  SweepId id = {};
  std::string root = {};
  std::string name = {};
  SweepSpec spec = {};                           // `runs` and `steps` are empty: see below
  SubmitContext context = {};                    // `env` is empty: it lies in its own file
  std::vector<std::int32_t> unlisted_runs = {};  // ascending
  std::vector<Step> steps = {};
  std::vector<Run> runs = {};
  Instant submitted_at = {};
  RunIndex run_index = {};

  // Of all its jobs, whatever version and run:
  std::int64_t jobs = 0;
  std::int64_t open = 0;  // have not ended
  std::int64_t held = 0;  // only a person lets them go: not those that the breaker holds
  JobId first_job = {};
  JobId last_job = {};

  std::string folder() const { return root + "/" + name; }
  std::optional<int> slot_of(std::string_view step) const;
};

class World {
 public:
  /// Takes one row.  ErrorKind::Corrupt when it contradicts what is known: a bug or a damaged
  /// store.
  Result<void> absorb(const Row& row);
  /// To be asked when all that the store gives was absorbed.  ErrorKind::Corrupt: jobs are missing.
  Result<void> check_whole() const;
  /// Takes these archived sweeps, with all that belongs to them.  ErrorKind::Corrupt: `part` is not
  /// what was archived of them, and nothing was taken.
  Result<void> adopt(const std::vector<SweepId>& sweeps, World&& part);

  Sweep* sweep(SweepId id);
  const Sweep* sweep(SweepId id) const;
  /// In memory or archived; none: SweepId{}.
  SweepId sweep_at(const std::string& root, const std::string& name) const;
  Job* job(JobId id);
  const Job* job(JobId id) const;
  const JobIdentity& identity(JobId id) const;
  /// The current job of (step, run): the newest version of it; none: JobId{}.
  static JobId current(const Sweep& sweep, int slot, std::int32_t run);
  /// False when a newer version of the job exists.
  bool is_current(const Job& job) const;
  /// The older version of the job and the newer one; JobId{}: there is none.
  JobId replaces(JobId id) const;
  JobId replaced_by(JobId id) const;
  /// Its run is a row of the file and its step is in it.
  bool is_listed(JobId id) const;
  Step& step_of(const Job& job);
  const Step& step_of(const Job& job) const;
  Sweep& sweep_of(const Job& job);
  const Sweep& sweep_of(const Job& job) const;
  /// nullopt: a once-step's job, which has none.
  std::optional<RunSpec> parameters_of(const Job& job) const;

  const std::map<SweepId, Sweep>& sweeps() const { return sweeps_; }
  const std::map<SweepId, row::Archived>& archived() const { return archived_; }
  /// In memory or archived, under every root.
  std::vector<SweepId> sweeps_named(const std::string& name) const;
  /// Those archived ones that may hold the job; none if it is in memory.
  std::vector<SweepId> archived_with(JobId id) const;
  const JobTable& jobs() const { return jobs_; }
  /// Those that have not ended; of these the queued, the held and the live ones; how many are
  /// queued.
  const JobSet& open_jobs() const { return open_; }
  const JobSet& queued_jobs() const { return queued_jobs_; }
  const JobSet& held_jobs() const { return held_jobs_; }
  const JobSet& live_jobs() const { return live_jobs_; }
  /// The live ones of a sweep, whatever version and row.
  std::vector<JobId> live_of(SweepId sweep) const;
  std::int64_t queued() const { return queued_; }
  const std::map<std::string, std::int32_t>& limits() const { return limits_; }
  const std::map<std::string, std::string>& meta() const { return meta_; }

  /// `clean` has taken the sweep out of the history: its rows stay, and it is not shown.
  bool is_forgotten(SweepId id) const { return forgotten_.contains(id); }
  /// Results of forgotten sweeps that were to be removed and may be there yet: their folders.
  const std::map<SweepId, std::string>& put_aside() const { return put_aside_; }
  /// `clean` has begun to put its results aside, and neither has it been forgotten since nor are
  /// all of them back in their place.
  bool is_half_moved(SweepId id) const { return half_moved_.contains(id); }
  static row::Meta moving_row(SweepId id, bool is_moving);
  /// What makes a sweep a forgotten one.  `aside`: "" when nothing of it is to be removed any more.
  static row::Meta cleaned_row(SweepId id, const std::string& aside);
  /// Where its results go before they are removed.
  static std::string aside_of(const Sweep& sweep);

  /// The latest that is known of its jobs: when one was queued, began or ended; without any its
  /// submit.  By the wall clock; REQUIRES: it is in memory.
  std::int64_t last_touched_ns(const Sweep& sweep) const;

  JobId next_job_id() const { return {last_job_.value + 1}; }
  SweepId next_sweep_id() const;
  /// REQUIRES: all its jobs have ended.
  static row::Archived archived_row(const Sweep& sweep);
  /// What its file said of it: its listed steps in the file's order, without runs.
  static SweepSpec declared(const Sweep& sweep);
  /// The row that makes it what it is, but for what `file` and `context` say.
  static row::Sweep row_of(const Sweep& sweep, const SweepSpec& file, SubmitContext context);

  /// "thirteen/03-method=edm/train", "thirteen/_once/classifier".
  std::string path_of(const Job& job) const;
  /// <root>/<sweep>/<run>/<step>
  std::string out_of(const Job& job) const;
  std::string out_of(const Sweep& sweep, int slot, std::int32_t run) const;

 private:
  Result<void> absorb_sweep(const row::Sweep& r);
  void list_run(Sweep& sweep, std::size_t run, bool listed);
  Result<void> absorb_archived(const row::Archived& r);
  void absorb_meta(const row::Meta& r);
  void forget_name(SweepId id, const std::string& name, const std::string& root);
  Result<void> absorb_run(const row::Run& r);
  Result<void> absorb_job(const row::NewJob& r);
  Result<void> absorb_event(const row::Event& r);
  void count(const Job& job, int sign);
  void note_state(const Job& job, std::optional<JobState> before, bool was_held = false);

  std::map<SweepId, Sweep> sweeps_;
  std::map<SweepId, row::Archived> archived_;
  JobRanges archived_ranges_;                                       // of some that are back, too
  std::map<std::pair<std::string, std::string>, SweepId> by_name_;  // name and root, of both
  JobTable jobs_;
  JobId last_job_ = {};  // their numbers are given in order and never again
  JobSet open_;
  JobSet queued_jobs_;
  JobSet held_jobs_;
  JobSet live_jobs_;
  std::int64_t queued_ = 0;
  std::unordered_map<JobId, JobId> replaces_;
  std::unordered_map<JobId, JobId> replaced_by_;
  std::map<std::string, std::int32_t> limits_;
  std::map<std::string, std::string> meta_;
  std::map<SweepId, std::int64_t> forgotten_;  // how many jobs of it are not in memory
  std::map<SweepId, std::string> put_aside_;
  std::set<SweepId> half_moved_;
};

/// The sweep row's `submit` column: JSON of SubmitContext without the environment, and the indices
/// of runs that are no longer in the file.
struct SubmitRecord {
  SubmitContext context = {};
  std::vector<std::int32_t> unlisted_runs = {};
};
std::string to_text(const SubmitRecord& record);
Result<SubmitRecord> submit_record_of(const std::string& text);

}  // namespace pergpu
