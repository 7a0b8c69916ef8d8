// Sweeps that only the fake engine ran (--engine fake): their jobs are done, and nothing happened.
// A simulation and real results are never in one sweep: a real submit makes a new sweep in the
// place of a simulated one, and a sweep with real jobs can't be simulated.  Pure.
#pragma once

#include "api/snapshot.h"
#include "result.h"
#include "spec/sweep/sweep.h"
#include "state/world.h"

namespace pergpu {

/// SubmitContext::engine of sweeps whose jobs are only simulated.
inline constexpr char kFake[] = "fake";

/// What is shown of such a sweep and of its jobs.
inline constexpr char kSimulated[] = "simulated (--engine fake)";

/// No job of it is real.  REQUIRES: it is in memory.
bool is_simulated(const World& world, const Sweep& sweep);

/// The known sweep that a submit of `file` is about; null: none.  `moved`: the one it was before
/// its folder moved.
const Sweep* known_sweep(const World& world, const SweepSpec& file, const SubmitContext& context,
                         SweepId moved = {});

/// A submit with `context` makes a new sweep in the place of this one, which is forgotten.
bool is_superseded(const World& world, const Sweep& known, const SubmitContext& context);

/// Invalid: `known` is real and would be simulated, or is superseded while it has jobs.
Result<void> check_simulation(const World& world, const Sweep& known, const SubmitContext& context);

}  // namespace pergpu
