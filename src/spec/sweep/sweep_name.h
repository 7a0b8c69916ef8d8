// Which texts can name a sweep: it becomes a folder, and a selector on the command line.
#pragma once

#include <string>
#include <string_view>

namespace pergpu {

/// "" when `name` is good, else the reason as text.
std::string why_no_sweep_name(std::string_view name);

/// A good name made of `text`: "python3 train.py" -> "python3_train.py".
std::string to_sweep_name(std::string_view text);

}  // namespace pergpu
