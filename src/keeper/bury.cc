// Looks again after a pause that grows: the killed are not this program's children, so nothing
// tells it of their end.
#include "keeper/bury.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "keeper/protocol.h"
#include "os/cgroup.h"
#include "os/clock.h"

namespace pergpu::keeper {

int end_tree(const os::TreeMarks& marks, std::int64_t limit_ns) {
  constexpr std::int64_t kFirstWait = 1'000'000;
  constexpr std::int64_t kLastWait = 200'000'000;
  const std::int64_t end = os::boot_now_ns() + limit_ns;
  std::int64_t wait = kFirstWait;
  for (;;) {
    const std::vector<os::TreeMember> left = os::kill_tree(marks);
    if (left.empty()) {
      os::remove_groups(marks.groups);
      return kTreeGone;
    }
    if (os::boot_now_ns() >= end) {
      const std::string words = os::why_left(left);
      (void)!::write(STDOUT_FILENO, words.data(), words.size());
      return kTreeLeft;
    }
    const timespec pause = {.tv_sec = 0, .tv_nsec = wait};
    ::nanosleep(&pause, nullptr);  // the killed are not ours to wait for
    wait = std::min(2 * wait, kLastWait);
  }
}

}  // namespace pergpu::keeper
