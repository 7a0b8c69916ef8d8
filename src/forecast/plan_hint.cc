// A plan for imagined GPUs is not checked against the machine (plan.cc), so it is never refused for
// what the machine lacks.
#include "forecast/plan_hint.h"

#include <algorithm>

namespace pergpu {

Error with_plan_hint(Error refusal, const SweepSpec& file, const SubmitContext& context,
                     bool has_gpus) {
  const bool lacks_gpus =
      !has_gpus && context.lanes == 0 && context.engine != kSlurm &&
      std::ranges::any_of(file.steps, [](const StepSpec& step) { return step.gpus > 0; });
  if (lacks_gpus && !file.file.empty())
    refusal.message += "; `pergpu plan FILE --on 1` shows the schedule with one GPU";
  return refusal;
}

}  // namespace pergpu
