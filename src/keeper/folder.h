// The folder of an attempt: made, the previous attempt's log and record moved aside, files written.
// Every step can be repeated: PREPARE does it ahead of time, START does what is missing.
//
// Whose log.txt is it?  attempt.json lies beside it and starts with {"schema":1,"attempt":N, so the
// two are moved to log.N.txt and attempt.N.json when N is not the attempt that is prepared.  For a
// first attempt they belong to an earlier job of the same folder and become log.old.txt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keeper/protocol.h"
#include "os/fd.h"

namespace pergpu::keeper {

/// Which step of the set-up failed; becomes SPAWN_FAILED.
struct SetupFailure {
  std::string phase = {};  // "mkdir", "rename", "write", "open log"
  int os_errno = 0;
  std::string object = {};
};

std::optional<SetupFailure> prepare_folder(const Folder& folder);

/// Writes `content` to `path` by temp and rename, unless the folder has moved on to a later
/// attempt: then to attempt.<n>.json beside it.
std::optional<SetupFailure> write_final_record(const Forget& forget);

/// The attempt that wrote the record whose text begins like this; nullopt when it does not say.
std::optional<std::int32_t> attempt_of_record(std::string_view text);

}  // namespace pergpu::keeper
