// A file that notes which folder a path led to, so that another one in its place is noticed later,
// by any process.
//
// A folder is known by its inode, and by its device where that has a number that lasts.  File
// systems that make up inodes as they go (FUSE, SMB) are not noted.
//
// Thread: every function may be called on any thread.
#pragma once

#include <string>

#include "result.h"

namespace pergpu::os {

/// Notes the folder that `path` leads to now; no note is left of one that can't be known again.
/// Makes the folder that holds `note` (0700), and the one above it, but none above that.
Result<void> note_folder(const std::string& path, const std::string& note);

/// Removes all notes that lie beside this one, and this one: of a folder that is gone.
void forget_notes(const std::string& note);

/// False: another folder lies at `path` than the one noted.  True also where nothing is noted, and
/// where nothing lies at `path`.
bool is_noted_folder(const std::string& path, const std::string& note);

}  // namespace pergpu::os
