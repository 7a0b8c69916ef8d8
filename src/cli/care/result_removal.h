// The files of sweeps that `pergpu clean --results` removes: whether they may go, how much they
// are, and the two steps in which they do.
//
// First the folders of a sweep's runs are moved into a new folder beside them (aside), all of them
// or none; later that one is removed.  Symlinks are moved and removed, never followed; what lies on
// another file system is left.  Only what is surely not there counts as absent: all else that
// cannot be looked at is an error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "result.h"

namespace pergpu::cli {

/// What the coordinator says of a sweep that may go (api/snapshot.h, "clean").
struct SweepResults {
  std::int64_t id = 0;
  std::string sweep = {};
  std::string folder = {};
  std::string aside = {};
  std::vector<std::string> runs = {};  // names in the folder
  std::int64_t ended_at_ns = 0;        // nothing of it began later
};
SweepResults results_of(const nlohmann::json& sweep);

struct Size {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  bool mounted = false;  // there is more, on another file system
};
/// Of the folders of its runs, and of what lies aside already.
Size measure_results(const SweepResults& results);

/// Folders whose results stay, under whatever name.
class OtherFolders {
 public:
  explicit OtherFolders(const std::vector<std::string>& folders);
  /// Invalid: the folder is one of these, or holds one.  Io: one of them cannot be looked at.
  Result<void> check(const std::string& folder) const;

 private:
  std::set<std::pair<dev_t, ino_t>> folders_;
  std::vector<std::string> paths_;  // without symlinks in them, sorted
  Result<void> all_seen_ = {};
};

/// Invalid: what lies there is not to be removed.  Io: that can't be determined.
Result<void> check_folder(const SweepResults& results, const OtherFolders& others);
/// The same of the attempts whose records lie there.  `is_over`: whether an attempt that is
/// "running" by its record is one of this sweep all the same, whose end was not written there.
Result<void> check_attempts(const SweepResults& results,
                            const std::function<bool(const nlohmann::json& record)>& is_over);

/// Moves all of it aside, durably.  After an error `is_back` says whether nothing lies aside.
Result<void> put_aside(const SweepResults& results, bool& is_back);
/// Removes what lies aside, now or since a process that was killed; adds it to `size`.
Result<void> remove_aside(const std::string& aside, Size& size);
/// A sweep's folder with nothing left in it.
void remove_empty_folder(const std::string& folder);

}  // namespace pergpu::cli
