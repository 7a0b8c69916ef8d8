// Whether there is room in a folder for what a job is about to write.
#pragma once

#include <cstdint>
#include <string>

#include "result.h"

namespace pergpu::os {

/// Whether the file system says that this user has neither blocks nor inodes left.  Costs a
/// microsecond.  A quota doesn't show, and a few file systems say so for no reason.
bool seems_full(const std::string& folder);

/// Writes some pages into a file without a name, and has them written to the disk: may hang.  In
/// `path`, or in the nearest folder above it that is there.  Success, too, where the file system
/// can't make such a file: then it's not known.
Result<void> try_writing(const std::string& path);

/// The file system on which `path`, or the nearest folder above it, lies; 0: that can't be seen.
std::uint64_t device_of(const std::string& path);

}  // namespace pergpu::os
