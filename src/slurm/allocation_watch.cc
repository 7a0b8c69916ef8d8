// One request for one job: with a pause that even thousands of allocations may have.
#include "slurm/allocation_watch.h"

#include <fmt/format.h>

#include "slurm/slurm_allocation.h"
#include "slurm/slurm_queue.h"
#include "slurm/slurm_words.h"

namespace pergpu {
namespace {

constexpr std::int64_t kAllocationPause = 30 * kSecond;
/// In a row: one answer may be a controller's that has just been started.
constexpr int kTimesForgotten = 2;

}  // namespace

void AllocationWatch::begin() {
  parts_.timers->at(parts_.clock->now().boot_ns + kAllocationPause, [this] { ask(); });
}

void AllocationWatch::ask() {
  parts_.errands->run([this]() -> std::function<void()> {
    const Result<std::string> text = client_.show({"job", parts_.job});
    const std::string state = text ? slurm::parse_job_state(*text) : std::string();
    const bool is_forgotten =
        !text && text.error().message.find("Invalid job id") != std::string::npos;
    if (!is_forgotten && !slurm::is_over(state) && state != "COMPLETING") {
      return [this] {
        forgotten_ = 0;
        begin();
      };
    }
    if (is_forgotten && ++forgotten_ < kTimesForgotten) return [this] { begin(); };
    const std::string what = state.empty() ? "is over" : slurm::state_words(state);
    return [this, what] {
      parts_.ended(fmt::format("Slurm job {}, which had these GPUs, {}", parts_.job, what));
    };
  });
}

}  // namespace pergpu
