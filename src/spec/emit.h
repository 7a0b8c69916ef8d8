// A sweep as the TOML file that says the same (`pergpu run --emit`): parsing the text gives an
// equal SweepSpec, file and folder apart.
#pragma once

#include <string>

#include "spec/sweep.h"

namespace pergpu {

std::string emit_toml(const SweepSpec& sweep);

}  // namespace pergpu
