// Adjusted R squared of a grouping by one parameter: 1 - (SSW / (n - g)) / (SST / (n - 1)).
#include "job/schedule/likeness.h"

#include <algorithm>

namespace pergpu {
namespace {

struct Group {
  std::size_t count = 0;
  double sum = 0;
  double squares = 0;
  void add(double value) {
    ++count;
    sum += value;
    squares += value * value;
  }
  /// Of squared distances from the mean.
  double spread() const {
    return std::max(0.0,
                    squares - sum * sum / static_cast<double>(std::max<std::size_t>(count, 1)));
  }
};

}  // namespace

std::map<std::uint32_t, double> weights_of(const std::vector<UsageRecord>& records) {
  std::vector<Observation> observations;
  for (const UsageRecord& record : records) {
    observations.push_back({&record.parameters, record.duration_s});
  }
  return parts_explained(observations);
}

std::map<std::uint32_t, double> parts_explained(const std::vector<Observation>& observations) {
  std::map<std::uint32_t, std::map<std::uint32_t, Group>> by_name;
  std::map<std::uint32_t, Group> all;  // of those that have the parameter
  for (const Observation& one : observations) {
    for (const ParameterMark& mark : *one.parameters) {
      by_name[mark.name][mark.value].add(one.value);
      all[mark.name].add(one.value);
    }
  }
  std::map<std::uint32_t, double> weights;
  for (const auto& [name, groups] : by_name) {
    const Group& whole = all[name];
    const bool can_tell = groups.size() > 1 && whole.count > groups.size() && whole.spread() > 0;
    double weight = 0;
    if (can_tell) {
      double within = 0;
      for (const auto& [value, group] : groups) within += group.spread();
      const double within_mean = within / static_cast<double>(whole.count - groups.size());
      const double all_mean = whole.spread() / static_cast<double>(whole.count - 1);
      weight = std::clamp(1 - within_mean / all_mean, 0.0, 1.0);
    }
    weights[name] = weight;
  }
  return weights;
}

std::optional<Estimate> estimate(const std::vector<UsageRecord>& records,
                                 const std::map<std::uint32_t, double>& weights,
                                 const std::vector<ParameterMark>& parameters) {
  constexpr double kSame = 1e-9;
  std::optional<Estimate> best;
  double best_score = -1;
  bool all_told = true;
  for (const UsageRecord& record : records) {
    double score = 0;
    for (const ParameterMark& mark : record.parameters) {
      const bool agrees = std::find(parameters.begin(), parameters.end(), mark) != parameters.end();
      const auto weight = weights.find(mark.name);
      if (agrees && weight != weights.end()) score += weight->second;
    }
    if (score < best_score - kSame) continue;
    if (score > best_score + kSame) {
      best = Estimate{};
      best_score = score;
      all_told = true;
    }
    ++best->jobs;
    best->duration_s += record.duration_s;
    best->cores += record.cores;
    best->alone_s += record.alone_s;
    all_told = all_told && record.cores > 0;
    best->memory_bytes = std::max(best->memory_bytes, record.memory_bytes);
    best->gpu_memory_bytes = std::max(best->gpu_memory_bytes, record.gpu_memory_bytes);
  }
  if (!best) return best;
  const auto jobs = static_cast<double>(best->jobs);
  best->duration_s /= jobs;
  best->cores = all_told ? best->cores / jobs : 0;
  best->alone_s = all_told ? best->alone_s / jobs : 0;
  return best;
}

}  // namespace pergpu
