// The limit on GPU memory of running attempts, `gpu_memory` or a share's part: looked at each
// second, while there is one.  Two looks in a row must show too much, for a moment's peak is no
// lasting need.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/coordinator.h"
#include "gpu/memory_use.h"
#include "job/schedule/schedule.h"
#include "job/text.h"

namespace pergpu {
namespace {

constexpr int kLooksAbove = 2;

std::string_view what_is_passed(const Demand& demand) {
  if (demand.gpu_memory_bytes) return "its limit of";
  return demand.promise_bytes > 0 ? "what similar jobs needed, plus a margin:" : "its share of";
}

bool is_watched(const LiveAttempt& live) {
  const bool has_limit = live.demand.gpu_memory_bytes || live.demand.share > 0;
  return has_limit && !live.gpus.empty() && !live.examining;
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

/// On the GPU where it uses most; nullopt: it can't be determined.
std::optional<Coordinator::GpuMemoryUse> Coordinator::gpu_memory_of(const LiveAttempt& live,
                                                                    const GpuLook& look) const {
  const bool shares = live.demand.share > 0;
  gpu::MemoryQuestion question;
  question.idle_bytes = [this](const std::string& uuid) { return parts_.gpus->idle_bytes(uuid); };
  question.has_outsiders = live.had_company || live.demand.outsiders != Outsiders::Avoid;
  question.ours = [&](const GpuProcess& process) {
    return shares ? is_of(live, process) : is_ours(process);
  };
  std::optional<GpuMemoryUse> most;
  for (const std::string& uuid : live.gpus) {
    question.gpu = uuid;
    const std::optional<std::uint64_t> bytes = gpu::memory_in_use(look, question);
    if (bytes && (!most || *bytes > most->bytes)) most = GpuMemoryUse{uuid, *bytes};
  }
  return most;
}

void Coordinator::judge_gpu_memory(const GpuLook& look) {
  for (auto& [id, live] : live_) {
    const Job& job = *parts_.world->job(id);
    if (!is_watched(live) || job.state != JobState::Running) continue;
    const std::optional<GpuMemoryUse> used = gpu_memory_of(live, look);
    if (!used) continue;
    if (live.demand.share > 0 && parts_.telemetry != nullptr) {
      parts_.telemetry->saw_gpu_memory(live.id, used->bytes);
    }
    if (used->bytes > 0) check_mps(live);
    if (live.demand.is_auto) watch_need(live, used->bytes);
    const gpu::GpuLane* facts = parts_.gpus->facts(used->uuid);
    const std::uint64_t most = promised_to(live.demand, facts == nullptr ? 0 : facts->total_bytes);
    if (most == 0) continue;  // how much the GPU has is not known
    const bool is_above = used->bytes > most && !make_room(live, used->bytes);
    live.looks_above = is_above ? live.looks_above + 1 : 0;
    if (live.looks_above < kLooksAbove) continue;
    // Others of its shape were promised as little, and all may be about to outgrow it.
    const std::optional<std::uint64_t> declared = live.demand.gpu_memory_bytes;
    if (live.demand.is_auto && !declared && shape_of(job) != 0) {
      learn_need(job.id, {.bytes = used->bytes});
    }
    const bool is_named = facts != nullptr && (live.gpus.size() > 1 || !declared);
    stop_attempt(job, StopCause::GpuMemory,
                 fmt::format("GPU memory {}{} exceeded {} {}", size_text(used->bytes),
                             is_named ? " on " + to_string(facts->id) : "",
                             what_is_passed(live.demand), size_text(declared.value_or(most))),
                 StopHow::TermThenKill);
  }
}

}  // namespace pergpu
