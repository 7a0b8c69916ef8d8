// Tells one start of the machine from the next.
#pragma once

#include <string>

namespace pergpu::os {

/// /proc/sys/kernel/random/boot_id without the newline; "" when unreadable.
std::string boot_id();

}  // namespace pergpu::os
