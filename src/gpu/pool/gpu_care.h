// What the coordinator knows of its GPUs' health: which are in quarantine, what they reported of
// late, and how attempts on them ended.  What must survive a restart is recorded as a row
// ("gpu <UUID>" of the table of small facts), so that it comes back with the world.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gpu/evidence.h"
#include "gpu/inventory.h"
#include "gpu/quarantine.h"
#include "job/schedule/gpu_record.h"
#include "os/clock.h"
#include "store/store.h"

namespace pergpu {

class GpuCare {
 public:
  /// `meta`: the rows of before.  `record` takes the new ones.
  GpuCare(const std::map<std::string, std::string>& meta, std::string boot_id, os::Clock& clock,
          std::function<void(row::Meta)> record);

  void take(const GpuLook& look);
  /// An attempt on these GPUs ended: job after job may show of a GPU what it does not report
  /// itself.
  void attempt_ended(const std::vector<std::string>& gpus, JobId job, StepKey step,
                     OutcomeClass cls);
  /// A person's word.  False: it is not in quarantine.
  bool release(const std::string& uuid);

  /// Null: it is in use.
  const gpu::Quarantine* quarantine(const std::string& uuid) const { return held_.of(uuid); }
  std::vector<std::string> quarantined() const { return held_.uuids(); }
  /// What `look`, asked for at the end of an attempt on `gpus` (UUID and name), says about it.
  /// REQUIRES: they are still that attempt's.
  gpu::AttemptFaults faults(const GpuLook& look,
                            const std::vector<std::pair<std::string, std::string>>& gpus,
                            std::int64_t started_boot_ns, std::int64_t notes_from_boot_ns) const;

  /// One of them is lost, its driver advises a recovery, or it has reported an error of the
  /// hardware since then.
  bool has_broken(const std::vector<std::string>& gpus, const GpuLook& look,
                  std::int64_t since_boot_ns) const;

 private:
  void suspect(const std::string& uuid, const std::string& words);
  void store(const std::string& uuid);

  os::Clock& clock_;
  std::function<void(row::Meta)> record_;
  gpu::Quarantines held_;
  gpu::XidHistory xids_;
  GpuRecord ends_;
};

}  // namespace pergpu
