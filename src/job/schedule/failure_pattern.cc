// Which failures belong together shows when others have succeeded: a value that all runs have joins
// them all at first. So groups are formed again with each value that is found to be none of the
// causes.
#include "job/schedule/failure_pattern.h"

#include <algorithm>

namespace pergpu {
namespace {

constexpr std::size_t kMostGroups = 8;
constexpr std::size_t kMostKept = 64;  // failed runs, the first ones

}  // namespace

void FailurePattern::add_failure(const std::vector<ParameterMark>& run) {
  ++failures_;
  for (const ParameterMark& mark : run) ++failed_with_[mark];
  if (failed_.size() < kMostKept) failed_.push_back(run);
  group(run);
  collect();
}

void FailurePattern::add_success(const std::vector<ParameterMark>& run) {
  const std::size_t known = succeeded_with_.size();
  succeeded_with_.insert(run.begin(), run.end());
  if (succeeded_with_.size() == known) return;
  groups_.clear();
  for (const std::vector<ParameterMark>& failed : failed_) group(failed);
  collect();
}

/// With the group that it shares most with, or as a new one.
void FailurePattern::group(const std::vector<ParameterMark>& run) {
  const auto best = std::max_element(
      groups_.begin(), groups_.end(),
      [&](const Marks& a, const Marks& b) { return common(a, run) < common(b, run); });
  if (best != groups_.end() && common(*best, run) > 0) {
    std::erase_if(*best, [&](const ParameterMark& mark) {
      return std::find(run.begin(), run.end(), mark) == run.end();
    });
    return;
  }
  Marks marks(run.begin(), run.end());
  std::erase_if(marks, [&](const ParameterMark& mark) { return succeeded_with_.contains(mark); });
  if (!marks.empty() && groups_.size() < kMostGroups) groups_.push_back(std::move(marks));
}

void FailurePattern::collect() {
  blamed_.clear();
  for (const Marks& marks : groups_) blamed_.insert(marks.begin(), marks.end());
}

std::size_t FailurePattern::common(const Marks& marks, const std::vector<ParameterMark>& run) {
  return static_cast<std::size_t>(std::count_if(
      run.begin(), run.end(), [&](const ParameterMark& mark) { return marks.contains(mark); }));
}

std::size_t FailurePattern::shared(const std::vector<ParameterMark>& run) const {
  return common(blamed_, run);
}

bool FailurePattern::is_alike(const std::vector<ParameterMark>& run) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const Marks& marks) { return common(marks, run) == marks.size(); });
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
