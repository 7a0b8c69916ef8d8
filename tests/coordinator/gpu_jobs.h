// A coordinator on a machine with two GPUs, and sweeps whose jobs want them.
#pragma once

#include <algorithm>
#include <memory>

#include "lock_folder.h"
#include "simulation.h"

namespace pergpu::testing {

struct GpuJobsTest : ::testing::Test {
  GpuJobsTest() { shown.look.gpus = {gpu_reading(0), gpu_reading(1)}; }

  std::unique_ptr<Simulation> start() {
    auto sim = std::make_unique<Simulation>(
        store, clock, "boot-1", Machine{.cores = {0, 1, 2, 3}, .memory_bytes = 64ull << 30},
        &shown);
    return sim;
  }
  static void discover(Simulation& sim) {
    sim.run([&] { return sim.gpus->discovered(); });
  }
  void show_foreign_processes(bool there) {
    for (GpuReading& gpu : shown.look.gpus) {
      gpu.processes.clear();
      if (there) gpu.processes.push_back(foreign_process());
    }
  }
  static SweepSpec training(int runs) {
    SweepSpec sweep = sweep_of("training", runs);
    sweep.steps.push_back(step_of("train", "10s"));
    sweep.steps[0].gpus = 1;
    return sweep;
  }
  static int on_cpu_lanes(const Simulation& sim) {
    return static_cast<int>(
        std::count_if(sim.world.jobs().begin(), sim.world.jobs().end(), [](const Job& job) {
          return job.last && job.last->placement.lane.pool != LaneId::Pool::Gpu;
        }));
  }

  MemoryStore store;
  SimClock clock;
  ShownGpus shown;
  LockFolder locks;
};

}  // namespace pergpu::testing
