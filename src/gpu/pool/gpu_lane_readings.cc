// From what a look shows to lanes.  Those of GPUs stay, whatever becomes of them; those of
// instances go with them.
#include <algorithm>

#include "gpu/pool/gpu_lanes.h"
#include "job/gpu_slot.h"

namespace pergpu {

/// A GPU that was cut otherwise has not lost the instances that it had.
void GpuLanes::forget_gone_instances(const std::vector<gpu::GpuLane>& shown) {
  std::erase_if(lanes_, [&](Lane& l) {
    const bool is_shown =
        std::ranges::find(shown, l.facts.uuid, &gpu::GpuLane::uuid) != shown.end();
    const bool is_idle = l.phase == Phase::Idle || l.phase == Phase::Closed ||
                         l.phase == Phase::Doubtful || l.phase == Phase::LeasedByOther;
    const bool is_gone =
        !is_shown && is_instance(l.facts.id.slot) && is_idle && l.tenants.empty() && !l.waiter;
    if (is_gone && l.doubtful_timer != 0) parts_.timers->cancel(l.doubtful_timer);
    return is_gone;
  });
}

/// True when the look shows a GPU that the last complete one did not.
bool GpuLanes::take_readings(const GpuLook& look) {
  look_ = look;
  for (const GpuReading& reading : look.gpus) idle_.learn(reading);
  const std::vector<gpu::GpuLane> shown = gpu::gpu_lanes(look);
  bool is_news = false;
  for (const gpu::GpuLane& facts : shown) {
    Lane* l = lane(facts.uuid);
    if (l == nullptr) l = &lanes_.emplace_back();
    is_news = is_news || !l->listed;
    l->facts = facts;
    l->seen = true;
    l->reading = *std::find_if(look.gpus.begin(), look.gpus.end(),
                               [&](const GpuReading& r) { return r.uuid == facts.uuid; });
  }
  forget_gone_instances(shown);
  for (Lane& l : lanes_) {
    l.listed = std::any_of(shown.begin(), shown.end(),
                           [&](const gpu::GpuLane& facts) { return facts.uuid == l.facts.uuid; });
    if (l.listed) continue;
    // An empty reading would pass for a clean one.
    l.reading = {
        .uuid = l.facts.uuid, .health = GpuHealth::Lost, .note = "the driver doesn't list it"};
  }
  return is_news;
}

}  // namespace pergpu
