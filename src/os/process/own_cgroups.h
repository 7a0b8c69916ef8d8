// The control groups this process is in: whose limits hold for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu::os {

/// Their folders, from the innermost to the root: of the v2 hierarchy ("" as `controller`), or of
/// the v1 hierarchy that has this controller ("memory").  Empty: there is no such hierarchy.
std::vector<std::string> own_cgroups(std::string_view controller);

}  // namespace pergpu::os
