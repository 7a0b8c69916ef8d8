// Copies of a store in its own folder: a coordinator makes them for `pergpu store`, which looks at
// one or moves it on.  They live as long as the command, which holds `store.lock`; what is there
// while the lock is free was left by one that was killed.
#pragma once

#include <string>
#include <string_view>

#include "os/fs/lock.h"
#include "result.h"

namespace pergpu::store {

/// ErrorKind::Busy: another one is at work.  `note`: as of os::FileLock.
Result<os::FileLock> lock_copies(const std::string& folder, std::string_view note);

/// A name that this process has not used yet.
std::string next_copy(const std::string& folder);
bool is_copy(const std::string& folder, const std::string& file);

/// REQUIRES: lock_copies() of this process.
void remove_copies(const std::string& folder);
/// Unless a command is at work.
void remove_left_copies(const std::string& folder);

}  // namespace pergpu::store
