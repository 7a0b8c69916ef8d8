// How attempts on each GPU ended, and what that says of a GPU that reports nothing itself.  Pure.
//
// A suspect GPU: jobs of several different steps failed on it, one after the other, and each of
// them then succeeded on another GPU, while nothing succeeded on it in between.  Counted are
// failures that a broken GPU may cause and that nothing else explains (exit code, signal, stall).
// A step that fails on another GPU, too, speaks against itself.  That the same job succeeds
// elsewhere is asked for because everything less hits healthy GPUs: a user who is fixing a script
// fails again and again on the GPU that is free, and of a grid always the same row may fail, always
// on the first GPU.
//
// Broken by word: programs of several different jobs said that its hardware failed (their logs, by
// the table of docs/failures.md or by a rule of the user), with no success there in between.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "ids.h"
#include "job/outcome.h"
#include "job/schedule/queue.h"

namespace pergpu {

/// The number of different steps that make a GPU suspect.
inline constexpr std::size_t kLemonSteps = 3;
/// The number of different jobs that must report it as broken.
inline constexpr std::size_t kWordsOfJobs = 2;

class GpuRecord {
 public:
  /// An attempt with several GPUs says of none of them which one failed.
  void ended(const std::vector<std::string>& gpus, JobId job, StepKey step, OutcomeClass cls);
  /// The GPUs on which a job's attempts ended, as far as they are known.
  std::vector<std::string> gpus_of(JobId job) const;
  bool is_lemon(const std::string& uuid) const;
  bool is_broken_by_word(const std::string& uuid) const;
  /// What was is no reason any more.
  void forget(const std::string& uuid);

 private:
  struct End {
    std::string uuid;
    JobId job;
    StepKey step;
    OutcomeClass cls = OutcomeClass::Ok;
  };
  using Ends = std::deque<End>;
  Ends::const_iterator row_on(const std::string& uuid) const;

  Ends ends_;  // oldest first
};

}  // namespace pergpu
