// What was learned of steps: how long their jobs take and how much memory they need, kept as small
// facts in the store ("learnt 07" of the table of small facts) and bounded: 64 steps, 32 jobs each.
//
// A step is what runs: its command or shell text, before parameters are filled in.  So another
// sweep with the same command knows what this one learned.  Of the jobs of a step those count for a
// new one that are like it (job/schedule/likeness.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/schedule/gpu_shapes.h"
#include "job/schedule/likeness.h"
#include "job/step.h"
#include "os/clock.h"
#include "spec/sweep/sweep.h"
#include "store/store.h"

namespace pergpu {

class Learnt {
 public:
  static constexpr std::size_t kMostSteps = 64;
  static constexpr std::size_t kMostRecords = 32;  // of a step: the newest
  static constexpr std::size_t kMostParameters = 16;
  /// A shorter attempt says more about its start than about its work.
  static constexpr double kShortest = 1.0;  // s

  /// `meta`: the rows of before; what makes no sense of them is forgotten.  `record` takes the new
  /// ones.
  Learnt(const std::map<std::string, std::string>& meta, os::Clock& clock,
         std::function<void(row::Meta)> record);

  void add(const StepSpec& step, UsageRecord record);
  /// nullopt: nothing like it was done.  `run`: null for a once-step's job.
  std::optional<Estimate> estimate(const StepSpec& step, const RunSpec* run) const;
  /// Of all that is known of the step: for when there are too many jobs to look at each.
  std::optional<Estimate> estimate_of_step(const StepSpec& step) const;
  /// What jobs of the step with `gpus = "auto"` were seen to need; null: none was seen.
  const GpuShapes* gpu_shapes(const StepSpec& step) const;
  /// 0: it is of no shape that was seen.  `run`: as above.
  GpuShape gpu_shape(const StepSpec& step, const RunSpec* run) const;
  GpuShapes::News add(const StepSpec& step, const RunSpec* run, const GpuNeed& need);
  /// What is learned of one is known of the other.
  static bool are_alike(const StepSpec& a, const StepSpec& b);
  /// Records what was learned in the last seconds: when a sweep has ended, or before the process
  /// leaves.
  void save();

 private:
  struct Known {
    std::size_t slot = 0;
    std::string name = {};  // of the step, for people who look into the store
    std::int64_t used_wall_ns = 0;
    std::int64_t saved_wall_ns = 0;
    bool is_saved = true;
    std::vector<UsageRecord> records = {};  // oldest first
    std::map<std::uint32_t, double> weights = {};
    GpuShapes gpu = {};
  };
  void restore(std::size_t slot, const std::string& text);
  void save(std::uint64_t key, Known& known);
  Known& known_of(std::uint64_t key, const std::string& name);

  os::Clock& clock_;
  std::function<void(row::Meta)> record_;
  std::map<std::uint64_t, Known> steps_;
};

/// Of a run's parameters, the first kMostParameters.
std::vector<ParameterMark> marks_of(const RunSpec& run);

}  // namespace pergpu
