// The look is taken before lanes are judged by it, so a GPU that broke is closed by the very look
// that shows it; the row goes into the turn's batch, before any start that follows.
#include "gpu/pool/gpu_care.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace pergpu {
namespace {

constexpr std::string_view kGpuKey = "gpu ";

}  // namespace

GpuCare::GpuCare(const std::map<std::string, std::string>& meta, std::string boot_id,
                 os::Clock& clock, std::function<void(row::Meta)> record)
    : clock_(clock), record_(std::move(record)), held_(std::move(boot_id)) {
  for (auto it = meta.lower_bound(std::string(kGpuKey));
       it != meta.end() && it->first.starts_with(kGpuKey); ++it) {
    held_.restore(it->first.substr(kGpuKey.size()), it->second);
  }
}

void GpuCare::take(const GpuLook& look) {
  xids_.take(look);
  for (const std::string& uuid : held_.take(look, clock_.now().wall_ns)) store(uuid);
}

void GpuCare::attempt_ended(const std::vector<std::string>& gpus, JobId job, StepKey step,
                            OutcomeClass cls) {
  if (gpus.empty()) return;
  // What a GPU has said itself needs no witness.
  const bool is_known = gpus.size() == 1 && held_.of(gpus.front()) != nullptr;
  if (cls == OutcomeClass::Hardware && is_known) return;
  ends_.ended(gpus, job, step, cls);
  for (const std::string& uuid : ends_.gpus_of(job)) {
    if (ends_.is_lemon(uuid)) {
      suspect(uuid,
              fmt::format(
                  "jobs of {} different steps failed on it in a row, then succeeded on another GPU",
                  kLemonSteps));
    } else if (ends_.is_broken_by_word(uuid)) {
      suspect(uuid, fmt::format("{} jobs in a row ended on it with a hardware error in their logs",
                                kWordsOfJobs));
    }
  }
}

void GpuCare::suspect(const std::string& uuid, const std::string& words) {
  ends_.forget(uuid);
  if (held_.begin(uuid, words, gpu::Lift::Reboot, clock_.now().wall_ns)) store(uuid);
}

bool GpuCare::release(const std::string& uuid) {
  if (!held_.release(uuid)) return false;
  ends_.forget(uuid);
  store(uuid);
  return true;
}

gpu::AttemptFaults GpuCare::faults(const GpuLook& look,
                                   const std::vector<std::pair<std::string, std::string>>& gpus,
                                   std::int64_t started_boot_ns,
                                   std::int64_t notes_from_boot_ns) const {
  std::vector<gpu::AttemptGpu> asked;
  for (const auto& [uuid, name] : gpus) asked.push_back({uuid, name, held_.counted(uuid)});
  return gpu::faults_of(look, xids_, asked, started_boot_ns, notes_from_boot_ns);
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
  record_(row::Meta{std::string(kGpuKey) + uuid, held_.text(uuid)});
}

}  // namespace pergpu
