// Texts are compared case-insensitively: tools print UUIDs in both.
#include "gpu/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ascii.h"
#include "job/gpu_slot.h"
#include "number.h"

namespace pergpu::gpu {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

/// Of "3" or "0:2".
std::optional<GpuPlace> place_in(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::optional<int> gpu = whole_number<int>(text.substr(0, colon));
  if (!gpu) return std::nullopt;
  if (colon == std::string_view::npos) return GpuPlace{.gpu = *gpu};
  const std::optional<int> instance = whole_number<int>(text.substr(colon + 1));
  if (!instance || *instance < 0) return std::nullopt;
  return GpuPlace{.gpu = *gpu, .instance = *instance};
}

std::string all_gpus(const std::vector<GpuLane>& lanes) {
  if (lanes.empty()) return "this machine has no GPU that pergpu can see";
  std::string text = "this machine has";
  for (const GpuLane& lane : lanes) {
    text += fmt::format("{} {} = {}", lane.id.slot == lanes.front().id.slot ? "" : ",",
                        to_string(place_of(lane.id.slot)), lane.uuid);
  }
  return text;
}

/// Several only where a GPU is named that is cut.
Result<std::vector<const GpuLane*>> find_gpus(const std::vector<GpuLane>& lanes,
                                              std::string_view entry, std::string_view source) {
  if (const std::optional<GpuPlace> asked = place_in(entry)) {
    std::vector<const GpuLane*> found;
    for (const GpuLane& lane : lanes) {
      const GpuPlace place = place_of(lane.id.slot);
      if (place.gpu == asked->gpu && (asked->instance < 0 || place == *asked)) {
        found.push_back(&lane);
      }
    }
    if (!found.empty()) return found;
    return Error{ErrorKind::Invalid, 0,
                 fmt::format("{}: there is no GPU {}; {}", source, entry, all_gpus(lanes))};
  }
  const std::string prefix = lower(entry);
  const GpuLane* found = nullptr;
  for (const GpuLane& lane : lanes) {
    if (lower(lane.uuid).compare(0, prefix.size(), prefix) != 0) continue;
    if (found != nullptr) {
      return Error{ErrorKind::Invalid, 0,
                   fmt::format("{}: \"{}\" matches several GPUs: {} and {}; write more of the UUID",
                               source, entry, found->uuid, lane.uuid)};
    }
    found = &lane;
  }
  if (found != nullptr) return std::vector<const GpuLane*>{found};
  return Error{
      ErrorKind::Invalid, 0,
      fmt::format("{}: \"{}\" is neither a GPU number nor the beginning of a GPU's UUID; {}",
                  source, entry, all_gpus(lanes))};
}

}  // namespace

std::vector<GpuLane> gpu_lanes(const GpuLook& look) {
  std::vector<GpuLane> lanes;
  for (const GpuReading& reading : look.gpus) {
    if (reading.uuid.empty()) continue;
    const GpuPlace place{.gpu = reading.index, .instance = reading.instance};
    lanes.push_back({.id = {.pool = LaneId::Pool::Gpu, .sweep = {}, .slot = slot_of(place)},
                     .uuid = reading.uuid,
                     .name = reading.name,
                     .pci = reading.pci,
                     .total_bytes = reading.total_bytes,
                     .numa_node = reading.numa_node,
                     .near_cpus = reading.near_cpus});
  }
  std::ranges::sort(lanes, {}, [](const GpuLane& lane) { return place_of(lane.id.slot); });
  return lanes;
}

Result<std::vector<std::string>> select_gpus(const GpuLook& look, std::string_view list,
                                             std::string_view source) {
  const std::vector<GpuLane> lanes = gpu_lanes(look);
  std::vector<std::string> uuids;
  if (trimmed(list).empty()) return uuids;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    const std::string_view entry = trimmed(list.substr(begin, comma - begin));
    begin = comma + 1;
    if (entry == "-1" || entry == "NoDevFiles") break;
    if (entry.empty()) {
      return Error{
          ErrorKind::Invalid, 0,
          fmt::format("{}: \"{}\" has an empty entry; write 0,2 or UUIDs separated by commas",
                      source, list)};
    }
    const Result<std::vector<const GpuLane*>> found = find_gpus(lanes, entry, source);
    if (!found) return found.error();
    for (const GpuLane* lane : *found) {
      if (std::ranges::find(uuids, lane->uuid) != uuids.end()) {
        return Error{ErrorKind::Invalid, 0,
                     fmt::format("{}: \"{}\" names GPU {} ({}) twice", source, list,
                                 to_string(place_of(lane->id.slot)), lane->uuid)};
      }
      uuids.push_back(lane->uuid);
    }
  }
  return uuids;
}

int default_cpu_budget(int cores, int lanes) { return std::max(1, cores / std::max(1, lanes)); }

}  // namespace pergpu::gpu
