// The engine is stored with the sweep, as its last submit gave it.  Earlier builds let a simulation
// take over a sweep with results: a real attempt, which has a keeper or a node, keeps such a sweep
// from being superseded.
#include "state/simulated_sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "state/selector.h"
#include "state/submit.h"

namespace pergpu {
namespace {

bool is_real(const Job* job) {
  if (job == nullptr || !job->last) return false;
  return job->last->keeper || !job->last->placement.node.empty();
}

}  // namespace

bool is_simulated(const World& world, const Sweep& sweep) {
  if (sweep.context.engine != kFake) return false;
  return std::ranges::none_of(sweep.steps, [&](const Step& step) {
    return std::ranges::any_of(step.current, [&](JobId id) { return is_real(world.job(id)); });
  });
}

const Sweep* known_sweep(const World& world, const SweepSpec& file, const SubmitContext& context,
                         SweepId moved) {
  if (context.unique_name) return nullptr;
  return world.sweep(moved ? moved : world.sweep_at(output_root(file), file.name));
}

bool is_superseded(const World& world, const Sweep& known, const SubmitContext& context) {
  return context.engine != kFake && is_simulated(world, known);
}

Result<void> check_simulation(const World& world, const Sweep& known,
                              const SubmitContext& context) {
  if (context.engine == kFake && known.context.engine != kFake) {
    return invalid(
        fmt::format("sweep {} has real jobs, so it can't be simulated; for --engine fake, use "
                    "another name (--name, or `name` in the file) or another folder (--out DIR)",
                    known.name));
  }
  if (known.open > 0 && is_superseded(world, known, context)) {
    return invalid(
        fmt::format("sweep {} is being simulated (--engine fake) and still has jobs; wait until "
                    "they end, or cancel them first (pergpu cancel {})",
                    known.name, selector_of(world, known)));
  }
  return {};
}

}  // namespace pergpu
