// A job that says nothing: ended at once where that was the limit (idle_timeout), and where it may
// hang (stall) only after its GPUs were found idle and its stacks were written.  Its keeper reports
// again while it stays quiet, so whatever is doubtful is left for the next time.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "job/text.h"

namespace pergpu {
namespace {

constexpr int kStallLooks = 5;  // NVML's figure is of the last second or less

/// Not reported, or not answered, is not idle.
bool is_idle(const GpuLook& look, const std::vector<std::string>& gpus) {
  return look.complete && std::all_of(gpus.begin(), gpus.end(), [&](const std::string& uuid) {
           const auto gpu = std::find_if(look.gpus.begin(), look.gpus.end(),
                                         [&](const GpuReading& r) { return r.uuid == uuid; });
           return gpu != look.gpus.end() && gpu->health == GpuHealth::Ok && gpu->utilization == 0;
         });
}

}  // namespace

void Coordinator::on_quiet(LiveAttempt& live, const engine_event::Quiet& quiet) {
  const Job& job = *parts_.world->job(live.id.job);
  if (job.state != JobState::Running) return;
  const std::string silence = "no output for " + duration_text(quiet.silent_ns);
  if (!quiet.is_stall) {
    stop_attempt(job, StopCause::Idle, silence + " (idle_timeout)", StopHow::TermThenKill);
    return;
  }
  if (std::exchange(live.doubted, true)) return;
  confirm_stall(live,
                fmt::format("{}, {} of CPU time{} (stall)", silence, duration_text(quiet.cpu_ns),
                            live.gpus.empty() ? "" : " and no work on its GPU"),
                live.gpus.empty() ? 0 : kStallLooks);
}

/// `looks`: how many more, a second apart, must show its GPUs idle; one is enough that shows one of
/// them broken, which shows no work any more.
void Coordinator::confirm_stall(LiveAttempt& live, const std::string& words, int looks) {
  if (looks == 0) return end_stalled(live, words);
  parts_.gpus->examine([this, id = live.id, words, looks](const GpuLook& look) {
    const auto it = live_.find(id.job);
    if (it == live_.end() || it->second.id != id || it->second.has_ended()) return;
    const std::int64_t started = parts_.world->job(id.job)->last->starting_at.boot_ns;
    if (gpu_care_.has_broken(it->second.gpus, look, started)) {
      return end_stalled(it->second, words);
    }
    if (!is_idle(look, it->second.gpus)) {
      it->second.doubted = false;
      return;
    }
    attempt_timer(
        id, parts_.clock->now().boot_ns + kSecond,
        [this, words, looks](LiveAttempt& idle) { confirm_stall(idle, words, looks - 1); });
  });
}

/// Its stacks are gone when it has ended: they come first.
void Coordinator::end_stalled(LiveAttempt& live, const std::string& words) {
  const std::string path = parts_.world->out_of(*parts_.world->job(live.id.job)) + "/stacks.txt";
  live.engine->write_stacks(live.id, path, [this, id = live.id, words, path](bool written) {
    const auto it = live_.find(id.job);
    const Job& job = *parts_.world->job(id.job);
    if (it == live_.end() || it->second.id != id || it->second.has_ended()) return;
    if (job.state != JobState::Running) return;
    stop_attempt(job, StopCause::Stall,
                 words + (written ? "; stacks in " + path : "; couldn't write its stacks"),
                 StopHow::TermThenKill);
  });
}

}  // namespace pergpu
