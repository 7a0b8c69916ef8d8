// Ending the processes of an attempt whose keeper is dead.  Runs as a process of its own
// (`pergpu-keeper --end-tree`), because it reads all of /proc and waits, which the deciding thread
// of a coordinator must not.
#pragma once

#include <cstdint>

#include "os/process_tree.h"

namespace pergpu::keeper {

/// Stops and kills until a look finds nothing (kTreeGone), at most for `limit_ns` (kTreeLeft).
int end_tree(const os::TreeMarks& marks, std::int64_t limit_ns);

}  // namespace pergpu::keeper
