// Ending the processes of an attempt whose keeper is dead, and a keeper that does not answer with
// all that is below it.  Runs as a separate process (`pergpu-keeper --end-tree`, `--end-keeper`),
// because it reads all of /proc and waits, which the deciding thread of a coordinator must not.
#pragma once

#include <cstdint>
#include <string>

#include "os/process/process_tree.h"

namespace pergpu::keeper {

/// Stops and kills until a look finds nothing (kTreeGone), at most for `limit_ns` (kTreeLeft).
int end_tree(const os::TreeMarks& marks, std::int64_t limit_ns);

/// The same for the keeper of this home and number.  What is below it goes first: once it is gone
/// nothing says of a process without any mark of its attempt whose it was.
int end_keeper(const std::string& home, const std::string& home_id, std::int64_t id,
               std::int64_t limit_ns);

}  // namespace pergpu::keeper
