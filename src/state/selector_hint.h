// What a selector that names nothing could have meant.
#pragma once

#include <string>

#include "state/world.h"

namespace pergpu {

/// "no sweep is called `basline`; did you mean `baseline`?"; always has the selector or its part.
std::string nothing_named(const World& world, const std::string& selector);

}  // namespace pergpu
