// What runs that failed the same way have in common, and how far another run is from them. Pure.
//
// Failures that have values in common form a group; those of another value form another one. Blamed
// are the values that all of a group have and no run has that got further. As long as that is more
// than one value, any of them may be the cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "job/schedule/likeness.h"

namespace pergpu {

class FailurePattern {
 public:
  void add_failure(const std::vector<ParameterMark>& run);
  /// It succeeded, or ran for longer than any that failed: none of its values is the cause.
  void add_success(const std::vector<ParameterMark>& run);

  std::size_t failures() const { return failures_; }
  const std::set<ParameterMark>& blamed() const { return blamed_; }
  /// How many of the blamed values the run has.
  std::size_t shared(const std::vector<ParameterMark>& run) const;
  /// It has a blamed value.
  bool is_suspect(const std::vector<ParameterMark>& run) const { return shared(run) > 0; }
  /// It has all that a group is blamed for.
  bool is_alike(const std::vector<ParameterMark>& run) const;
  /// How many values it shares with each failed run, added up.
  std::uint64_t likeness(const std::vector<ParameterMark>& run) const;

 private:
  using Marks = std::set<ParameterMark>;
  void group(const std::vector<ParameterMark>& run);
  void collect();
  static std::size_t common(const Marks& marks, const std::vector<ParameterMark>& run);

  std::size_t failures_ = 0;
  std::map<ParameterMark, std::uint64_t> failed_with_;
  std::vector<std::vector<ParameterMark>> failed_;
  Marks succeeded_with_;
  std::vector<Marks> groups_;  // what each is blamed for
  Marks blamed_;               // of all groups
};

}  // namespace pergpu
