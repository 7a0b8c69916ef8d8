// Sweep files in TOML.
#include "sweep_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pergpu;
  fuzz::check_sweep(fuzz::text_of(data, size), SweepFormat::Toml);
  return 0;
}
