// What live attempts use: readings, asked for once a second, rolled up here and stored by the
// minute.  Runs on the deciding thread and never blocks: reading is the inventory's (the probe's).
//
// A reading that fails is unknown, and the next one has what happened since the last one that did
// not.  Where readings cost more than expected there are fewer of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "ids.h"
#include "job/rollup.h"
#include "job/schedule/cpu_share.h"
#include "job/usage.h"
#include "os/clock.h"
#include "store/store.h"
#include "timers.h"

namespace pergpu {

class Telemetry {
 public:
  struct Parts {
    GpuInventory* inventory = nullptr;
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    std::int64_t pause_ns = kSecond;  // between two readings; 0: none are made
    int cores = 0;                    // that the jobs may use together; 0: not known
    std::function<void(row::Usage)> record;
  };
  explicit Telemetry(Parts parts) : parts_(std::move(parts)) {}
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  struct Subject {
    AttemptId id = {};
    os::TreeRoot root = {};
    std::vector<std::string> gpus = {};
    bool shares_gpu = false;  // what the GPU uses is others', too
    std::int64_t started_boot_ns = 0;
    bool is_new = true;  // false: adopted; what it used before is not known
  };
  void begin(Subject subject);
  /// nullopt: no reading was made of it.  What is left of its minutes is recorded, unless it did
  /// not last for one.
  std::optional<UsageSummary> end(AttemptId id);
  /// Records the minutes that are over and not yet recorded: before the process leaves.
  void save();

  /// Null: it is not live.
  const Rollup* of(AttemptId id) const;
  /// How it shares the cores with the others; null: it is not live.
  const CpuShare* share(AttemptId id) const;
  std::optional<UsageSummary> summary(AttemptId id) const;
  /// The newest reading of it; null: there is none of late.
  const GpuUsage* gpu(const std::string& uuid) const;
  /// When that was read, as boot time; 0: there is none.
  std::int64_t gpu_read_ns(const std::string& uuid) const;
  /// From now on others are on its GPU, too.
  void share_gpu(AttemptId id);
  /// So much memory of the GPU that it shares its own processes were seen to have.
  void saw_gpu_memory(AttemptId id, std::uint64_t bytes);

 private:
  /// A counter that may fall for a moment: counts from the highest value it had.
  struct Counter {
    std::int64_t highest = 0;
    std::int64_t read_at_ns = 0;
    bool is_known = false;
    std::optional<float> rate(std::int64_t value, std::int64_t now_ns);
  };
  struct Live {
    Subject subject = {};
    std::int64_t begun_ns = 0;
    Rollup rollup = Rollup(0);
    CpuShare share = {};
    Counter cpu = {};
    Counter read = {};
    Counter written = {};
    std::vector<UsageBucket> unsaved = {};  // minutes that are over
    bool lasts = false;                     // a minute of it was over
    float gpu_memory = 0;                   // of the GPU that it shares, in bytes; 0: not seen,
    std::int64_t gpu_memory_ns = 0;         // as of then
    std::optional<double> cores = {};       // of the reading that is being taken,
    double span_s = 0;                      // over how many seconds
  };
  struct SeenGpu {
    GpuUsage usage = {};
    std::int64_t boot_ns = 0;
  };
  void schedule(std::int64_t boot_ns);
  void ask();
  void take(const std::vector<AttemptId>& asked, const UsageAnswer& answer);
  void take_gpus(const Live& live, UsageReading& reading) const;
  void add(Live& live, const UsageReading& reading);
  void share_cores(const std::vector<AttemptId>& asked);
  void save(Live& live);
  void bound_memory();
  std::int64_t pause_ns() const;

  Parts parts_;
  std::map<AttemptId, Live> live_;
  std::map<std::string, SeenGpu> gpus_;
  Timers::Id timer_ = 0;
  bool asking_ = false;
  std::int64_t refusal_pause_ns_ = 0;
  double cost_ns_ = 0;  // of a reading, smoothed
};

}  // namespace pergpu
