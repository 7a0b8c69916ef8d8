// Slots below kPlaces are whole GPUs; those of GPU g begin at (g + 1) * kPlaces.
#include "job/gpu_slot.h"

namespace pergpu {
namespace {

// More than there are GPUs in a cluster whose trace is replayed, and instances on a GPU (8).
constexpr std::int32_t kPlaces = 10'000;

}  // namespace

std::string to_string(GpuPlace place) {
  std::string text = std::to_string(place.gpu);
  if (place.instance >= 0) text += ":" + std::to_string(place.instance);
  return text;
}

std::int32_t slot_of(GpuPlace place) {
  return place.instance < 0 ? place.gpu : kPlaces * (place.gpu + 1) + place.instance;
}

GpuPlace place_of(std::int32_t slot) {
  if (slot < kPlaces) return {.gpu = slot};
  return {.gpu = slot / kPlaces - 1, .instance = slot % kPlaces};
}

bool is_instance(std::int32_t slot) { return place_of(slot).instance >= 0; }

}  // namespace pergpu
