// Whether anybody but this user and root can put another file or folder under a path.
//
// A path is as private as the folders that its names are looked up in, links included: who can
// write to one of them can rename what lies there.  While the answer is yes, only this user can
// make it no, so a name may be used again after it was checked.
//
// Thread: every function may be called on any thread.
#pragma once

#include <string>

#include "result.h"

namespace pergpu::os {

/// ErrorKind::Denied: others can change it; the message names the folder and who.  NotFound: it
/// isn't there.  `path`: an absolute one of a folder of this user's.  `trusted`: a folder above it
/// that is taken as it is, with all that is above it.
Result<void> check_private(const std::string& path, const std::string& trusted = "/");

}  // namespace pergpu::os
