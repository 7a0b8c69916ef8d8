// The jobs that could start now if there were room, in the order in which they go: priority (high
// first), age of the sweep, longest expected first where durations are known, then file order (run,
// step).  That sweeps may share is no matter of the queue (job/schedule/starting_order.h).
//
// The jobs of a step with max_parallel go one behind the other: its next one counts as long as all
// those take that are still to start, or they would be left for the end, on one lane.
//
// Jobs of one step of one sweep ask for the same things, but for those that `grow` gave more, and
// with `gpus = "auto"` for their shape: they form a class (ClassKey), and if one cannot start, none
// can.  Each class keeps its jobs ordered and only its first one (the head) competes with the heads
// of other classes; choosing is O(classes with ready jobs), insert and erase are O(log n), and a
// ready job costs one 64-byte tree node.
//
// In the queue is what is Queued, whose needs are done and whose not_before has passed; the caller
// keeps the timers.  A job leaves by take() when it starts or by erase().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ids.h"
#include "job/event.h"
#include "job/gpu_parts.h"
#include "job/growth.h"
#include "job/step.h"

namespace pergpu {

struct StepKey {
  SweepId sweep = {};
  std::int16_t step = 0;
  auto operator<=>(const StepKey&) const = default;
};

/// Whom a job is like in what it needs of a GPU (job/schedule/gpu_shapes.h); 0: nothing is told
/// apart.
using GpuShape = std::uint32_t;

/// A step's jobs of one shape that were given more equally often.
struct ClassKey {
  StepKey step = {};
  Growths growths = {};
  GpuShape shape = 0;
  ClassKey(StepKey its_step, Growths its_growths = {}, GpuShape its_shape = 0)
      : step(its_step), growths(its_growths), shape(its_shape) {}
  auto operator<=>(const ClassKey&) const = default;
};

/// What each job of a class asks for.
struct Demand {
  std::string step_name = {};             // for why_not()
  LaneId::Pool pool = LaneId::Pool::Cpu;  // where its lanes come from
  int gpus = 0;                           // only for Pool::Gpu
  int share = 0;                 // thousandths of its only GPU, beside other jobs; 0: all of each
  bool is_auto = false;          // `share` and `promise_bytes` are learned
  std::string gpu_pattern = {};  // fnmatch on the model's name; empty: any
  std::vector<std::string> devices = {};  // UUIDs its sweep may use; empty: all
  Sharing sharing = Sharing::Time;
  Outsiders outsiders = Outsiders::Avoid;
  std::optional<int> cpus = std::nullopt;                        // reservation
  std::optional<std::uint64_t> memory_bytes = std::nullopt;      // reservation
  std::optional<std::uint64_t> gpu_memory_bytes = std::nullopt;  // a GPU must have it; Pool::Gpu
  std::uint64_t promise_bytes = 0;  // of its only GPU, where none are declared; 0: as its share
  Growth growth = {};
  std::uint64_t most_memory = 0;      // `grow` ends there: what the machine has; 0: not known
  std::uint64_t most_gpu_memory = 0;  // of its largest GPU
  bool overcommit = false;            // `cpus` and `memory_bytes` are no reservations
  std::optional<int> max_parallel = std::nullopt;
  std::optional<int> max_starting = std::nullopt;
  std::vector<std::string> uses = {};  // names of limits, one unit each
  int priority = 0;
  int weight = 0;  // of its sweep beside others of its priority that have one; 0: none

  int reserved_cpus() const { return overcommit ? 0 : cpus.value_or(0); }
  std::uint64_t reserved_memory() const { return overcommit ? 0 : memory_bytes.value_or(0); }
};

/// `pool` is the caller's decision: a sweep with --lanes runs its CPU steps (and, on a machine
/// without GPUs, its GPU steps) on Pool::Sweep.
Demand demand_of(const StepSpec& step, LaneId::Pool pool);
/// What it is for jobs that were given more.
Demand grown(Demand demand, Growths growths);

/// One entry.  `expected_ns` (0: unknown) is part of its place: erase with what was inserted.
struct ReadyJob {
  JobId id = {};
  StepKey step = {};
  std::int32_t run = -1;
  std::int64_t expected_ns = 0;
  Growths growths = {};
  GpuShape shape = 0;
  ClassKey key() const { return {step, growths, shape}; }
  bool operator==(const ReadyJob&) const = default;
};

/// What keeps a whole step from starting.
enum class PauseCause : std::uint8_t { Breaker = 1, Storage = 2 };

class ReadyQueue {
 public:
  /// Makes a step known, or changes what it asks for (`set SEL priority=…`).  Jobs of a shape that
  /// is not among `shapes` ask for `demand`.
  void declare(StepKey key, const Demand& demand, const std::map<GpuShape, Demand>& shapes = {});
  /// Nothing of a step that pauses, for whatever cause, is chosen.
  void pause(StepKey key, bool pauses, PauseCause cause = PauseCause::Breaker);
  /// How many jobs of the step are still to start, ready or not.  take() counts down.
  void set_left(StepKey key, std::int64_t jobs);

  /// REQUIRES: its step is declared.  A second insert of the same entry changes nothing.
  void insert(const ReadyJob& job);
  /// False when it is not there.  By value: the caller's may lie in heads(), which changes.
  bool erase(ReadyJob job);
  /// Erases a job that is being started; `overtaken` are the classes that choose() passed over
  /// although they come first (Choice::overtaken).
  void take(ReadyJob job, const std::vector<ClassKey>& overtaken);
  /// It did not start after all: no class was overtaken by it, and its class, if anything of it is
  /// ready again, was as often as before.
  void untake(ReadyJob job, int overtaken_before, const std::vector<ClassKey>& overtaken);
  /// Of another shape it stands in another class, and has waited as long.  Does nothing when it is
  /// not there.
  void move(ReadyJob job, GpuShape shape);

  std::size_t size() const { return size_; }
  std::size_t size(StepKey key) const;
  std::vector<ReadyJob> ready(StepKey key) const;  // in no order
  /// Null: it was not declared, and nothing of it is ready.
  const Demand* demand(ClassKey key) const;

  /// The first job of a class and its place among the heads of all classes.
  struct Head {
    int priority = 0;
    std::int64_t expected_ns = 0;  // with what goes behind it because of max_parallel
    ReadyJob job = {};
    int weight = 0;  // no part of its place
    bool operator<(const Head& other) const;
  };
  /// In starting order.
  const std::set<Head>& heads() const { return heads_; }
  /// How many of them have a weight.
  int sharing() const { return sharing_; }
  /// The longest job of the class that is expected to take no longer; nullopt: none is known to, or
  /// the class pauses.
  std::optional<ReadyJob> first_within(ClassKey key, std::int64_t ns) const;
  /// How many jobs took of what this class's first one waits for, out of turn, while it waited for
  /// cpus, memory, more GPUs than one, or room on one that others share.
  int overtaken(ClassKey key) const;

 private:
  struct Entry {
    std::int64_t expected_ns = 0;
    std::int32_t run = -1;
    JobId id = {};
    bool operator<(const Entry& other) const;
  };
  struct Class {
    Demand demand = {};
    std::int64_t left = 0;  // of its step
    int overtaken = 0;
    std::uint8_t pauses = 0;  // PauseCause, one bit each
    std::set<Entry> ready = {};
    std::optional<Head> head = std::nullopt;  // as it stands in heads_
  };
  static std::int64_t expected_of(const Class& c);
  static ReadyJob job_of(const ClassKey& key, const Entry& entry);
  void update_head(ClassKey key, Class& c);
  void drop_head(Class& c);
  Class* class_of(const ReadyJob& job);

  // Of each declared step at least the one of shape 0 without growths.
  std::map<ClassKey, Class> classes_;
  std::set<Head> heads_;
  std::size_t size_ = 0;
  int sharing_ = 0;
};

}  // namespace pergpu
