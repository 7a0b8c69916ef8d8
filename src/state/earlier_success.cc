// The row is there only where the jobs do not show it, so most sweeps have none.
#include "state/earlier_success.h"

#include <fmt/format.h>

namespace pergpu {
namespace {

std::string key_of(StepKey step) {
  return fmt::format("succeeded.{}.{}", step.sweep.value, step.step);
}

bool is_remembered(const World& world, StepKey step) {
  const auto fact = world.meta().find(key_of(step));
  return fact != world.meta().end() && !fact->second.empty();
}

const Step& step_of(const World& world, StepKey key) {
  return world.sweep(key.sweep)->steps[static_cast<std::size_t>(key.step)];
}

}  // namespace

bool has_succeeded(const World& world, StepKey step) {
  return step_of(world, step).done > 0 || is_remembered(world, step);
}

std::optional<row::Meta> remembered_success(const World& world, StepKey step, const StepSpec& now) {
  const StepSpec& before = step_of(world, step).spec;
  const bool is_same = before.command == now.command && before.shell == now.shell;
  const bool counts = is_same && has_succeeded(world, step);
  if (counts == is_remembered(world, step)) return std::nullopt;
  return row::Meta{.key = key_of(step), .value = counts ? "1" : ""};
}

}  // namespace pergpu
