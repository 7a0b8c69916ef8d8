// `pergpu set`: what is declared of steps and of a sweep changes, and with it the order and the
// number of starts; no job's state does.
//
// It is the sweep's row that says so, written again: a restart reads the changed one, and the next
// submit of the file replaces it.  A request that names some jobs of a step only would change what
// the others ask for, too: that is refused.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "coordinator/coordinator.h"
#include "state/selector.h"

namespace pergpu {
namespace {

bool is_open(const Job& job) { return !is_ended(job.state); }

/// A job of the step that has not ended, whose row is in the file, and that is not among `named`;
/// JobId{}: there is none.
JobId left_out(const World& world, const Step& step, const std::set<JobId>& named) {
  for (const JobId id : step.current) {
    if (!id || named.contains(id)) continue;
    if (is_open(*world.job(id)) && world.is_listed(id)) return id;
  }
  return {};
}

std::string or_none(std::int64_t value) { return value == 0 ? "none" : std::to_string(value); }

/// Each change, without what it is of.
std::vector<Coordinator::Setting> change(StepSpec& step, const Settings& settings) {
  std::vector<Coordinator::Setting> changes;
  if (settings.priority) {
    changes.push_back(
        {"", "priority", std::to_string(step.priority), std::to_string(*settings.priority)});
    step.priority = *settings.priority;
  }
  if (settings.weight) {
    changes.push_back({"", "weight", or_none(step.weight), or_none(*settings.weight)});
    step.weight = *settings.weight;
  }
  if (settings.max_parallel) {
    changes.push_back({"", "max_parallel", or_none(step.max_parallel.value_or(0)),
                       or_none(*settings.max_parallel)});
    step.max_parallel = *settings.max_parallel > 0 ? settings.max_parallel : std::optional<int>();
  }
  return changes;
}

}  // namespace

Result<void> Coordinator::check_settings(const Sweep& sweep, const std::set<JobId>& named,
                                         const Settings& settings) const {
  const World& world = *parts_.world;
  const auto invalid = [](std::string message) {
    return Error{ErrorKind::Invalid, 0, std::move(message)};
  };
  std::set<std::int16_t> slots;
  for (const JobId id : named) {
    const Job& job = *world.job(id);
    if (job.sweep == sweep.id) slots.insert(job.step);
  }
  if (settings.weight && sweep.context.engine == kSlurm) {
    return invalid(fmt::format(
        "sweep {} runs on Slurm, which has its own fair-share rules: you can't set a weight",
        sweep.name));
  }
  if (settings.priority || settings.weight || settings.max_parallel) {
    for (const std::int16_t slot : slots) {
      const Step& step = sweep.steps[static_cast<std::size_t>(slot)];
      if (const JobId other = left_out(world, step, named)) {
        return invalid(fmt::format(
            "{} applies to all jobs of step {}, but you didn't name job {} ({}): name {}/*/{}",
            settings.priority ? "priority"
            : settings.weight ? "weight"
                              : "max_parallel",
            step.spec.name, other.value, selector_of(world, *world.job(other)),
            selector_of(world, sweep), step.spec.name));
      }
    }
  }
  if (!settings.lanes) return {};
  if (!sweep.context.devices.empty()) {
    return invalid(
        fmt::format("sweep {} was submitted for GPUs (--devices, or CUDA_VISIBLE_DEVICES of its "
                    "shell), so you can't set its lanes",
                    sweep.name));
  }
  for (const Step& step : sweep.steps) {
    if (const JobId other = left_out(world, step, named)) {
      return invalid(fmt::format(
          "lanes apply to the whole sweep, but you didn't name job {} ({}): name {}", other.value,
          selector_of(world, *world.job(other)), selector_of(world, sweep)));
    }
  }
  return {};
}

Result<Coordinator::Changed> Coordinator::set(const std::vector<JobId>& jobs,
                                              const Settings& settings) {
  World& world = *parts_.world;
  Changed out;
  std::set<JobId> named;
  std::map<SweepId, std::set<std::int16_t>> steps;  // named ones
  for (const JobId id : jobs) {
    const Job& job = *world.job(id);
    if (is_open(job) && world.is_current(job) && world.is_listed(id)) {
      named.insert(id);
      steps[job.sweep].insert(job.step);
      out.changed.push_back(id.value);
    } else {
      out.unchanged.push_back(id.value);
    }
  }
  for (const auto& [id, slots] : steps) {
    if (Result<void> may = check_settings(*world.sweep(id), named, settings); !may) {
      return std::move(may).error();
    }
  }
  for (const auto& [id, slots] : steps) {
    const Sweep& sweep = *world.sweep(id);
    const std::string name = selector_of(world, sweep);
    SweepSpec file = World::declared(sweep);
    for (StepSpec& step : file.steps) {
      if (!slots.contains(static_cast<std::int16_t>(*sweep.slot_of(step.name)))) continue;
      const std::string of = fmt::format("{}/{}", step.once ? name : name + "/*", step.name);
      for (Setting& one : change(step, settings)) {
        one.of = of;
        out.settings.push_back(std::move(one));
      }
    }
    SubmitContext context = sweep.context;
    if (settings.lanes) {
      out.settings.push_back({name, "lanes", or_none(context.lanes), or_none(*settings.lanes)});
      context.lanes = *settings.lanes;
    }
    parts_.journal->record(World::row_of(sweep, file, std::move(context)));
    ++changes_;
    declare(sweep);
    for (const Step& step : sweep.steps) {
      for (const JobId job : step.current) {
        if (job && is_open(*world.job(job))) touch(job);
      }
    }
  }
  return out;
}

}  // namespace pergpu
