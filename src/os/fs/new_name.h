// Giving a whole file a name that no file has yet.  What is there stays as it is, and no process
// sees a part under that name.
#pragma once

#include <string>

#include "result.h"

namespace pergpu::os {

// These two: a file or folder.  False: errno; EEXIST: `to` is there.

/// By one call.  EINVAL or ENOSYS: the file system or the kernel can't.
bool rename_exclusively(const std::string& from, const std::string& to);
/// By two calls where it must be.
bool give_new_name(const std::string& from, const std::string& to);

/// Both: the folder of `to` is synced; os_errno EEXIST: `to` is there.

/// os_errno EXDEV: `to` is on another file system.  REQUIRES: `from` is synced.
Result<void> rename_to_new(const std::string& from, const std::string& to);

/// Also to another file system: there the content is written beside `to`, as draft_of(to), and
/// synced first.
Result<void> move_to_new(const std::string& from, const std::string& to);
std::string draft_of(const std::string& path);

}  // namespace pergpu::os
