// The retry policy.  Who pays decides: a fault of the machine or a job's own wish to be moved costs
// no retry but is capped, a failure of the program costs one, and what a person decided is final.
#include "job/retry.h"

#include <fmt/format.h>

#include <algorithm>

#include "job/gpu_parts.h"
#include "job/growth.h"
#include "job/not_started.h"
#include "job/text.h"

namespace pergpu {
namespace {

constexpr std::int64_t kFolderPauseNs = 1'000'000'000;

Next final_state(JobState state, std::string reason = {}) {
  return Next{.kind = Next::Kind::Final, .state = state, .reason = std::move(reason)};
}

bool tried_again_by_default(OutcomeClass cls) {
  switch (cls) {
    case OutcomeClass::Exit:
    case OutcomeClass::Signal:
    case OutcomeClass::OomHost:
    case OutcomeClass::OutputMissing:
    case OutcomeClass::Timeout:
    case OutcomeClass::Stall:
      return true;
    case OutcomeClass::Ok:
    case OutcomeClass::UserError:
    case OutcomeClass::OomGpu:
    case OutcomeClass::GpuMemory:
    case OutcomeClass::Hardware:
    case OutcomeClass::Driver:
    case OutcomeClass::Neighbour:
    case OutcomeClass::DiskFull:
    case OutcomeClass::Lost:
    case OutcomeClass::Unknown:
    case OutcomeClass::Requeue:
    case OutcomeClass::Cancelled:
      return false;
  }
  return false;
}

/// What `grow` is for is tried again whether or not `on` says so.
bool covered(const StepSpec& step, OutcomeClass cls) {
  const RetryPolicy& policy = step.retries;
  if (lacked_memory(cls) && grows_memory(step)) return true;
  if (lacked_gpu_memory(cls) && grows_gpu_memory(step)) return true;
  if (policy.on.empty()) return tried_again_by_default(cls);
  return std::find(policy.on.begin(), policy.on.end(), cls) != policy.on.end();
}

// 1 s, 2 s, 4 s …: a fault that is still there is not met again at once.
Next move_again(int moves) {
  return Next{.kind = Next::Kind::Again,
              .charged = false,
              .delay_ns = std::int64_t{1'000'000'000} << std::min(moves, 10)};
}

Next move(const Job& job, const Outcome& outcome) {
  if (job.moves < kMaxUnchargedMoves) return move_again(job.moves);
  return final_state(
      JobState::Failed,
      fmt::format("{}; gave up after {} starts that failed through no fault of the job",
                  outcome.reason, job.moves + 1));
}

/// It has a GPU alone until it is known what similar jobs need, and less of it then.
bool had_all_at_first(const Job& job, const StepSpec& step) {
  return step.gpu_auto && job.gpu_memory_growths == 0 && job.last->placement.share == kWholeGpu;
}

/// Its last attempt had a share of a GPU: what was missing others may have had.
bool had_neighbours(const Job& job, const StepSpec& step) {
  if (!job.last || job.last->placement.share == 0) return false;
  return job.last->placement.share < kWholeGpu || had_all_at_first(job, step);
}

/// How much memory it could have was chosen by what similar jobs needed.
bool was_ours_to_choose(const Job& job, const StepSpec& step) {
  if (!job.last || step.gpu_memory_bytes) return false;
  return job.last->placement.promise_bytes > 0 || had_all_at_first(job, step);
}

/// Its share is doubled, until it has all of a GPU.
Next with_fewer() {
  return Next{.kind = Next::Kind::Again, .charged = false, .more_gpu_memory = true};
}

/// Twice as long for each retry, and up to a quarter more, by the job: what fails together for one
/// cause should not be tried together.
std::int64_t pause(std::chrono::nanoseconds first, int retries_used, JobId job) {
  constexpr std::int64_t kLongest = std::int64_t{3600} * 1'000'000'000;
  std::int64_t delay = first.count();
  for (int i = 0; i < retries_used && delay < kLongest; ++i) delay *= 2;
  if (delay > kLongest) delay = std::max<std::int64_t>(first.count(), kLongest);
  // splitmix64's last step: neighboring numbers differ.
  std::uint64_t hash = static_cast<std::uint64_t>(job.value + retries_used) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  return delay + static_cast<std::int64_t>(hash >> 54) * (delay / 4096);
}

Next retry(const Job& job, const StepSpec& step, const Outcome& outcome) {
  const RetryPolicy& policy = step.retries;
  if (covered(step, outcome.cls) && job.retries_used < policy.max) {
    return Next{.kind = Next::Kind::Again,
                .charged = true,
                .delay_ns = pause(policy.delay, job.retries_used, job.id),
                .more_memory = lacked_memory(outcome.cls) && grows_memory(step),
                .more_gpu_memory = lacked_gpu_memory(outcome.cls) && grows_gpu_memory(step)};
  }
  if (job.retries_used == 0) return final_state(end_state(outcome.cls));
  return final_state(
      end_state(outcome.cls),
      fmt::format("{}; {} of {} retries used", outcome.reason, job.retries_used, policy.max));
}

}  // namespace

JobState end_state(OutcomeClass cls) {
  switch (cls) {
    case OutcomeClass::Ok:
      return JobState::Done;
    case OutcomeClass::Timeout:
      return JobState::Timeout;
    case OutcomeClass::Lost:
    case OutcomeClass::Unknown:
      return JobState::Lost;
    case OutcomeClass::Cancelled:
      return JobState::Cancelled;
    case OutcomeClass::UserError:
    case OutcomeClass::Exit:
    case OutcomeClass::Signal:
    case OutcomeClass::OomHost:
    case OutcomeClass::OomGpu:
    case OutcomeClass::GpuMemory:
    case OutcomeClass::Hardware:
    case OutcomeClass::Driver:
    case OutcomeClass::Neighbour:
    case OutcomeClass::DiskFull:
    case OutcomeClass::OutputMissing:
    case OutcomeClass::Stall:
    case OutcomeClass::Requeue:
      return JobState::Failed;
  }
  return JobState::Failed;
}

Next decide_next(const Job& job, const StepSpec& step, const Outcome& outcome,
                 std::int64_t ran_ns) {
  if (job.last && job.last->stop == StopCause::Cancel) return final_state(JobState::Cancelled);
  if (is_folder_in_use(outcome)) {  // as often as it takes: nothing of it has run
    return Next{.kind = Next::Kind::Again, .charged = false, .delay_ns = kFolderPauseNs};
  }
  // The same; its turn depends on the state of that disk (coordinator/storage_waits.h).
  if (is_storage_failure(outcome)) return Next{.kind = Next::Kind::Again, .charged = false};
  switch (outcome.cls) {
    case OutcomeClass::Ok:
    case OutcomeClass::UserError:
    case OutcomeClass::Cancelled:
      return final_state(end_state(outcome.cls));
    case OutcomeClass::Lost:
    case OutcomeClass::Hardware:
    case OutcomeClass::Driver:
    case OutcomeClass::Neighbour:
      if (!step.rerun) {
        return final_state(
            end_state(outcome.cls),
            outcome.reason + "; not started again because the step has rerun = false");
      }
      return move(job, outcome);
    case OutcomeClass::Requeue:
      return ran_ns >= kProgressNs ? move_again(0) : move(job, outcome);
    case OutcomeClass::OomGpu:
    case OutcomeClass::GpuMemory: {
      const bool is_free = outcome.cls == OutcomeClass::OomGpu || was_ours_to_choose(job, step);
      const bool has_more = is_free && step.rerun && had_neighbours(job, step);
      return has_more ? with_fewer() : retry(job, step, outcome);
    }
    case OutcomeClass::Exit:
    case OutcomeClass::Signal:
    case OutcomeClass::OomHost:
    case OutcomeClass::DiskFull:
    case OutcomeClass::OutputMissing:
    case OutcomeClass::Stall:
    case OutcomeClass::Timeout:
    case OutcomeClass::Unknown:
      return retry(job, step, outcome);
  }
  return final_state(JobState::Failed);
}

}  // namespace pergpu
