// A step of a sweep as the user declared it: what to execute and under which conditions.
// Constant after the sweep was validated.  Texts that may hold placeholders are kept as written
// (`Template`); spec/templates/placeholders.h renders them for one run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/failures.h"
#include "job/outcome.h"

namespace pergpu {

/// Text with {placeholders}, checked at parse time.
using Template = std::string;

/// What a job waits for.
struct Need {
  enum class Scope : std::uint8_t {
    SameRun,  // "train": the same run's job (or the one job of a once-step)
    All,      // "train:all": every job of that step is done
    Ended,    // "train:ended": every job of that step has ended, however
  };
  int step = 0;  // index into SweepSpec::steps
  Scope scope = Scope::SameRun;
  bool operator==(const Need&) const = default;
};

/// When a failed attempt is tried again at the job's own expense.
struct RetryPolicy {
  int max = 0;
  std::vector<OutcomeClass> on =
      {};  // empty: exit, signal, timeout, lost and the like (job/retry.h)
  std::chrono::milliseconds delay{1000};  // before the first retry; doubles (job/retry.h)
  bool operator==(const RetryPolicy&) const = default;
};

/// Sent to the job's process group `ahead` of its `timeout`, and before the TERM of a cancel.
struct EarlySignal {
  int number = 0;  // SIGUSR1 …
  std::chrono::milliseconds ahead{0};
  bool operator==(const EarlySignal&) const = default;
};

/// How much more the next attempt has after one that had too little: factors above 1; 0: no more.
struct Growth {
  double memory = 0;      // after OomHost
  double gpu_memory = 0;  // after OomGpu or GpuMemory
  bool operator==(const Growth&) const = default;
};

/// GPUs that others compute on without pergpu.
enum class Outsiders : std::uint8_t {
  Avoid,
  Fit,  // beside them, where so much memory is free as the job may use
  Ignore,
};
std::string_view to_string(Outsiders outsiders);  // "avoid", "fit", "ignore"
std::optional<Outsiders> outsiders_of(std::string_view name);

/// How jobs share a GPU.
enum class Sharing : std::uint8_t {
  Time,  // they take turns
  Mps,   // their kernels run at the same time (gpu/pool/mps_control.h)
  Mig,   // each on an instance, of a GPU that is cut into some
};
std::string_view to_string(Sharing sharing);  // "time", "mps", "mig"
std::optional<Sharing> sharing_of(std::string_view name);

enum class GpuEnv : std::uint8_t { Uuid, Index };

/// For the fake engine only: how long an attempt takes and how it ends.
struct FakeRun {
  Template duration = {};  // "2s", "{seconds}s"; empty: `expect`, else 1s
  Template exit = {};      // exit code; empty: 0
  bool operator==(const FakeRun&) const = default;
};

/// How a step's jobs are asked for on a Slurm cluster: [slurm] of the file, then of the step.
struct SlurmOptions {
  std::string partition = {}, account = {}, qos = {}, constraint = {};  // empty: not given
  std::optional<std::chrono::milliseconds> time =
      std::nullopt;  // limit of an allocation; null: from `timeout`, else the partition's
  int jobs_per_allocation = 1;  // one after another on the lanes of one allocation
  int lanes = 1;                // jobs at once in one allocation, each with the step's resources
  std::vector<std::string> extra = {};  // further arguments of sbatch, as they are
  bool operator==(const SlurmOptions&) const = default;
};

struct StepSpec {
  std::string name = {};
  bool once = false;                   // one job for the whole sweep
  std::vector<Template> command = {};  // argv; empty when `shell` is used
  std::string shell = {};              // text for /bin/sh -c; values reach it by environment only
  std::vector<Need> needs = {};

  int gpus = 0;           // for one job
  int gpu_share = 0;      // thousandths of its only GPU, beside other jobs; 0: all of each
  bool gpu_auto = false;  // as many side by side on its only GPU as that gains (gpu_need.h)
  std::string gpu = {};   // glob on the model's name; empty: any
  Sharing sharing = Sharing::Time;
  Outsiders outsiders = Outsiders::Avoid;
  std::optional<int> cpus = std::nullopt;                    // declared: a reservation
  std::optional<std::uint64_t> memory_bytes = std::nullopt;  // declared: a reservation and a limit
  std::optional<std::uint64_t> gpu_memory_bytes = std::nullopt;  // limit on each of its GPUs; a
                                                                 // share has one without it, too
  bool overcommit = false;

  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::optional<std::chrono::milliseconds> idle_timeout = std::nullopt;  // without output
  /// Without output, with hardly any CPU time and without work on its GPUs.
  std::optional<std::chrono::milliseconds> stall = std::nullopt;
  std::optional<EarlySignal> signal = std::nullopt;
  std::chrono::milliseconds grace{30'000};  // SIGTERM -> SIGKILL
  RetryPolicy retries = {};
  Growth grow = {};
  std::vector<FailureRule> failures = {};  // what lines of the log say of a failed attempt
  bool rerun = true;                       // may be run again after a fault of the machine
  int breaker = 3;  // equal user errors before any success that hold the rest; 0: never

  std::optional<int> max_parallel = std::nullopt;  // per sweep and step
  std::vector<std::string> uses = {};              // names in [limits], one unit each
  std::optional<int> max_starting = std::nullopt;
  std::chrono::milliseconds ready{120'000};  // start-up is over at the latest after this

  int priority = 0;
  int weight = 0;        // beside sweeps of its priority that have one, too; 0: none, by age
  Template expect = {};  // expected duration, e.g. "40m" or "{minutes}m"; empty: unknown

  std::vector<std::pair<std::string, Template>> env = {};
  std::optional<std::vector<std::string>> env_pass = std::nullopt;  // nullopt: all inherited
  Template cwd = {};                                                // empty: the sweep's folder
  GpuEnv gpu_env = GpuEnv::Uuid;
  std::vector<std::string> snapshot = {};  // patterns of the code that is copied at submit
  std::string copy = {};  // absolute: that copy, in the place of the sweep's folder; empty: none
  std::vector<Template> outputs = {};
  Template metrics = "{metrics}";
  FakeRun fake = {};
  SlurmOptions slurm = {};

  bool operator==(const StepSpec&) const = default;
};

}  // namespace pergpu
