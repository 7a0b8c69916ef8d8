// GPUs and their lanes as they are shown: what GpuLanes knows, in the words of the snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/pool/gpu_lanes.h"
#include "gpu/processes.h"
#include "job/gpu_slot.h"

namespace pergpu {

std::vector<LaneSnapshot> GpuLanes::lanes() const {
  std::vector<LaneSnapshot> out;
  for (const Lane& l : lanes_) {
    for (LaneSnapshot& s : snapshots_of(l)) out.push_back(std::move(s));
  }
  return out;
}

/// Several only where several jobs run.
std::vector<LaneSnapshot> GpuLanes::snapshots_of(const Lane& l) const {
  LaneSnapshot s{.name = to_string(l.facts.id), .uuid = l.facts.uuid, .state = "free"};
  const std::string quarantine = quarantine_words(l);
  switch (l.phase) {
    case Phase::Idle:
    case Phase::Ready:
      break;
    case Phase::Looking:
      s.state = "busy";
      s.why = fmt::format("being checked for job {}", l.job.value);
      break;
    case Phase::InUse:
      s.state = l.words.empty() ? "busy" : "dirty";
      s.why = l.words;
      if (s.why.empty() && !quarantine.empty())
        s.why = "will be quarantined after this job: " + quarantine;
      s.job = l.job.value;
      break;
    case Phase::Settling:
      s.state = "busy";
      s.why = fmt::format("being cleaned up after job {}", l.job.value);
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
  std::vector<LaneSnapshot> out;
  if (l.phase == Phase::InUse) {
    const std::string words = s.why.empty() ? l.remains : s.why;
    if (!l.tenants.empty()) s.job.reset();  // none runs yet, or no more
    for (const Tenant& tenant : l.tenants) {
      if (!tenant.runs) continue;
      LaneId id = l.facts.id;
      id.part = tenant.part;
      s.name = to_string(id);
      s.job = tenant.job.value;
      s.state = tenant.words.empty() ? "busy" : "dirty";
      s.why = tenant.words.empty() ? words : tenant.words;
      out.push_back(s);
    }
  }
  if (out.empty()) out.push_back(std::move(s));
  std::ranges::sort(out, {},
                    [](const LaneSnapshot& one) { return std::pair(one.name.size(), one.name); });
  return out;
}

std::vector<GpuSnapshot> GpuLanes::gpus() const {
  std::vector<GpuSnapshot> out;
  for (const Lane& l : lanes_) {
    const std::vector<LaneSnapshot> its = snapshots_of(l);
    const GpuPlace place = place_of(l.facts.id.slot);
    GpuSnapshot s{.uuid = l.facts.uuid,
                  .index = place.gpu,
                  .name = l.facts.name,
                  .pci = l.facts.pci,
                  .state = its.front().state,
                  .why = its.front().why,
                  .memory_bytes = static_cast<std::int64_t>(l.reading.total_bytes),
                  .used_bytes = static_cast<std::int64_t>(l.reading.used_bytes)};
    if (place.instance >= 0) s.instance = place.instance;
    for (const LaneSnapshot& lane : its) s.lanes.push_back(lane.name);
    for (const GpuProcess& p : l.reading.processes) {
      GpuHolder holder{.pid = p.pid, .command = p.command};
      if (p.uid) holder.user = gpu::user_name(*p.uid);
      if (p.memory_bytes) holder.memory_bytes = static_cast<std::int64_t>(*p.memory_bytes);
      if (l.phase == Phase::InUse && !l.tenants.empty() && parts_.job_of) {
        if (const std::optional<JobId> job = parts_.job_of(p)) holder.job = job->value;
      } else if (l.phase == Phase::InUse && parts_.ours(p)) {
        holder.job = l.job.value;
      }
      s.holders.push_back(std::move(holder));
    }
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace pergpu
