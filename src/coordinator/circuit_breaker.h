// The circuit breaker: when the first jobs of a step all fail by the same mistake, the rest would
// too. They are held, and tried one at a time (half-open).
//
//   closed  counts the jobs of a step that fail the same way, as long as none has succeeded. Until
//           one has succeeded, or has run for a while, only a few start at once
//   open    `breaker` of them have: what is queued is held. One held job at a time runs as a probe,
//           first the one that differs most from those that failed. If it fails the same way, the
//           next one waits: 1 s, 2 s, 4 s ... 5 min
//   last    a job succeeded, or ran for longer than those that failed: the others are queued again,
//           but for those that have what all failed ones have in common. They come after the
//           others, one at a time
//   closed  nothing is held any more
//
// So nothing is held for good, and a value that always fails costs a few attempts until the other
// runs are done. A probe is a queued job like any other.
//
// It owns what it counted and its scans: a step may have a million jobs, which are held, and let
// go, some in each turn, and none of them starts meanwhile. What a restart needs is a row of the
// store ("breaker.<sweep>.<step>"), written with its events.
//
// It decides in settle(), once a turn; what happens before only marks the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/schedule/failure_pattern.h"
#include "job/schedule/queue.h"
#include "os/clock.h"
#include "state/world.h"
#include "timers.h"

namespace pergpu {

/// For the next probe.
inline constexpr std::int64_t kLongestProbeWait = 300 * kSecond;

class CircuitBreaker {
 public:
  struct Parts {
    const World* world = nullptr;
    os::Clock* clock = nullptr;
    const Timers* timers = nullptr;
    std::function<void(JobId, JobEvent)> record = {};
    std::function<void(row::Meta)> note = {};
    std::function<void(JobId)> refresh = {};           // its state has changed
    std::function<void(StepKey, bool)> pause = {};     // nothing of the step starts
    std::function<int(StepKey)> starting = {};         // its jobs that are chosen, and not live yet
    std::function<bool(JobId)> waits_for_folder = {};  // another's, or a disk's trouble
    std::function<bool(SweepId)> is_frozen = {};       // no event may be recorded of its jobs now
    bool probes = true;  // false: what is held here is tried elsewhere (a node of a cluster)
  };
  explicit CircuitBreaker(Parts parts) : parts_(std::move(parts)) {}
  ~CircuitBreaker();
  CircuitBreaker(const CircuitBreaker&) = delete;
  CircuitBreaker& operator=(const CircuitBreaker&) = delete;

  enum class Change : std::uint8_t {
    Ended,  // its attempt
    Moved,  // that ended by a fault of the machine, and the job was queued again
    Other,
  };
  /// REQUIRES: an event of the job was recorded just now.
  void on_event(const Job& job, Change change);
  /// A job of the step was chosen. May pause the step at once.
  void on_start(StepKey key);
  /// Jobs of the sweep are new: they were not asked for in spite of what failed before.
  void on_added(const std::vector<JobId>& jobs);
  /// A job is queued again because one that it needs is.
  void on_brought_back(const Job& job);
  /// Holds, lets go, starts probes. REQUIRES: events may be recorded.
  void settle();
  /// A person has let jobs of the step go, or queued them again: what failed before counts no more,
  /// and what is still held need not wait.
  void reset(StepKey key);
  /// The same of all its steps.
  void reset(SweepId sweep);
  /// Its results are cleaned away.
  void forget(SweepId sweep);
  /// Takes up what the coordinator before had held, or was about to let go.
  void recover();
  /// Nothing is left for it to do, now or later.
  bool idle() const;

  /// Of a job that it holds: since when, and what is tried next; "": there is nothing to add.
  std::string words_of(const Job& job) const;
  /// The same of all that it holds of a sweep, for people who are not looking; "": it holds
  /// nothing.
  std::string words_of(const Sweep& sweep) const;
  /// Why a queued job does not start, or what it is to the others; "": it is like any other.
  std::string words_of_queued(const Job& job) const;

 private:
  static bool has_failed_by_mistake(const Job& job);

  enum class Phase : std::uint8_t { Closed, Holding, Open, Last };
  /// One way in which jobs fail.
  struct Kind {
    int recent = 0;  // since nothing was held; in phase Last: since then
    bool is_tripped = false;
    FailurePattern pattern = {};
    JobId example = {};
  };
  struct Candidate {
    JobId job = {};
    std::size_t shared = 0;
    std::uint64_t likeness = 0;
    bool is_alike = false;  // to all that failed in one way
  };
  struct State {
    Phase phase = Phase::Closed;
    std::map<std::string, Kind> kinds = {};  // by signature
    std::int64_t longest_ns = 0;             // that one of them ran before it failed
    std::int64_t last_failure_ns = 0;        // boot clock
    std::string reason = {};                 // of the jobs that are held
    std::int64_t since_wall_ns = 0;
    bool has_success = false;  // or a job that ran for longer than any that failed
    bool releases = false;     // some of what is held may have become others
    JobId probe = {};          // queued or live
    int probe_moves = 0;       // how often the machine failed it, in a row
    int failed_probes = 0;     // the same way, in a row
    Instant due = {};          // of the next probe; zero: at once
    std::optional<Candidate> next = std::nullopt;
    std::int64_t choose_at_ns = 0;  // boot clock: what can't start yet may then; 0: nothing waits
    std::size_t choices = 0;
    std::set<JobId> survivors = {};   // live ones that were counted as successes
    std::vector<JobId> to_hold = {};  // they failed and would be tried again, or are new
    Timers::Id timer = 0;
    std::int64_t timer_ns = 0;
    std::uint64_t scan = 0;  // its jobs are being held or let go; 0: they are not
    bool pauses = false;
    std::int64_t slow_start_until_ns = 0;  // boot clock; 0: not begun
    std::string noted = {};                // the row, as it was written last
  };
  using Visit = std::function<void(const Job&)>;
  using States = std::map<StepKey, State>;

  void on_ended(StepKey key, const Job& job, Change change);
  void count_failure(StepKey key, const Job& job, bool counts = true);
  void count_success(State& state, const Job& job);
  void decide(StepKey key, State& state);
  void decide_closed(StepKey key, State& state);
  bool needs_slow_start(StepKey key) const;
  bool trip(StepKey key, State& state);
  bool hold_some(StepKey key, State& state);
  void check_probe(StepKey key, State& state);
  void hold_rest(StepKey key, State& state);
  void release_others(StepKey key, State& state);
  void watch_live(StepKey key, State& state, std::int64_t& wake_ns);
  void try_next(StepKey key, State& state, std::int64_t wake_ns);
  bool choose(StepKey key, State& state);
  bool others_go_on(StepKey key) const;
  bool is_suspect(const State& state, const std::vector<ParameterMark>& run) const;
  void end(StepKey key);
  void rebuild(StepKey key, State& state);
  void restore(State& state, const std::string& row);
  void note(StepKey key, State& state);
  void note_reset(StepKey key);
  std::int64_t reset_wall_ns(StepKey key) const;
  void wake_at(StepKey key, State& state, std::int64_t boot_ns);
  void set_pause(StepKey key, State& state, bool pauses);
  void scan_step(StepKey key, Visit visit);
  void continue_scan(StepKey key, std::uint64_t scan, std::size_t from, Visit visit);
  const Step& step_of(StepKey key) const;
  std::vector<ParameterMark> marks(const Job& job) const;
  std::string name_of(JobId id) const;
  std::string next_words(StepKey key, const State& state, const Job* job) const;
  std::string blamed_words(const State& state) const;

  Parts parts_;
  States states_;
  std::set<StepKey> dirty_;
  std::uint64_t last_scan_ = 0;
  int scans_ = 0;
};

}  // namespace pergpu
