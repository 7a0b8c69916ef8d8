// The states of a job.  docs/architecture.md holds the diagram.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pergpu {

enum class JobState : std::uint8_t {
  Queued,
  Held,
  Starting,  // intent durable, process not yet reported
  Running,
  Stopping,  // being ended by us
  Done,
  Failed,
  Timeout,
  Cancelled,
  Skipped,
  Lost,
};
inline constexpr std::size_t kJobStates = static_cast<std::size_t>(JobState::Lost) + 1;

std::string_view to_string(JobState s);
std::optional<JobState> job_state_of(std::string_view name);

/// An attempt may exist: Starting, Running, Stopping.
bool is_live(JobState s);
/// Nothing more happens by itself: Done … Lost.
bool is_ended(JobState s);

}  // namespace pergpu
