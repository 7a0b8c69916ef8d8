// The real GpuInventory: asks a probe process, never NVML itself.
//
// NVML can block forever in the kernel, where even SIGKILL does not end the caller.  So each look
// has a deadline; a probe that misses it is killed and abandoned, never waited for, and its look is
// answered "incomplete": unknown, not healthy and not lost.  While an abandoned probe has not gone
// no second one is started (one hung process is enough), and a new one at the earliest 30 s after
// the last hang.  A probe that dies otherwise is started again for a later look, with a growing
// delay.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "os/clock.h"
#include "os/loop.h"

namespace pergpu::gpu {

struct ProbeOptions {
  /// Program and arguments; empty: $PERGPU_PROBE if set, else this executable, and "probe".
  std::vector<std::string> argv = {};
  /// A warm driver answers in milliseconds; 2 s without an answer is a hang or a driver in trouble.
  std::chrono::milliseconds deadline{2'000};
  /// Without persistence mode the first NVML call initializes every GPU: about a second each, and
  /// several on big machines.
  std::chrono::milliseconds first_deadline{15'000};
  /// A hang costs a process that may never go away, so it is not repeated often.
  std::chrono::milliseconds hang_pause{30'000};
  /// How long a GPU at which a probe hung is left out, and longer while that probe is stuck.
  std::chrono::milliseconds skip_pause{600'000};
  /// After a probe that died without a hang: this, doubled each time, up to hang_pause.
  std::chrono::milliseconds crash_pause{1'000};
};

class ProbeInventory final : public GpuInventory {
 public:
  /// REQUIRES: `loop` and `clock` outlive the inventory.  Starts nothing yet.
  static std::unique_ptr<ProbeInventory> create(os::Loop& loop, os::Clock& clock,
                                                ProbeOptions options = {});
  ~ProbeInventory() override;

  void look(std::function<void(const GpuLook&)> done) override;
  void stay(bool wanted) override;
  bool read_usage(const UsageQuestion& question,
                  const std::function<void(const UsageAnswer&)>& done) override;

 private:
  ProbeInventory();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A device whose driver cannot name it any more keeps the UUID it had in `previous`; one that is
/// not even counted any more is added as Lost.
void carry_identities(GpuLook& look, const GpuLook& previous);

}  // namespace pergpu::gpu
