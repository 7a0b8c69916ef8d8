// The order of the questions is the rule: what we did to it, whether it ever ran, whether its
// status is known, and only then what it says of itself.
#include "job/classify.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "job/end_of_log.h"
#include "job/not_started.h"
#include "job/signal_names.h"
#include "job/text.h"
#include "result.h"
#include "storage_errno.h"

namespace pergpu {
namespace {

constexpr int kRequeueExit = 75;         // EX_TEMPFAIL of sysexits.h
constexpr int kUsageErrorExit = 2;       // argparse and most command lines
constexpr int kNotExecutableExit = 126;  // of shells
constexpr int kNotFoundExit = 127;
constexpr std::int64_t kQuickNs = 60'000'000'000;

struct Verdict {
  OutcomeClass cls = OutcomeClass::Unknown;
  std::string reason = {};
};

std::string words_or(const std::string& words, const char* otherwise) {
  return words.empty() ? otherwise : words;
}

Verdict stopped(const Evidence& e) {
  switch (*e.stop) {
    case StopCause::Cancel:
      return {OutcomeClass::Cancelled, words_or(e.stop_reason, "cancelled")};
    case StopCause::Timeout:
      return {OutcomeClass::Timeout, words_or(e.stop_reason, "timeout")};
    case StopCause::Memory:
      if (e.memory_bytes == 0 || e.memory_limit_bytes == 0) {
        return {OutcomeClass::OomHost, words_or(e.stop_reason, "memory exceeded its limit")};
      }
      return {OutcomeClass::OomHost,
              fmt::format("memory {} exceeded its limit of {}", size_text(e.memory_bytes),
                          size_text(e.memory_limit_bytes))};
    case StopCause::Idle:
      return {OutcomeClass::Stall, words_or(e.stop_reason, "no output (idle_timeout)")};
    case StopCause::Stall:
      return {OutcomeClass::Stall, words_or(e.stop_reason, "neither output nor work (stall)")};
    case StopCause::GpuMemory:
      return {OutcomeClass::GpuMemory, words_or(e.stop_reason, "GPU memory exceeded its limit")};
  }
  return {};
}

OutcomeClass class_of_spawn_errno(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EROFS:
      return OutcomeClass::DiskFull;
    // The machine is short of something: another try may succeed, and the job has spent nothing.
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return OutcomeClass::Lost;
  }
  return is_storage_errno(code) ? OutcomeClass::Lost : OutcomeClass::UserError;
}

/// Where it was to run: `cwd`, the sweep file's folder, or the copy of the code.
bool misses_folder(const SpawnFailure& f) {
  return f.phase == "chdir" && (f.os_errno == ENOENT || f.os_errno == ENOTDIR);
}

Verdict not_started(const SpawnFailure& f) {
  if (f.phase == kFolderInUsePhase) {
    return {OutcomeClass::Lost, std::string(kFolderInUseReason) + f.object};
  }
  if (misses_folder(f)) {
    return {OutcomeClass::UserError,
            fmt::format("could not start: its working folder {} {}; create it, or submit the sweep "
                        "again from its new location",
                        f.object,
                        f.os_errno == ENOENT ? "does not exist (No such file or directory)"
                                             : "is not a folder")};
  }
  if (f.phase == kRootReplacedPhase)
    return {OutcomeClass::Lost, std::string(kStorageReason) + root_replaced_words(f.object)};
  if (f.phase == kProgramPhase)
    return {class_of_spawn_errno(f.os_errno), "could not start: " + f.object};
  std::string reason = fmt::format(
      "{}{}{}{}", is_storage_errno(f.os_errno) ? kStorageReason : "could not start: ", f.phase,
      f.object.empty() ? "" : " ", f.object);
  if (f.os_errno != 0) reason = os_error(std::move(reason), f.os_errno).message;
  if (f.os_errno == ENOEXEC) reason += " (a script needs a first line such as #!/bin/sh)";
  return {class_of_spawn_errno(f.os_errno), std::move(reason)};
}

/// `otherwise`: the class of its exit status alone, where the log says why but not of which class.
std::optional<Verdict> by_log(const Evidence& e, const std::string& ended, OutcomeClass otherwise) {
  const bool is_quick = e.duration_ns > 0 && e.duration_ns < kQuickNs;
  const std::optional<LogVerdict> found = read_end_of_log({.log_tail = e.log_tail,
                                                           .own = e.rules,
                                                           .is_quick = is_quick,
                                                           .exit_code = e.exit_code,
                                                           .signal = e.signal});
  if (e.shares_mps && (!found || !found->cls)) {
    // What breaks the context of one client of MPS breaks that of all on the GPU.
    const std::optional<std::string> line = find_cuda_error(e.log_tail);
    if (line) {
      return Verdict{OutcomeClass::Neighbour,
                     fmt::format("{}: {} (with MPS, another job on its GPU may have caused it)",
                                 ended, *line)};
    }
  }
  if (!found) return std::nullopt;
  if (!e.asks_for_gpus && found->row != nullptr && found->row->sign == Sign::NoGpu) {
    return Verdict{OutcomeClass::UserError,
                   fmt::format("{}: {} ({})", ended, kSeesNoGpu, found->line)};
  }
  OutcomeClass cls = found->cls.value_or(otherwise);
  // An outage does not make an exit of a signal.
  if (e.signal && cls == OutcomeClass::Exit && !found->is_own) cls = OutcomeClass::Signal;
  if (found->meaning.empty()) return Verdict{cls, ended + ": " + found->line};
  return Verdict{cls, fmt::format("{}: {} ({})", ended, found->meaning, found->line)};
}

/// A shell's code for what it could not execute.  A program that has said something else meant
/// something else by it.
Verdict not_executed(const Evidence& e, const std::string& ended) {
  if (!says_nothing(e.log_tail)) return {OutcomeClass::Exit, ended};
  return {OutcomeClass::UserError,
          ended + (e.exit_code == kNotFoundExit
                       ? ": a shell exits with this if it can't find a program; its log is empty"
                       : ": a shell exits with this if it can't execute a program; its log is "
                         "empty")};
}

Verdict exited(const Evidence& e) {
  const int code = *e.exit_code;
  if (code == 0) {
    if (e.missing_output.empty()) return {OutcomeClass::Ok, ""};
    return {OutcomeClass::OutputMissing, fmt::format("output {} {}", e.missing_output,
                                                     words_or(e.missing_why, "does not exist"))};
  }
  std::string reason = fmt::format("exit code {}", code);
  if (code == kRequeueExit) return {OutcomeClass::Requeue, reason + ": requests a restart"};
  const OutcomeClass cls = code == kUsageErrorExit ? OutcomeClass::UserError : OutcomeClass::Exit;
  if (std::optional<Verdict> told = by_log(e, reason, cls)) return *std::move(told);
  if (code == kNotExecutableExit || code == kNotFoundExit) return not_executed(e, reason);
  return {cls, std::move(reason)};
}

Verdict out_of_memory(const Evidence& e) {
  const std::string peak = size_text(e.peak_memory_bytes);
  if (!e.oom_at_limit || e.memory_limit_bytes == 0) {
    return {OutcomeClass::OomHost,
            fmt::format("killed by the kernel: the machine ran out of memory (the job's peak: {})",
                        peak)};
  }
  return {OutcomeClass::OomHost,
          fmt::format("killed by the kernel: memory reached its limit of {} (peak {})",
                      size_text(e.memory_limit_bytes), peak)};
}

std::optional<Verdict> by_machine(const Evidence& e, const std::string& ended) {
  const bool is_hardware = !e.gpu_fault.empty();
  const std::string& fault = is_hardware ? e.gpu_fault : e.driver_fault;
  if (fault.empty()) return std::nullopt;
  return Verdict{is_hardware ? OutcomeClass::Hardware : OutcomeClass::Driver, ended + "; " + fault};
}

/// The machine's own word comes before what the program printed when it met it.
std::optional<Verdict> by_gpu(const Evidence& e) {
  if (e.exit_code == 0 || e.exit_code == kRequeueExit) return std::nullopt;
  const std::string ended = e.exit_code ? fmt::format("exit code {}", *e.exit_code)
                            : e.signal  ? fmt::format("killed by {}", signal_name(*e.signal))
                                        : std::string("its exit status is unknown");
  return by_machine(e, ended);
}

Verdict stopped_or_hung(const Evidence& e) {
  Verdict stop = stopped(e);
  if (!may_be_the_machine(*e.stop)) return stop;
  return by_machine(e, stop.reason).value_or(stop);
}

Verdict verdict(const Evidence& e) {
  if (e.stop) return stopped_or_hung(e);
  if (e.spawn_failure) return not_started(*e.spawn_failure);
  if (e.lost) {
    if (e.proven_gone) return {OutcomeClass::Lost, words_or(e.lost_why, "lost")};
    return {OutcomeClass::Unknown, words_or(e.lost_why, "its exit status is unknown")};
  }
  // A program may survive the end of a part of it and fail with its own message.
  if (e.oom_kills > 0 && e.exit_code.value_or(1) != 0) return out_of_memory(e);
  if (std::optional<Verdict> told = by_gpu(e)) return *std::move(told);
  if (e.signal && *e.signal == e.early_signal) {
    return {OutcomeClass::Timeout,
            fmt::format("ended by its pre-stop signal {}, sent before its timeout of {}",
                        signal_name(*e.signal), duration_text(e.timeout_ns))};
  }
  if (e.signal) {
    std::string reason = fmt::format("killed by signal {} ({})", *e.signal, signal_name(*e.signal));
    if (auto told = by_log(e, reason, OutcomeClass::Signal)) return *std::move(told);
    return {OutcomeClass::Signal, std::move(reason)};
  }
  if (e.exit_code) return exited(e);
  return {OutcomeClass::Unknown, "its exit status is unknown"};
}

}  // namespace

bool may_be_the_machine(StopCause stop) {
  return stop == StopCause::Stall || stop == StopCause::Idle || stop == StopCause::Timeout;
}

Outcome classify(const Evidence& evidence) {
  Verdict v = verdict(evidence);
  // What was asked for stands, and this is why nothing more is known of the end.
  if (evidence.stop && evidence.lost && !evidence.lost_why.empty()) {
    v.reason += "; " + evidence.lost_why;
  }
  if (!evidence.gpu_notes.empty() && v.cls != OutcomeClass::Ok) {
    v.reason += "; " + evidence.gpu_notes;
  }
  return Outcome{.cls = v.cls,
                 .exit_code = evidence.exit_code,
                 .signal = evidence.signal,
                 .reason = std::move(v.reason),
                 .peak_memory_bytes = evidence.peak_memory_bytes,
                 .cpu_ns = evidence.cpu_ns};
}

std::string signal_name(int number) {
  const std::string_view short_name = short_signal_name(number);
  if (short_name.empty()) return fmt::format("signal {}", number);
  return fmt::format("SIG{}", short_name);
}

}  // namespace pergpu
