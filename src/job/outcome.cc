// Names of the outcome classes: on the wire and in the store, so never renamed.
#include "job/outcome.h"

#include "job/names.h"

namespace pergpu {

std::string_view to_string(OutcomeClass c) {
  switch (c) {
    case OutcomeClass::Ok:
      return "ok";
    case OutcomeClass::UserError:
      return "user-error";
    case OutcomeClass::Exit:
      return "exit";
    case OutcomeClass::Signal:
      return "signal";
    case OutcomeClass::OomHost:
      return "oom-host";
    case OutcomeClass::OomGpu:
      return "oom-gpu";
    case OutcomeClass::GpuMemory:
      return "gpu-memory";
    case OutcomeClass::Hardware:
      return "hardware";
    case OutcomeClass::Driver:
      return "driver";
    case OutcomeClass::Neighbour:
      return "neighbour";
    case OutcomeClass::DiskFull:
      return "disk-full";
    case OutcomeClass::OutputMissing:
      return "output-missing";
    case OutcomeClass::Stall:
      return "stall";
    case OutcomeClass::Timeout:
      return "timeout";
    case OutcomeClass::Lost:
      return "lost";
    case OutcomeClass::Unknown:
      return "unknown";
    case OutcomeClass::Requeue:
      return "requeue";
    case OutcomeClass::Cancelled:
      return "cancelled";
  }
  return "?";
}

std::optional<OutcomeClass> outcome_class_of(std::string_view name) {
  static constexpr OutcomeClass kAll[] = {
      OutcomeClass::Ok,        OutcomeClass::UserError,     OutcomeClass::Exit,
      OutcomeClass::Signal,    OutcomeClass::OomHost,       OutcomeClass::OomGpu,
      OutcomeClass::GpuMemory, OutcomeClass::Hardware,      OutcomeClass::Driver,
      OutcomeClass::DiskFull,  OutcomeClass::OutputMissing, OutcomeClass::Stall,
      OutcomeClass::Timeout,   OutcomeClass::Lost,          OutcomeClass::Unknown,
      OutcomeClass::Requeue,   OutcomeClass::Cancelled,     OutcomeClass::Neighbour};
  return enumerator_of(name, kAll);
}

std::string_view shown_class(std::string_view name) {
  return name == "neighbour" ? "mps-fault" : name;
}

std::string whole_reason(const Outcome& outcome) {
  // Of one that was done they're the reason.
  if (outcome.left_running.empty() || outcome.reason == outcome.left_running) return outcome.reason;
  return outcome.reason + (outcome.reason.empty() ? "" : "; ") + outcome.left_running;
}

}  // namespace pergpu
