// From what was observed at the end of an attempt to its Outcome: class and reason in plain words.
// Pure: the caller gathers the evidence (keeper, log, watchdogs), nothing is looked up here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "job/event.h"
#include "job/failures.h"
#include "job/outcome.h"

namespace pergpu {

/// The phase whose `object` says all of it: "./run.sh: no such interpreter …".
inline constexpr std::string_view kProgramPhase = "program";

/// The program was never executed.
struct SpawnFailure {
  std::string phase = {};  // "mkdir", "open log", "chdir", "limit", "exec", kProgramPhase, …
  int os_errno = 0;
  std::string object = {};  // the path or value concerned
};

/// Everything known about an ended attempt.  Leave at its default what is not known.
struct Evidence {
  std::optional<int> exit_code = std::nullopt;
  std::optional<int> signal = std::nullopt;
  std::optional<SpawnFailure> spawn_failure = std::nullopt;

  bool lost = false;        // no status will ever come: earlier boot, or the keeper was killed …
  bool proven_gone = true;  // … and the tree is known to be gone (false: class Unknown)
  std::string lost_why = {};  // "its keeper was killed"

  std::string missing_output = {};  // first output that fails its check; empty: all are there
  std::string missing_why = {};     // "does not exist", "is empty", "is older than the attempt"

  std::optional<StopCause> stop = std::nullopt;  // we ended it
  std::string stop_reason = {};                  // the reason that came with it; may be empty

  std::int64_t duration_ns = 0;    // 0: not known
  std::int64_t timeout_ns = 0;     // the step's, for the words about its early signal
  int early_signal = 0;            // the step's, when it was due before the attempt ended; 0: none
  std::uint64_t memory_bytes = 0;  // what was measured when it passed its limit
  std::uint64_t memory_limit_bytes = 0;
  std::uint64_t oom_kills = 0;  // of its processes, by the kernel for want of memory
  bool oom_at_limit = false;    // at its own limit; false: the machine had none left

  // What its GPUs and their driver reported, as text; empty: nothing is known against them.
  std::string gpu_fault = {};     // something of the hardware broke while it ran
  std::string driver_fault = {};  // the driver is not in order
  std::string gpu_notes = {};     // for the reason only

  bool shares_mps = false;    // others were on its GPU by MPS, as it was
  bool asks_for_gpus = true;  // false: it was started so that it sees none

  std::string log_tail = {};                // the end of the log, if the caller has it
  std::span<const FailureRule> rules = {};  // the step's own, for the log

  std::uint64_t peak_memory_bytes = 0;
  std::int64_t cpu_ns = 0;
};

/// A watchdog's stop: what it took for the job's failure may be the machine's.
bool may_be_the_machine(StopCause stop);

/// Missing evidence is Unknown, never success.  Our stop decides the class whatever the exit
/// status says: a program that ends with 0 after SIGTERM did not finish.  Unless its GPU broke:
/// then a watchdog has stopped what that had made hang.
Outcome classify(const Evidence& evidence);

/// "SIGKILL"; "signal 99" for numbers without a name.
std::string signal_name(int number);

}  // namespace pergpu
