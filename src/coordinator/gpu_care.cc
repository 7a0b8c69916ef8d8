// The look is taken before lanes are judged by it, so a GPU that broke is closed by the very look
// that shows it; the row goes into the turn's batch, before any start that follows.
#include "coordinator/gpu_care.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace pergpu {
namespace {

constexpr std::string_view kKey = "gpu ";

}  // namespace

GpuCare::GpuCare(const std::map<std::string, std::string>& meta, std::string boot_id,
                 os::Clock& clock, std::function<void(row::Meta)> record)
    : clock_(clock), record_(std::move(record)), held_(std::move(boot_id)) {
  for (auto it = meta.lower_bound(std::string(kKey));
       it != meta.end() && it->first.starts_with(kKey); ++it) {
    held_.restore(it->first.substr(kKey.size()), it->second);
  }
}

void GpuCare::take(const GpuLook& look) {
  xids_.take(look);
  for (const std::string& uuid : held_.take(look, clock_.now().wall_ns)) store(uuid);
}

void GpuCare::attempt_ended(const std::vector<std::string>& gpus, StepKey step, OutcomeClass cls) {
  ends_.ended(gpus, step, cls);
  if (cls == OutcomeClass::Ok) return;
  for (const std::string& uuid : gpus) {
    if (!ends_.is_lemon(uuid)) continue;
    ends_.forget(uuid);
    const std::string words = fmt::format(
        "{} different programs failed on it one after the other, while others succeeded elsewhere",
        kLemonSteps);
    if (held_.begin(uuid, words, gpu::Lift::Reboot, clock_.now().wall_ns)) store(uuid);
  }
}

bool GpuCare::release(const std::string& uuid) {
  if (!held_.release(uuid)) return false;
  ends_.forget(uuid);
  store(uuid);
  return true;
}

gpu::AttemptFaults GpuCare::faults(const GpuLook& look,
                                   const std::vector<std::pair<std::string, std::string>>& gpus,
                                   std::int64_t started_boot_ns) const {
  std::vector<gpu::AttemptGpu> asked;
  for (const auto& [uuid, name] : gpus) asked.push_back({uuid, name, held_.counted(uuid)});
  return gpu::faults_of(look, xids_, asked, started_boot_ns);
}

bool GpuCare::has_broken(const std::vector<std::string>& gpus, const GpuLook& look,
                         std::int64_t since_boot_ns) const {
  std::vector<gpu::AttemptGpu> asked;
  for (const std::string& uuid : gpus) {
    // A GPU whose memory waits for a repair goes on working.
    const unsigned conditions = gpu::kLostCondition | gpu::kRecoveryAdvised;
    asked.push_back({uuid, {}, held_.counted(uuid) & conditions});
  }
  return !gpu::faults_of(look, xids_, asked, since_boot_ns).hardware.empty();
}

void GpuCare::store(const std::string& uuid) {
  record_(row::Meta{std::string(kKey) + uuid, held_.text(uuid)});
}

}  // namespace pergpu
