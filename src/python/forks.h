// Whether something was made by this process, or by one that it was forked from.
#pragma once

namespace pergpu::python {

/// The forks between the process that loaded this and the one that runs: what was made at another
/// number was made by an ancestor.  Two calls of getpid() would cost more than the rest of an
/// Array.
unsigned forks_so_far();

/// Counting begins.
void count_forks();

}  // namespace pergpu::python
