// A sweep as the TOML file that says the same (`pergpu run --emit`): parsing the text gives an
// equal SweepSpec, file and folder apart.  The text is parsed before it is returned, so this is
// checked and not only meant.
#pragma once

#include <string>

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

/// Runs that are the product of their values become [grid] and [constants], others [[runs]].
/// Invalid when TOML cannot say it: null, or a number written in a way that TOML has not (`.5`).
Result<std::string> emit_toml(const SweepSpec& sweep);

}  // namespace pergpu
