// Why a GPU's clocks are lower than they could be, as the driver's bits say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pergpu::gpu {

/// "power-cap", "hw-thermal" …, in the order of the bits; a bit that this version does not know as
/// "bit-12".  That a GPU has nothing to do and that a user has set its clocks is left out:
/// neither is in a job's way.
std::vector<std::string> throttle_words(std::uint32_t bits);

}  // namespace pergpu::gpu
