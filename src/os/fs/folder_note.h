// A file that notes which folder a path led to, so that another one in its place is noticed later,
// by any process.
//
// A folder is known by its inode, and by its device where that has a number that lasts.  File
// systems that make up inodes as they go (FUSE, SMB) are not noted.
//
// Thread: every function may be called on any thread.
#pragma once

#include <string>

#include "os/fs/folder_walk.h"
#include "result.h"

namespace pergpu::os {

/// Notes the folder; no note is left of one that can't be known again.  Makes the folder that holds
/// `note` (0700), and the one above it, but none above that.
Result<void> note_folder(const HeldFolder& noted, const std::string& note);

/// The same of a folder that replaces one that is gone: removes all notes that lie beside this one.
Result<void> note_new_folder(const HeldFolder& noted, const std::string& note);

/// False: it's another folder than the one noted.  True also where nothing is noted.
bool is_noted_folder(const HeldFolder& folder, const std::string& note);

}  // namespace pergpu::os
