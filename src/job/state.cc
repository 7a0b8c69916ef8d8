// Names and kinds of the states.  The edges between them are in job/job.cc.
#include "job/state.h"

#include "job/names.h"

namespace pergpu {

std::string_view to_string(JobState s) {
  switch (s) {
    case JobState::Queued:
      return "queued";
    case JobState::Held:
      return "held";
    case JobState::Starting:
      return "starting";
    case JobState::Running:
      return "running";
    case JobState::Stopping:
      return "stopping";
    case JobState::Done:
      return "done";
    case JobState::Failed:
      return "failed";
    case JobState::Timeout:
      return "timeout";
    case JobState::Cancelled:
      return "cancelled";
    case JobState::Skipped:
      return "skipped";
    case JobState::Lost:
      return "lost";
  }
  return "?";
}

std::optional<JobState> job_state_of(std::string_view name) {
  static constexpr JobState kAll[] = {JobState::Queued,  JobState::Held,     JobState::Starting,
                                      JobState::Running, JobState::Stopping, JobState::Done,
                                      JobState::Failed,  JobState::Timeout,  JobState::Cancelled,
                                      JobState::Skipped, JobState::Lost};
  return enumerator_of(name, kAll);
}

bool is_live(JobState s) {
  return s == JobState::Starting || s == JobState::Running || s == JobState::Stopping;
}

bool is_ended(JobState s) {
  switch (s) {
    case JobState::Queued:
    case JobState::Held:
    case JobState::Starting:
    case JobState::Running:
    case JobState::Stopping:
      return false;
    case JobState::Done:
    case JobState::Failed:
    case JobState::Timeout:
    case JobState::Cancelled:
    case JobState::Skipped:
    case JobState::Lost:
      return true;
  }
  return false;
}

}  // namespace pergpu
