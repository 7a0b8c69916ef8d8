// Where a home notes which folder the output root of a sweep is (os/fs/folder_note.h).  The notes
// of all sweeps with one root lie in one folder.
#pragma once

#include <string>

#include "os/fs/file.h"
#include "os/process/paths.h"

namespace pergpu {

/// `sweep`: <output root>/<sweep's name>.
inline std::string root_note(const std::string& home, const std::string& sweep) {
  return home + "/roots/" + os::name_hash(os::parent_of(sweep)) + "/" + os::name_hash(sweep);
}

}  // namespace pergpu
