// Paths and environments are bytes; what is sent as JSON has to be text.
#pragma once

#include <string_view>

namespace pergpu::os {

bool is_utf8(std::string_view text);

}  // namespace pergpu::os
