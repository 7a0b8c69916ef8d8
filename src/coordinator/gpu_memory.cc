// The limit `gpu_memory` of running attempts: looked at each second, while there is one.  Two looks
// in a row must show too much, for a moment's peak is no lasting need.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/coordinator.h"
#include "gpu/memory_use.h"
#include "job/gpu_limit.h"
#include "job/text.h"

namespace pergpu {
namespace {

constexpr int kLooksAbove = 2;

bool is_watched(const LiveAttempt& live) {
  return live.demand.gpu_memory_bytes && !live.gpus.empty() && !live.examining;
}

}  // namespace

void Coordinator::watch_gpu_memory() {
  if (watches_gpu_memory_) return;
  if (std::none_of(live_.begin(), live_.end(),
                   [](const auto& entry) { return is_watched(entry.second); })) {
    return;
  }
  watches_gpu_memory_ = true;
  parts_.timers->at(parts_.clock->now().boot_ns + kSecond, [this] {
    parts_.gpus->examine([this](const GpuLook& look) {
      watches_gpu_memory_ = false;
      judge_gpu_memory(look);
      watch_gpu_memory();
    });
  });
}

void Coordinator::judge_gpu_memory(const GpuLook& look) {
  gpu::MemoryQuestion question;
  question.ours = [this](const GpuProcess& process) { return is_ours(process); };
  question.idle_bytes = [this](const std::string& uuid) { return parts_.gpus->idle_bytes(uuid); };
  for (auto& [id, live] : live_) {
    const Job& job = *parts_.world->job(id);
    if (!is_watched(live) || job.state != JobState::Running) continue;
    question.has_outsiders = live.demand.outsiders != Outsiders::Avoid;
    std::optional<std::uint64_t> used;
    std::string fullest;
    for (const std::string& uuid : live.gpus) {
      question.gpu = uuid;
      const std::optional<std::uint64_t> bytes = gpu::memory_in_use(look, question);
      if (bytes <= used) continue;
      used = bytes;
      fullest = uuid;
    }
    if (!used) continue;
    const std::uint64_t limit = *live.demand.gpu_memory_bytes;
    live.looks_above = *used > ended_above(limit) ? live.looks_above + 1 : 0;
    if (live.looks_above < kLooksAbove) continue;
    const gpu::GpuLane* facts = live.gpus.size() > 1 ? parts_.gpus->facts(fullest) : nullptr;
    stop_attempt(
        job, StopCause::GpuMemory,
        fmt::format("GPU memory {}{} passed its limit of {}", size_text(*used),
                    facts == nullptr ? "" : " on " + to_string(facts->id), size_text(limit)),
        StopHow::TermThenKill);
  }
}

}  // namespace pergpu
