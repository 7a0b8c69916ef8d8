// Looks again after a pause that grows: the killed are not this program's children, so it gets no
// notice of their end.
#include "keeper/bury.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "keeper/protocol.h"
#include "os/clock.h"
#include "os/process/cgroup.h"

namespace pergpu::keeper {

namespace {

/// `round`: a look and what follows from it; what it found.
template <typename Round>
int repeat(std::int64_t limit_ns, Round round) {
  constexpr std::int64_t kFirstWait = 1'000'000;
  constexpr std::int64_t kLastWait = 200'000'000;
  const std::int64_t end = os::boot_now_ns() + limit_ns;
  std::int64_t wait = kFirstWait;
  for (;;) {
    const std::vector<os::TreeMember> left = round();
    if (left.empty()) return kTreeGone;
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

}  // namespace

int end_tree(const os::TreeMarks& marks, std::int64_t limit_ns) {
  const int code = repeat(limit_ns, [&] { return os::kill_tree(marks); });
  if (code == kTreeGone) os::remove_groups(marks.groups);
  return code;
}

int end_keeper(const std::string& home, const std::string& home_id, std::int64_t id,
               std::int64_t limit_ns) {
  return repeat(limit_ns, [&] {
    const std::vector<os::TreeMember> keepers = os::find_keepers(home, home_id, id);
    for (const os::TreeMember& keeper : keepers) os::kill_from_root(keeper);
    return keepers;
  });
}

}  // namespace pergpu::keeper
