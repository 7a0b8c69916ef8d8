// What the processes of an attempt are doing, as text for people: `pergpu stacks`, a hidden
// command that the coordinator runs for a job that hangs.  Everything in it may block (a process in
// the kernel, a debugger, a dead file system): that is why it is a process with a deadline.
#pragma once

#include <sys/types.h>

#include <string>

#include "result.h"

namespace pergpu {

/// Writes to `path` (a new file, or in place of an old one) for every process below `root`: command
/// line with secrets redacted, state, threads with names, what they wait for in the kernel; and,
/// where installed and allowed, what py-spy or gdb say.  The file grows as it is written, so that
/// what was found out stays when this is killed.
Result<void> write_stacks(pid_t root, const std::string& path);

}  // namespace pergpu
