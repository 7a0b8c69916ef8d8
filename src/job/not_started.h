// Starts that failed before anything of the job ran, and by no fault of the job: another process
// works in its folder, or the disk that it starts on is full or fails.  They cost nothing and may
// be tried again however often; told apart by the beginning of their reason.
#pragma once

#include <string>
#include <string_view>

#include "job/folder_in_use.h"
#include "job/outcome.h"

namespace pergpu {

/// Of starts that failed by an error of storage_errno.h.
inline constexpr std::string_view kStorageReason = "could not start yet: ";

/// Phase of a SpawnFailure: `object`, the sweep's output root, is another folder than before.
inline constexpr std::string_view kRootReplacedPhase = "use another folder at";

/// What happened, and what to do.
inline std::string root_replaced_words(const std::string& root) {
  return root +
         " isn't the folder that holds this sweep's results. To fix this: restore that folder "
         "(rename it back, or mount its disk), or submit the sweep again to continue in this one";
}

inline bool is_storage_failure(const Outcome& outcome) {
  return (outcome.cls == OutcomeClass::DiskFull || outcome.cls == OutcomeClass::Lost) &&
         outcome.reason.starts_with(kStorageReason);
}

/// Nothing of the attempt ran, and its folder is another's, or as it was.
inline bool has_not_begun(const Outcome& outcome) {
  return is_folder_in_use(outcome) || is_storage_failure(outcome);
}

}  // namespace pergpu
