// The engine seam: what executes attempts.  `local` starts real processes through keepers, `fake`
// only pretends (same durations and exits for a given sweep).  All calls and all events happen on
// the deciding thread; no call blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ids.h"
#include "job/event.h"
#include "os/fd.h"
#include "os/process/process_attributes.h"
#include "result.h"

namespace pergpu {

/// Soft limit taken from the submitting shell (getrlimit numbers, RLIM_INFINITY as ~0).
struct ResourceLimit {
  int resource = 0;
  std::uint64_t soft = 0;
  bool operator==(const ResourceLimit&) const = default;
};

/// A file the engine writes into the attempt's folder before the start (temp + rename).
struct FileToWrite {
  std::string path;  // absolute
  std::string content;
  bool keep_if_same = false;  // do not touch when the content is already there (config.json)
};

/// Folder work that can be done before the lane is free: it starts nothing.
struct FolderPlan {
  std::string out;                      // absolute; made with parents (umask of the sweep)
  std::int32_t attempt = 1;             // n > 1: log.txt -> log.<n-1>.txt, attempt.json likewise
  std::vector<FileToWrite> files = {};  // config.json
  std::uint32_t umask = 022;
};

/// Everything needed to execute one attempt.  Owned by the engine until it ended.
struct AttemptPlan {
  AttemptId id = {};
  FolderPlan folder = {};
  std::vector<std::string> argv = {};
  std::vector<std::string> env = {};  // NAME=value, complete
  std::string cwd = {};
  std::string log_path = {};               // opened O_APPEND|O_CREAT for stdout and stderr
  std::string record_path = {};            // attempt.json
  std::string record_at_start = {};        // its content while running
  std::vector<ResourceLimit> limits = {};  // where there is no `shell`
  std::optional<os::ProcessAttributes> shell = std::nullopt;  // as far as they may be had
  std::vector<int> cpu_list = {};
  std::vector<int> lease_fds = {};  // borrowed: inherited by the first process of the attempt
  std::vector<std::string> outputs =
      {};                          // absolute: must exist, be non-empty and newer than the start
  std::uint64_t memory_bytes = 0;  // limit: by a control group, else by the tree's PSS; 0: none
  int cpu_milli = 0;               // limit in thousandths of a core, by a control group; 0: none
  std::string ready_path = {};     // a line appended to it is Notified as READY=1; "": not watched
  std::chrono::milliseconds grace{30'000};
  std::chrono::milliseconds idle{0};   // Quiet after this time without output; 0: never
  std::chrono::milliseconds stall{0};  // … and with hardly any CPU time; 0: never
  std::string holder = {};             // who works in the folder, for those who wait for it
  std::chrono::milliseconds fake_duration{1000};  // fake engine only
  int fake_exit = 0;
  std::vector<std::string> output_patterns = {};  // as `outputs`: each must match one such file
};

/// What a restarted coordinator expects to find.
struct ExpectedAttempt {
  AttemptId id = {};
  KeeperId keeper = {};
  std::int32_t pid = 0;  // 0: never reported
  std::uint64_t start_ticks = 0;
  std::string out = {};
};

namespace engine_event {
/// The program runs (its exec succeeded).
struct Started {
  AttemptId id;
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;
  int memory_held = 0;  // 1 or 2: by cgroup of that version; 0: watched, where there is a limit
  int cpu_held = 0;     // the same; 0: not
  /// After adopt() only: the attempt's leases, given back by its keeper, in the order of
  /// AttemptPlan::lease_fds.  Holding one holds the lease.
  std::vector<std::shared_ptr<os::UniqueFd>> leases = {};
  /// False after adopt() only: its keeper was killed, by whose record it had started.  Its end
  /// follows, and nothing can stop it before.
  bool has_keeper = true;
};
/// It could not be started: nothing runs.
struct SpawnFailed {
  AttemptId id;
  std::string phase;  // "mkdir", "open log", "chdir", "limit", "exec", …; kFolderInUsePhase
  int os_errno = 0;
  std::string object;  // the path or value concerned
};
/// It ended and its tree is gone.  Reported again until it is acknowledged, as SpawnFailed is.
struct Exited {
  AttemptId id;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::int64_t cpu_ns = 0;
  std::uint64_t peak_memory_bytes = 0;  // of the sampled tree, else ru_maxrss
  std::string missing_output = {};      // first of AttemptPlan::outputs that fails its check
  std::string missing_why = {};         // "does not exist", "is empty", "is older than the attempt"
  std::uint64_t oom_kills = 0;          // of its processes, by the kernel for want of memory
  bool oom_at_limit = false;            // the attempt's own limit, not the machine's
  Instant exited_at = {};               // when the keeper saw the first process end
  std::string left_running = {};        // which processes it left running, and were ended, as text
};
/// Its keeper is gone and so is its tree: the status will never be known.  `local` reports it when
/// nothing of the tree is left, however long that takes; what resists is Notified as a STATUS line.
struct Lost {
  AttemptId id;
  std::string why;
  bool proven_gone = true;  // false: something of it may still run; the lane stays closed
};
/// The tree's PSS passed AttemptPlan::memory_bytes where that is watched (once per attempt).
struct MemoryExceeded {
  AttemptId id;
  std::uint64_t bytes = 0;
};
/// Nothing was written to its log for AttemptPlan::idle; or, with `is_stall`, for
/// AttemptPlan::stall, and its tree took hardly any CPU time.  Reported again later while it lasts.
struct Quiet {
  AttemptId id;
  bool is_stall = false;
  std::int64_t silent_ns = 0;
  std::int64_t cpu_ns = 0;  // is_stall: since it became quiet
};
/// READY=1, STATUS=…, PROGRESS=…, CHECKPOINT=… from PERGPU_NOTIFY, or the first metrics line
/// (READY=1); RESISTS=words from the part that ends it: what is left although it was killed.
struct Notified {
  AttemptId id;
  std::string line;
};
}  // namespace engine_event

using EngineEvent =
    std::variant<engine_event::Started, engine_event::SpawnFailed, engine_event::Exited,
                 engine_event::Lost, engine_event::MemoryExceeded, engine_event::Notified,
                 engine_event::Quiet>;

enum class StopHow : std::uint8_t { TermThenKill, Kill };

class Engine {
 public:
  virtual ~Engine() = default;

  /// Who will execute the next attempt on this lane: journalled with the intent.  KeeperId{} where
  /// there are no keepers.
  virtual KeeperId assign(LaneId lane) = 0;
  /// The attempt that assign() was for will not be started.
  virtual void unassign(LaneId) {}
  /// Makes the attempt's folder and files while its lane is still busy.  A hint: start() does what
  /// is missing.
  virtual void prepare(LaneId lane, const FolderPlan& folder) = 0;
  /// REQUIRES: the intent (event::Starting) is durable.  Reports Started or SpawnFailed, later
  /// Exited.
  virtual void start(LaneId lane, AttemptPlan plan) = 0;
  /// TERM to the process group, the grace of the plan, KILL to the whole tree; ends in Exited.
  virtual void stop(AttemptId id, StopHow how) = 0;
  /// `number` to the process group, once for each attempt whatever is asked.
  virtual void signal(AttemptId id, int number) = 0;
  /// Writes the stacks of its processes to `path`.  `done(written)` runs later, exactly once, after
  /// half a minute at the latest.
  virtual void write_stacks(AttemptId id, const std::string& path,
                            std::function<void(bool written)> done) = 0;
  /// The outcome is durable: forget the attempt; `final_record` replaces attempt.json.
  virtual void acknowledge(AttemptId id, std::string record_path, std::string final_record) = 0;
  /// After a restart: reports Started/Exited/Lost for each expected attempt, in any order.
  virtual void adopt(std::vector<ExpectedAttempt> expected) = 0;
  /// False after adopt() until all that earlier coordinators left is known, and what is not
  /// expected has ended: an attempt that is started before might run already.
  virtual bool may_start() const { return true; }
  /// Living keepers: what descends from them is ours.
  virtual std::vector<std::int32_t> keeper_pids() const = 0;
  /// Of the attempt; 0: not known.
  virtual std::int32_t keeper_pid(AttemptId) const { return 0; }
};

}  // namespace pergpu
