// The keys of a step (step_keys.cc), to be printed; read_step_key() of draft.h reads by them.
#pragma once

#include <vector>

#include "spec/schema/known_key.h"

namespace pergpu {

/// Those of this version, in the order of the reference; for [defaults] without what belongs to one
/// step.
std::vector<KnownKey> step_keys(bool in_defaults);

}  // namespace pergpu
