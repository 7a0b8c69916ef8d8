// Everything is worked out again when something is added: it is little, and seldom.
#include "job/schedule/gpu_shapes.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace pergpu {
namespace {

constexpr double kMatters = 0.5;  // this part of the memory's variance its values explain
constexpr double kWorthIt = 1.1;  // the most, by the least: closer ones are one shape

bool needs_less(const GpuShapes::Seen& a, const GpuShapes::Seen& b) {
  return a.need.bytes < b.need.bytes;
}

}  // namespace

GpuShapes::GpuShapes(const GpuNeed& all, std::vector<Seen> seen)
    : all_(all), seen_(std::move(seen)) {
  if (seen_.size() > kMostSeen) seen_.resize(kMostSeen);
  sort_out();
}

GpuShapes::News GpuShapes::add(const Seen& one) {
  const GpuShapes before = *this;
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
  const bool are_same =
      std::ranges::equal(needs_, before.needs_, {}, &std::pair<const GpuShape, GpuNeed>::first,
                         &std::pair<const GpuShape, GpuNeed>::first);
  if (matter_ != before.matter_ || !are_same) return News::Shapes;
  if (all_ != before.all_ || needs_ != before.needs_) return News::Needs;
  return seen_ == before.seen_ ? News::None : News::Seen;
}

void GpuShapes::make_room() {
  // Where nothing matters the newer half has time to show what does.
  if (matter_.empty()) {
    seen_.erase(std::min_element(seen_.begin(), seen_.begin() + kMostSeen / 2, needs_less));
    return;
  }
  std::map<GpuShape, std::vector<std::size_t>> of_shape;
  for (std::size_t i = 0; i < seen_.size(); ++i) of_shape[hash(seen_[i].parameters)].push_back(i);
  const std::vector<std::size_t>& most =
      std::max_element(of_shape.begin(), of_shape.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      })->second;
  if (most.size() <= 2) {
    const auto is_alone = [&](const Seen& one) {
      return of_shape.at(hash(one.parameters)).size() == 1;
    };
    const bool many_are = std::ranges::count_if(seen_, is_alone) >= std::ptrdiff_t{kMostSeen / 2};
    const auto first = many_are ? std::ranges::find_if(seen_, is_alone) : seen_.begin();
    const GpuShape oldest = hash(first->parameters);
    std::erase_if(seen_, [&](const Seen& one) { return hash(one.parameters) == oldest; });
    return;
  }
  const std::size_t least = *std::min_element(
      most.begin(), most.end(),
      [&](std::size_t a, std::size_t b) { return needs_less(seen_[a], seen_[b]); });
  GpuNeed rest = seen_[least].need;
  rest.bytes = 0;
  seen_[least == most.front() ? most.back() : most.front()].need.add(rest);
  seen_.erase(seen_.begin() + static_cast<std::ptrdiff_t>(least));
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
