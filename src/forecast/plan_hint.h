// What to do about a sweep that asks for GPUs on a machine without any, when it was only to be
// looked at.
#pragma once

#include "result.h"
#include "state/submit.h"

namespace pergpu {

/// The refusal, which names `plan --on` where that shows what was asked for.
Error with_plan_hint(Error refusal, const SweepSpec& file, const SubmitContext& context,
                     bool has_gpus);

}  // namespace pergpu
