// All sets are compared where there are not too many of them; else one is grown from each GPU, by
// the nearest one at a time.
#include "job/schedule/gpu_set.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <tuple>

namespace pergpu {
namespace {

constexpr std::size_t kMostSets = 2'000;

using Set = std::vector<const GpuLane*>;

/// Less is better.
std::tuple<long, long> cost_of(const Set& fixed, const Set& chosen, const Set& candidates) {
  long inside = 0;
  long to_rest = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (const GpuLane* other : fixed) inside += distance_between(*chosen[i], *other);
    for (std::size_t k = i + 1; k < chosen.size(); ++k) {
      inside += distance_between(*chosen[i], *chosen[k]);
    }
    for (const GpuLane* other : candidates) {
      const bool is_left = std::find(chosen.begin(), chosen.end(), other) == chosen.end();
      if (is_left) to_rest += distance_between(*chosen[i], *other);
    }
  }
  return {inside, -to_rest};
}

/// How many sets of `count` there are; kMostSets + 1: more than that.
std::size_t sets_of(std::size_t all, std::size_t count) {
  std::size_t sets = 1;
  for (std::size_t i = 1; i <= std::min(count, all - count); ++i) {
    sets = sets * (all - i + 1) / i;
    if (sets > kMostSets) return kMostSets + 1;
  }
  return sets;
}

template <typename Visit>
void for_each_set(const Set& candidates, std::size_t count, const Visit& visit) {
  std::vector<bool> in(candidates.size(), false);
  std::fill(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count), true);
  do {  // in the order of the candidates
    Set chosen;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i]) chosen.push_back(candidates[i]);
    }
    visit(std::move(chosen));
  } while (std::prev_permutation(in.begin(), in.end()));
}

Set grown_from(const GpuLane* seed, const Set& fixed, const Set& candidates, std::size_t count) {
  Set chosen{seed};
  while (chosen.size() < count) {
    const GpuLane* best = nullptr;
    long best_distance = 0;
    for (const GpuLane* one : candidates) {
      if (std::find(chosen.begin(), chosen.end(), one) != chosen.end()) continue;
      long distance = 0;
      for (const GpuLane* other : fixed) distance += distance_between(*one, *other);
      for (const GpuLane* other : chosen) distance += distance_between(*one, *other);
      if (best != nullptr && distance >= best_distance) continue;
      best = one;
      best_distance = distance;
    }
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace

int distance_between(const GpuLane& a, const GpuLane& b) {
  const auto slot = static_cast<std::size_t>(std::max(0, b.id.slot));
  return slot < a.distances.size() ? a.distances[slot] : 0;
}

std::vector<const GpuLane*> nearest(const Set& fixed, const Set& candidates, std::size_t count) {
  assert(count <= candidates.size());
  if (count == 0) return {};
  // Of thousands, as in a trace that is replayed, each pair would be compared for nothing.
  const bool none_is_nearer =
      std::all_of(candidates.begin(), candidates.end(),
                  [](const GpuLane* one) { return one->distances.empty(); });
  if (none_is_nearer) {
    return {candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  Set best;
  std::optional<std::tuple<long, long>> least;
  const auto consider = [&](Set chosen) {
    const std::tuple<long, long> cost = cost_of(fixed, chosen, candidates);
    if (least && cost >= *least) return;
    least = cost;
    best = std::move(chosen);
  };
  if (sets_of(candidates.size(), count) <= kMostSets) {
    for_each_set(candidates, count, consider);
    return best;
  }
  for (const GpuLane* seed : candidates) consider(grown_from(seed, fixed, candidates, count));
  const auto place = [&](const GpuLane* one) {
    return std::find(candidates.begin(), candidates.end(), one);
  };
  std::sort(best.begin(), best.end(),
            [&](const GpuLane* a, const GpuLane* b) { return place(a) < place(b); });
  return best;
}

}  // namespace pergpu
