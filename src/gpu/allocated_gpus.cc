// A name that is a number is the GPU's index, too, so that --devices finds it.
//
// sysfs shows all AMD GPUs of the machine, and Slurm may have closed some of them to the allocation
// and count the others from 0: only its own names say which they are.
#include "gpu/allocated_gpus.h"

#include <charconv>
#include <utility>

#include "gpu/amd_look.h"

namespace pergpu::gpu {

AllocatedGpus::AllocatedGpus(GpuInventory& driver, std::vector<std::string> names)
    : driver_(driver), names_(std::move(names)) {}

void AllocatedGpus::look(std::function<void(const GpuLook&)> done) {
  driver_.look([names = names_, done = std::move(done)](const GpuLook& look) {
    const bool is_told = !look.no_driver && !is_amd(look);
    if (is_told || names.empty()) return done(look);
    GpuLook allocated{.complete = true};
    for (std::size_t i = 0; i < names.size(); ++i) {
      int index = static_cast<int>(i);
      const std::string& name = names[i];
      (void)std::from_chars(name.data(), name.data() + name.size(), index);
      allocated.gpus.push_back({.uuid = name, .name = "GPU", .index = index});
    }
    done(allocated);
  });
}

std::vector<std::string> device_names(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    if (name.empty() || name.front() == '-') break;  // as in CUDA, it ends the list
    out.emplace_back(name);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return out;
}

}  // namespace pergpu::gpu
