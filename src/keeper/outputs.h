// Whether an attempt left the files that its step declares.
#pragma once

#include <time.h>

#include <optional>
#include <string>
#include <vector>

namespace pergpu::keeper {

struct MissingOutput {
  std::string path = {};
  std::string why = {};  // "does not exist", "is empty", "matches no file"
};

/// The instant `fd`'s file system shows for a change made now: what outputs are compared with,
/// since a file server's clock is not ours.  Touches the file.
timespec stamp_of(int fd);

/// The first of `outputs` that does not exist, is empty, or was last written before `since`, or of
/// `patterns` that matches none that is as it should be.
std::optional<MissingOutput> first_missing(const std::vector<std::string>& outputs,
                                           const std::vector<std::string>& patterns,
                                           timespec since);

}  // namespace pergpu::keeper
