// A start that was refused because another process works in the job's folder.  Nothing has run, so
// it ends as `lost`; told apart by its reason, because it may be tried again however often.
#pragma once

#include <string_view>

#include "job/outcome.h"

namespace pergpu {

/// Phase of a SpawnFailure; `object` is who works there.
inline constexpr std::string_view kFolderInUsePhase = "folder in use";
inline constexpr std::string_view kFolderInUseReason = "its folder is in use by ";

inline bool is_folder_in_use(const Outcome& outcome) {
  return outcome.cls == OutcomeClass::Lost && outcome.reason.starts_with(kFolderInUseReason);
}

}  // namespace pergpu
