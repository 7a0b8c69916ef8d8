// Names of signals.
#pragma once

#include <string_view>

namespace pergpu {

/// One more than the highest that has a name; real-time signals have none.
constexpr int kMostSignals = 32;

/// "TERM"; "": there is none of this number, or it has no name.
std::string_view short_signal_name(int number);

}  // namespace pergpu
