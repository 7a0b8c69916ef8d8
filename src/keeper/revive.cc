// The coordinator is started as a sibling (CLONE_PARENT): were it this keeper's descendant, it and
// the keepers that it starts would be taken for leftovers of this keeper's job and ended with it.
#include "keeper/revive.h"

#include <algorithm>

#include "duration.h"
#include "os/fs/lock.h"
#include "os/process/paths.h"
#include "os/process/spawn.h"

namespace pergpu::keeper {
namespace {

constexpr std::int64_t kFirstWait = 12 * kSecond;
constexpr std::int64_t kLongestWait = 60 * kSecond;
constexpr std::int64_t kYield = 3 * kSecond;
constexpr int kLockFd = 3;

}  // namespace

std::uint64_t ReviveSchedule::below(std::uint64_t bound) {
  random_ ^= random_ << 13;  // xorshift: spreading keepers apart needs no more
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_ % bound;
}

std::int64_t ReviveSchedule::not_too_often(std::int64_t at_ns) const {
  const std::int64_t fifth_last = recent_[oldest_];
  return fifth_last == 0 ? at_ns : std::max(at_ns, fifth_last + 60 * kSecond);
}

void ReviveSchedule::lost(std::int64_t now_ns, bool yields) {
  wait_ns_ = kFirstWait;
  const std::int64_t first_ns = now_ns + (yields ? kYield : 0);
  next_ns_ = not_too_often(first_ns + static_cast<std::int64_t>(below(kSecond / 10)));
}

void ReviveSchedule::started(std::int64_t now_ns) {
  recent_[oldest_] = now_ns;
  oldest_ = (oldest_ + 1) % recent_.size();
  next_ns_ = not_too_often(now_ns + wait_ns_ + static_cast<std::int64_t>(below(3 * kSecond)));
  wait_ns_ = std::min(2 * wait_ns_, kLongestWait);
}

void start_coordinator(const std::string& pergpu, const std::string& home,
                       const std::string& run_folder) {
  // The new process inherits the lock and holds it as long as it lives: a thousand keepers that
  // lost theirs at once would keep the machine busy with the start of a thousand.
  const Result<os::FileLock> lock = os::FileLock::try_lock(run_folder + "/revive.lock");
  if (!lock && lock.error().kind == ErrorKind::Busy) return;
  os::SpawnPlan plan;
  if (lock) plan.fds = {{.fd = lock->fd(), .as = kLockFd}};
  plan.argv = {pergpu, "coordinator", "run"};
  plan.env = os::environment_for_home(home);
  plan.cwd = "/";
  plan.new_session = true;
  plan.sibling = true;
  plan.is_watched = false;
  plan.umask = 077;
  plan.oom_score_adj = 0;
  (void)os::spawn(plan);  // a failure is tried again when the next revival is due
}

}  // namespace pergpu::keeper
