// Jobs are named by the home's path and a number, so those of two homes of one path would be taken
// for each other: the new one's wait until the old one's are gone.
#include "coordinator/home_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "os/fs/file.h"
#include "run/living_keepers.h"
#include "timers.h"

namespace pergpu {
namespace {

/// How long a home that isn't there is waited for when no job runs: it may be moved back.
constexpr std::int64_t kHomePatience = 10 * kSecond;

}  // namespace

HomeWatch::HomeWatch(Parts parts)
    : parts_(std::move(parts)),
      home_(parts_.home),
      store_(parts_.store),
      may_have_earlier_(parts_.is_new) {}

bool HomeWatch::look() {
  const std::string lost = find_loss();
  if (!lost.empty() && lost_.empty()) lost_since_ns_ = parts_.clock->now().boot_ns;
  lost_ = lost;
  std::string trouble;
  if (!lost_.empty()) {
    trouble = fmt::format(
        "{} while its coordinator (process {}) was running. Running jobs continue, and the "
        "coordinator exits after the last of them; submit again then. To end them now: `pergpu "
        "coordinator stop --kill`",
        lost_, ::getpid());
  } else {
    trouble = find_earlier();
  }
  return std::exchange(trouble_, trouble) != trouble;
}

std::string HomeWatch::find_loss() {
  is_taken_ = false;
  if (!home_.is_there()) {
    is_taken_ = os::exists(parts_.home);
    return fmt::format("the home {} was {}", parts_.home,
                       is_taken_ ? "replaced by another folder" : "removed or moved away");
  }
  if (!store_.is_there()) {
    is_taken_ = os::exists(parts_.store);
    return fmt::format("the store {} was {}", parts_.store,
                       is_taken_ ? "replaced by another file" : "removed or moved away");
  }
  const std::string lock = parts_.home + "/coordinator.lock";
  if (os::leads_to(lock, parts_.lock->fd())) return {};
  Result<os::FileLock> again = os::FileLock::try_lock(lock, parts_.note);
  if (again) {
    *parts_.lock = *std::move(again);
    return {};
  }
  is_taken_ = is_succeeded_ = again.error().kind == ErrorKind::Busy;
  return fmt::format("the lock of the home was removed ({})", again.error().message);
}

std::string HomeWatch::find_earlier() {
  if (!may_have_earlier_) return {};
  std::vector<LivingKeeper> earlier = living_keepers(parts_.home);
  const std::string own = home_identity(parts_.home);
  std::erase_if(earlier, [&](const LivingKeeper& keeper) { return keeper.words.has_home_id(own); });
  may_have_earlier_ = !earlier.empty();
  if (earlier.empty()) return {};
  return fmt::format(
      "jobs of an earlier home at {}, which was removed or replaced, are still running: {}. They "
      "could be mistaken for jobs of this home: wait until they have ended, end them (`kill`), or "
      "set PERGPU_HOME to another folder",
      parts_.home, words_of(earlier));
}

bool HomeWatch::is_given_up() const {
  if (lost_.empty()) return false;
  return is_taken_ || parts_.clock->now().boot_ns >= lost_since_ns_ + kHomePatience;
}

}  // namespace pergpu
