// How an attempt ended: the evidence (exit status), the class and a sentence for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "job/usage.h"

namespace pergpu {

/// What became of an attempt (docs/jobs.md).  Names on the wire and in the store are those of
/// to_string() ("oom-host").
enum class OutcomeClass : std::uint8_t {
  Ok,
  UserError,  // could not be executed as asked, exit code 2, quick traceback
  Exit,       // any other exit code != 0
  Signal,     // ended by a signal that pergpu did not send
  OomHost,
  OomGpu,
  GpuMemory,
  Hardware,
  Driver,
  Neighbour,  // its CUDA context broke while others were on its GPU by MPS: one of them may have
  DiskFull,
  OutputMissing,
  Stall,
  Timeout,
  Lost,     // of an earlier boot, or its keeper was killed and the tree is proven gone
  Unknown,  // ended, status not known, same boot
  Requeue,  // exit code 75
  Cancelled,
};

std::string_view to_string(OutcomeClass c);
std::optional<OutcomeClass> outcome_class_of(std::string_view name);
/// What people read: "mps-fault" for the class that is "neighbour" on the wire, else the same.
std::string_view shown_class(std::string_view name);

struct Outcome {
  OutcomeClass cls = OutcomeClass::Unknown;
  std::optional<int> exit_code = std::nullopt;  // set when it exited
  std::optional<int> signal = std::nullopt;     // set when a signal ended it
  std::string reason = {};        // "exit code 3", "python9: No such file or directory"
  std::string left_running = {};  // which processes it left running, and were ended; "": none
  std::string mistake = {};       // `reason` without values of its run; "": they make no difference
  std::uint64_t peak_memory_bytes = 0;               // 0: not known
  std::int64_t cpu_ns = 0;                           // user + system of the tree as far as reaped
  std::optional<UsageSummary> usage = std::nullopt;  // nullopt: no reading was made of it
  bool operator==(const Outcome&) const = default;
};

/// `reason`, and what it left running.
std::string whole_reason(const Outcome& outcome);

}  // namespace pergpu
