// Blamed values only become fewer: the first failure names them all.
#include "job/failure_pattern.h"

#include <algorithm>

namespace pergpu {

void FailurePattern::add_failure(const std::vector<ParameterMark>& run) {
  for (const ParameterMark& mark : run) ++failed_with_[mark];
  if (failures_++ == 0) {
    blamed_.insert(run.begin(), run.end());
    return;
  }
  std::erase_if(blamed_, [&](const ParameterMark& mark) {
    return std::find(run.begin(), run.end(), mark) == run.end();
  });
}

void FailurePattern::add_success(const std::vector<ParameterMark>& run) {
  for (const ParameterMark& mark : run) blamed_.erase(mark);
}

std::size_t FailurePattern::shared(const std::vector<ParameterMark>& run) const {
  return static_cast<std::size_t>(
      std::count_if(run.begin(), run.end(),
                    [this](const ParameterMark& mark) { return blamed_.contains(mark); }));
}

std::uint64_t FailurePattern::likeness(const std::vector<ParameterMark>& run) const {
  std::uint64_t sum = 0;
  for (const ParameterMark& mark : run) {
    if (const auto found = failed_with_.find(mark); found != failed_with_.end()) {
      sum += found->second;
    }
  }
  return sum;
}

}  // namespace pergpu
