// Everything is worked out anew when something is added: it is little, and seldom.
#include "job/gpu_shapes.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace pergpu {
namespace {

constexpr double kMatters = 0.5;  // so much of the memory's variance its values tell
constexpr double kWorthIt = 1.1;  // the most, by the least: closer ones are one shape

}  // namespace

GpuShapes::GpuShapes(const GpuNeed& all, std::vector<Seen> seen)
    : all_(all), seen_(std::move(seen)) {
  if (seen_.size() > kMostSeen) seen_.resize(kMostSeen);
  sort_out();
}

GpuShapes::News GpuShapes::add(const Seen& one) {
  const auto needs_before = std::pair(all_, seen_);
  const auto shapes_before = std::pair(matter_, std::move(needs_));
  all_.add(one.need);
  const auto same = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& other) {
    return other.parameters == one.parameters;
  });
  if (same != seen_.end()) {
    same->need.add(one.need);
  } else if (one.need.bytes > 0) {  // it was seen on a GPU
    if (seen_.size() == kMostSeen) make_room();
    seen_.push_back(one);
  }
  sort_out();
  const bool are_same = std::ranges::equal(needs_, shapes_before.second, {},
                                           &std::pair<const GpuShape, GpuNeed>::first,
                                           &std::pair<const GpuShape, GpuNeed>::first);
  if (matter_ != shapes_before.first || !are_same) return News::Shapes;
  return needs_before == std::pair(all_, seen_) ? News::None : News::Needs;
}

/// Of the shape of which the most are there the oldest is put to the next one of it.
void GpuShapes::make_room() {
  std::map<GpuShape, int> count;
  for (const Seen& one : seen_) ++count[hash(one.parameters)];
  const auto most = std::max_element(
      count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto is_of_it = [&](const Seen& one) { return hash(one.parameters) == most->first; };
  const auto oldest = std::find_if(seen_.begin(), seen_.end(), is_of_it);
  const auto next = std::find_if(oldest + 1, seen_.end(), is_of_it);
  // Where nothing matters they have nothing to do with each other.
  if (!matter_.empty() && next != seen_.end()) next->need.add(oldest->need);
  seen_.erase(oldest);
}

GpuShape GpuShapes::hash(const std::vector<ParameterMark>& parameters) const {
  std::vector<std::uint32_t> values;
  for (const std::uint32_t name : matter_) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const ParameterMark& mark) { return mark.name == name; });
    values.push_back(name);
    values.push_back(found == parameters.end() ? 0 : found->value);
  }
  const auto shape =
      static_cast<GpuShape>(XXH3_64bits(values.data(), values.size() * sizeof(values.front())));
  return std::max<GpuShape>(shape, 1);
}

GpuShape GpuShapes::shape_of(const std::vector<ParameterMark>& parameters) const {
  if (matter_.empty()) return 0;
  const GpuShape shape = hash(parameters);
  return needs_.contains(shape) ? shape : 0;
}

void GpuShapes::sort_out() {
  matter_.clear();
  needs_.clear();
  std::vector<Observation> observations;
  std::uint64_t least = all_.bytes;
  std::uint64_t most = 0;
  for (const Seen& one : seen_) {
    if (one.need.bytes == 0) continue;
    observations.push_back({&one.parameters, static_cast<double>(one.need.bytes)});
    least = std::min(least, one.need.bytes);
    most = std::max(most, one.need.bytes);
  }
  if (static_cast<double>(most) <= kWorthIt * static_cast<double>(least)) return;
  for (const auto& [name, part] : parts_explained(observations)) {
    if (part >= kMatters) matter_.push_back(name);
  }
  if (matter_.empty()) return;
  for (const Seen& one : seen_) {
    if (one.need.bytes > 0) needs_[hash(one.parameters)].add(one.need);
  }
  for (auto& [shape, need] : needs_) {
    if (need.cores == 0) need.cores = all_.cores;
    if (need.measured > 0) continue;
    need.busy = all_.busy;
    need.measured = all_.measured;
  }
}

}  // namespace pergpu
