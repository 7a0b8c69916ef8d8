// The bits are nvmlClocksEventReason…: the same ones since they were called throttle reasons.
#include "gpu/throttle.h"

#include <utility>

namespace pergpu::gpu {

std::vector<std::string> throttle_words(std::uint32_t bits) {
  constexpr std::uint32_t kIdle = 0x1;
  constexpr std::uint32_t kClocksSet = 0x2;
  constexpr std::uint32_t kDisplayClocks = 0x100;
  static constexpr std::pair<std::uint32_t, const char*> kWords[] = {
      {0x4, "power-cap"},   {0x8, "hw-slowdown"}, {0x10, "sync-boost"},
      {0x20, "sw-thermal"}, {0x40, "hw-thermal"}, {0x80, "hw-power-brake"}};
  std::uint32_t left = bits & ~(kIdle | kClocksSet | kDisplayClocks);
  std::vector<std::string> words;
  for (const auto& [bit, word] : kWords) {
    if ((left & bit) == 0) continue;
    words.emplace_back(word);
    left &= ~bit;
  }
  for (int bit = 0; bit < 32; ++bit) {
    if ((left >> bit & 1) != 0) words.push_back("bit-" + std::to_string(bit));
  }
  return words;
}

}  // namespace pergpu::gpu
