// GPUs and their lanes as they are told: what GpuLanes knows, in the words of the snapshot.
#include <fmt/format.h>

#include <utility>

#include "coordinator/gpu_lanes.h"
#include "gpu/processes.h"

namespace pergpu {

std::vector<LaneSnapshot> GpuLanes::lanes() const {
  std::vector<LaneSnapshot> out;
  for (const Lane& l : lanes_) {
    LaneSnapshot s{.name = to_string(l.facts.id), .uuid = l.facts.uuid, .state = "free"};
    const std::string quarantine = quarantine_words(l);
    switch (l.phase) {
      case Phase::Idle:
      case Phase::Ready:
        break;
      case Phase::Looking:
        s.state = "busy";
        s.why = fmt::format("is looked at for job {}", l.job.value);
        break;
      case Phase::InUse:
        s.state = l.words.empty() ? "busy" : "dirty";
        s.why = l.words;
        if (s.why.empty() && !quarantine.empty()) s.why = "is quarantined after it: " + quarantine;
        s.job = l.job.value;
        break;
      case Phase::Settling:
        s.state = "busy";
        s.why = fmt::format("is being cleared after job {}", l.job.value);
        break;
      case Phase::LeasedByOther:
      case Phase::Closed:
      case Phase::Doubtful:
        s.state = l.state;
        s.why = l.words;
        break;
    }
    const bool is_idle = l.phase != Phase::InUse && l.phase != Phase::Settling &&
                         l.phase != Phase::Looking && l.phase != Phase::LeasedByOther;
    if (is_idle && !quarantine.empty()) {
      s.state = "quarantined";
      s.why = quarantine;
    }
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<GpuSnapshot> GpuLanes::gpus() const {
  std::vector<GpuSnapshot> out;
  const std::vector<LaneSnapshot> lane_states = lanes();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& l = lanes_[i];
    GpuSnapshot s{.uuid = l.facts.uuid,
                  .index = l.facts.id.slot,
                  .name = l.facts.name,
                  .pci = l.facts.pci,
                  .state = lane_states[i].state,
                  .why = lane_states[i].why,
                  .lanes = {lane_states[i].name},
                  .memory_bytes = static_cast<std::int64_t>(l.reading.total_bytes),
                  .used_bytes = static_cast<std::int64_t>(l.reading.used_bytes)};
    for (const GpuProcess& p : l.reading.processes) {
      GpuHolder holder{.pid = p.pid, .command = p.command};
      if (p.uid) holder.user = gpu::user_name(*p.uid);
      if (p.memory_bytes) holder.memory_bytes = static_cast<std::int64_t>(*p.memory_bytes);
      if (l.phase == Phase::InUse && parts_.ours(p)) holder.job = l.job.value;
      s.holders.push_back(std::move(holder));
    }
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace pergpu
