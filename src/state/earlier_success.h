// Whether a step's command has ever succeeded in its sweep: then a failure is no sign that all
// would fail.
//
// Mostly that shows in its jobs. A new submit may take it from them: what was done is run again, or
// belongs to a row that is gone. What is to be remembered then is a row of the store,
// "succeeded.<sweep>.<step>", written with the submit; it holds for as long as the command is the
// same.
#pragma once

#include <optional>

#include "job/schedule/queue.h"
#include "state/world.h"

namespace pergpu {

bool has_succeeded(const World& world, StepKey step);
/// What a submit that makes `now` of a known step has to write down; nullopt: nothing.
std::optional<row::Meta> remembered_success(const World& world, StepKey step, const StepSpec& now);

}  // namespace pergpu
