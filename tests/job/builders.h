// Jobs in each state, made the only way there is: by applying events.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "job/job.h"

namespace pergpu::testing_jobs {

inline constexpr JobState kAllStates[] = {
    JobState::Queued,    JobState::Held,    JobState::Starting, JobState::Running,
    JobState::Stopping,  JobState::Done,    JobState::Failed,   JobState::Timeout,
    JobState::Cancelled, JobState::Skipped, JobState::Lost};

inline Instant at(std::int64_t second) {
  return Instant{.wall_ns = 1'700'000'000'000'000'000 + second * 1'000'000'000,
                 .boot_ns = second * 1'000'000'000};
}

inline Job copy(const Job& job) {
  Job twin{.id = job.id,
           .sweep = job.sweep,
           .run = job.run,
           .step = job.step,
           .state = job.state,
           .attempts = job.attempts,
           .retries_used = job.retries_used,
           .moves = job.moves,
           .memory_growths = job.memory_growths,
           .gpu_memory_growths = job.gpu_memory_growths,
           .repeat_skipped = job.repeat_skipped,
           .queued_at = job.queued_at,
           .not_before_wall_ns = job.not_before_wall_ns,
           .reason = job.reason};
  if (job.last) twin.last = std::make_unique<Attempt>(*job.last);
  return twin;
}

inline void must_apply(Job& job, const JobEvent& e, Instant when = at(1)) {
  const Result<void> applied = apply(job, e, when);
  ASSERT_TRUE(applied) << applied.error().message;
}

inline event::Ended ended(OutcomeClass cls, Next next, std::string reason = "why") {
  return event::Ended{.outcome = {.cls = cls, .reason = std::move(reason)},
                      .next = std::move(next)};
}
inline Next final_next(JobState state) { return Next{.kind = Next::Kind::Final, .state = state}; }

inline Job submitted_job() {
  Job job{.id = {7}, .sweep = {1}, .run = 3};
  must_apply(job, event::Submitted{}, at(0));
  return job;
}

inline Job running_job() {
  Job job = submitted_job();
  must_apply(job, event::Starting{.attempt = 1, .placement = {.gpus = {"GPU-a"}}, .keeper = {4}},
             at(1));
  must_apply(job, event::Started{.pid = 100, .start_ticks = 5}, at(2));
  return job;
}

inline Job job_in(JobState state) {
  Job job = submitted_job();
  switch (state) {
    case JobState::Queued:
      return job;
    case JobState::Held:
      must_apply(job, event::Held{"held by you"});
      return job;
    case JobState::Cancelled:
      must_apply(job, event::Cancelled{"cancelled by you"});
      return job;
    case JobState::Skipped:
      must_apply(job, event::Skipped{"train failed"});
      return job;
    case JobState::Starting:
      must_apply(job, event::Starting{.attempt = 1});
      return job;
    case JobState::Running:
      return running_job();
    case JobState::Stopping:
      job = running_job();
      must_apply(job, event::Stopping{StopCause::Timeout, "timeout"}, at(3));
      return job;
    case JobState::Done:
    case JobState::Failed:
    case JobState::Timeout:
    case JobState::Lost:
      job = running_job();
      must_apply(job, ended(OutcomeClass::Exit, final_next(state)), at(3));
      return job;
  }
  return job;
}

}  // namespace pergpu::testing_jobs
