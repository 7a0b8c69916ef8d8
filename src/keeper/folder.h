// The folder of an attempt: made, files written, the previous attempt's log and record moved aside.
//
// Making and writing can be repeated at any time, also while the attempt runs: PREPARE does it
// ahead, perhaps at another keeper than START and, since two sockets have no order, perhaps after
// it. Moving aside is START's alone, once per attempt.
//
// Whose log.txt is it?  attempt.json lies beside it and names its attempt, so the two become
// log.N.txt and attempt.N.json.  For a first attempt they belong to an earlier job of the same
// folder and become log.old.txt and attempt.old.json.
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
/// REQUIRES: the attempt has not started.
std::optional<SetupFailure> move_earlier_attempt(const Folder& folder);

/// Writes `content` to `path` by temp and rename, unless the folder has moved on to a later
/// attempt: then to attempt.<n>.json beside it.
std::optional<SetupFailure> write_final_record(const Forget& forget);

/// The number behind "attempt": near the beginning of a record; nullopt when it is not there.
std::optional<std::int32_t> attempt_of_record(std::string_view text);

}  // namespace pergpu::keeper
