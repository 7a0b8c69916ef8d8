// Everything that can happen to a job.  Events are the journal: restart = replay of these through
// apply() (job/job.h).  They carry facts and decisions, never "now": the instant is a field of the
// journal row.  Names on disk are those of event_name(); fields may be added, never renamed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ids.h"
#include "job/outcome.h"
#include "job/state.h"

namespace pergpu {

/// One place where an attempt runs.
struct LaneId {
  enum class Pool : std::uint8_t {
    Gpu,    // slot: job/gpu_slot.h, of the inventory at the time; the UUID is in Placement::gpus
    Cpu,    // this user's CPU lanes of the machine
    Sweep,  // a sweep's own CPU lanes (--lanes N)
  };
  Pool pool = Pool::Cpu;
  SweepId sweep = {};  // only for Pool::Sweep
  std::int32_t slot = 0;
  std::int32_t part = 0;  // Pool::Gpu: of the jobs that share it
  auto operator<=>(const LaneId&) const = default;
};
std::string to_string(LaneId id);  // "gpu0", "gpu0:2", "gpu0.1", "cpu3", "lane5"

struct Placement {
  LaneId lane = {};                      // of several the first
  std::vector<std::string> gpus = {};    // UUIDs
  std::vector<std::int32_t> slots = {};  // of its GPUs' lanes, in their order, if it has several
  int share = 0;  // thousandths of its only GPU, beside other jobs; 0: all of each
  std::uint64_t promise_bytes = 0;  // of that GPU, by the needs of similar jobs; 0: not chosen so
  bool mps = false;                 // its processes are clients of MPS there
  int port = 0;  // several GPUs: where their processes may meet, on this machine; 0: none
  int cpus = 1;  // the CPU budget k
  std::vector<int> cpu_list = {};  // cores to pin to; empty: not pinned
  std::string node = {};           // of a cluster; "": this machine
  bool operator==(const Placement&) const = default;
};

/// One for each of its GPUs, or its only one.
std::vector<LaneId> lanes_of(const Placement& placement);
std::vector<std::string> lane_names(const Placement& placement);
/// "gpu0", "gpu1 and gpu4", "gpu0, gpu1 and gpu2".
std::string lane_words(const Placement& placement);

/// Who lets a held job go on.
enum class HoldCause : std::uint8_t {
  Other,    // only a person does
  Breaker,  // the circuit breaker does, sooner or later
};
std::string_view to_string(HoldCause c);
std::optional<HoldCause> hold_cause_of(std::string_view name);

/// Why a running attempt is being ended by us.
enum class StopCause : std::uint8_t { Cancel, Timeout, Memory, Idle, Stall, GpuMemory };
std::string_view to_string(StopCause c);
std::optional<StopCause> stop_cause_of(std::string_view name);

/// What follows an ended attempt.  Decided once (job/retry.h) and journalled with the outcome.
struct Next {
  enum class Kind : std::uint8_t { Final, Again };
  Kind kind = Kind::Final;
  JobState state = JobState::Done;  // Final: the job's end state
  bool charged = true;              // Again: counts against the job's retries
  std::int64_t delay_ns = 0;        // Again: not before the event's instant + delay
  std::string reason = {};          // Final: the job's reason, when it says more than the outcome's
  bool more_memory = false;         // Again: `grow` gives the next attempt more of it
  bool more_gpu_memory = false;
  bool operator==(const Next&) const = default;
};

/// One execution, as far as it is known.
struct Attempt {
  std::int32_t number = 0;
  Placement placement = {};
  KeeperId keeper = {};
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;
  Instant starting_at = {};
  Instant started_at = {};  // zero: never started
  Instant ended_at = {};    // zero: not ended
  std::optional<StopCause> stop = std::nullopt;
  std::string stop_reason = {};
  Instant stop_at = {};       // when it was first asked to end; zero: it was not
  bool stop_at_once = false;  // without a signal ahead and without grace
  std::optional<Outcome> outcome = std::nullopt;
  bool operator==(const Attempt&) const = default;
};

namespace event {
/// Accepted by a submit: the job exists.  Always the first event.
struct Submitted {
  bool operator==(const Submitted&) const = default;
};
/// Queued again by a person: a new submit, retry, release.  Retries are fresh.
struct Requeued {
  std::string reason = {};
  bool keeps_retries = false;  // the breaker held it: it is as it was before
  bool operator==(const Requeued&) const = default;
};
struct Held {
  std::string reason = {};
  HoldCause cause = HoldCause::Other;
  bool operator==(const Held&) const = default;
};
/// The intent to start.  Durable before the process exists.
struct Starting {
  std::int32_t attempt = 1;
  Placement placement = {};
  KeeperId keeper = {};
  bool operator==(const Starting&) const = default;
};
struct Started {
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/pid/stat: with pid and boot the identity
  bool operator==(const Started&) const = default;
};
struct Stopping {
  StopCause cause = StopCause::Cancel;
  std::string reason = {};
  bool at_once = false;  // SIGKILL, without what comes before it
  bool operator==(const Stopping&) const = default;
};
struct Ended {
  Outcome outcome = {};
  Next next = {};
  bool operator==(const Ended&) const = default;
};
/// Cancelled while queued or held (a running job goes through Stopping and Ended).  A repeat of a
/// done job: the job is done, as it was.
struct Cancelled {
  std::string reason = {};
  bool operator==(const Cancelled&) const = default;
};
/// A need ended otherwise than done, with no retry left.  A repeat of a done job: as Cancelled.
struct Skipped {
  std::string reason = {};
  bool operator==(const Skipped&) const = default;
};
/// What all events of a job up to here made of it.  Takes their place in a journal that was
/// compacted (store/compaction.h); always the first event after Submitted, never decided by anyone.
struct Folded {
  JobState state = JobState::Queued;
  std::int16_t attempts = 0;
  std::int16_t retries_used = 0;
  std::int16_t moves = 0;
  std::int8_t memory_growths = 0;
  std::int8_t gpu_memory_growths = 0;
  Instant queued_at = {};
  std::int64_t not_before_wall_ns = 0;
  std::string reason = {};
  HoldCause hold_cause = HoldCause::Other;  // of a held job
  bool repeat_skipped = false;
  std::vector<Attempt> last = {};  // at most one
  bool operator==(const Folded&) const = default;
};
}  // namespace event

using JobEvent =
    std::variant<event::Submitted, event::Requeued, event::Held, event::Starting, event::Started,
                 event::Stopping, event::Ended, event::Cancelled, event::Skipped, event::Folded>;

std::string_view event_name(const JobEvent& e);  // "submitted", "requeued", …

}  // namespace pergpu
