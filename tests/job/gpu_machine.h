// A machine with GPUs on which a test starts and ends jobs by the scheduler.
#pragma once

#include <optional>
#include <string>

#include "job/schedule/schedule.h"

namespace pergpu {

inline Demand on_gpus(const std::string& name, int gpus) {
  return {.step_name = name, .pool = LaneId::Pool::Gpu, .gpus = gpus};
}

struct Machine {
  ReadyQueue queue;
  Capacity capacity;
  std::int64_t next_id = 1;

  explicit Machine(int gpus) {
    for (int i = 0; i < gpus; ++i) {
      capacity.gpus.push_back({.id = {.pool = LaneId::Pool::Gpu, .slot = i},
                               .uuid = "GPU-" + std::to_string(i),
                               .name = "NVIDIA H100"});
    }
    capacity.now_ns = 1000;
  }
  JobId add(StepKey step, std::int64_t expected_ns = 0) {
    const JobId id{next_id++};
    queue.insert({.id = id,
                  .step = step,
                  .run = static_cast<std::int32_t>(id.value),
                  .expected_ns = expected_ns});
    return id;
  }
  std::optional<Choice> start() {
    std::optional<Choice> choice = choose(queue, capacity);
    if (!choice) return choice;
    queue.take(choice->job, choice->overtaken);
    capacity.occupy(choice->job.step, *queue.demand(choice->job.step), choice->lane, choice->gpus,
                    "runs job", expected_end_ns(capacity.now_ns, choice->job.expected_ns));
    return choice;
  }
  void end(const Choice& choice) {
    capacity.vacate(choice.job.step, *queue.demand(choice.job.step), choice.lane, choice.gpus,
                    true);
  }
};

}  // namespace pergpu
