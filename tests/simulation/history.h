// Reads what is stored, row by row, and knows the rules by itself: nothing here calls the code that
// is tested.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "simulation/faults.h"
#include "simulation/machine.h"
#include "store/store.h"

namespace pergpu::simulation {

class History {
 public:
  /// `truth`: what really became of an attempt.
  /// `shows`: every event that becomes durable is printed.
  History(std::function<const Truth&(AttemptId)> truth, bool shows)
      : truth_(std::move(truth)), shows_(shows) {}

  /// Throws a Violation that names the promise.
  void take(const Row& row, int allowed_retries);

  /// That the attempt is to start is durable, and its end is not.
  bool may_start(AttemptId id) const;
  bool knows(JobId job) const { return jobs_.contains(job); }
  std::size_t job_count() const { return jobs_.size(); }
  std::int64_t event_count() const { return events_; }
  std::int64_t outcome_count() const { return outcomes_; }
  /// Of all rows in order: two runs of one seed must agree.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  enum class State : std::uint8_t { Queued, Held, Live, Ended };
  struct Known {
    SweepId sweep = {};
    State state = State::Queued;
    bool started = false;
    std::int64_t started_wall_ns = 0;
    bool stopping = false;
    bool cancelled = false;
    bool too_long = false;  // the last stop's cause is a limit of time
    std::int32_t attempts = 0;
    int retries = 0;
    int moves = 0;
    std::string lane = {};
    std::string gpu = {};
    int share = 0;  // thousandths that it has of it
  };
  void event(const row::Event& row, int allowed_retries);
  void take_part(Known& job, const Placement& placement, JobId id);
  void show(const row::Event& row) const;
  void ended(const row::Event& row, Known& job, const event::Ended& end, int allowed_retries);
  void mix(std::uint64_t value) { fingerprint_ = (fingerprint_ ^ value) * 0x100000001b3ull; }

  std::function<const Truth&(AttemptId)> truth_;
  bool shows_;
  std::map<JobId, Known> jobs_;
  std::map<std::string, AttemptId> lanes_;  // by name, a GPU's by its UUID
  std::map<std::string, int> taken_;        // thousandths of each GPU
  std::set<std::string> quarantined_;       // GPUs
  std::int64_t events_ = 0;
  std::int64_t outcomes_ = 0;
  std::uint64_t fingerprint_ = 0xcbf29ce484222325ull;
};

}  // namespace pergpu::simulation
