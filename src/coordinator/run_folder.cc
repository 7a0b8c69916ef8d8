// Where the folder can't be made again (its parent is root's), all of it moves to <home>/run, and
// the home says so to clients.
#include "coordinator/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "os/ipc/socket_folder.h"
#include "os/process/paths.h"
#include "timers.h"

namespace pergpu {
namespace {

constexpr std::int64_t kWatchedLookPause =
    5 * kSecond;  // between looks where the kernel reports removals
constexpr std::int64_t kFolderLookPause = kSecond;  // where it doesn't, or something is missing

}  // namespace

RunFolder::RunFolder(Parts parts)
    : parts_(std::move(parts)), watch_(*parts_.loop, *parts_.clock, [this] { look(); }) {
  look_at(parts_.clock->now().boot_ns);
}

RunFolder::~RunFolder() {
  if (timer_ != 0) parts_.loop->cancel(timer_);
}

void RunFolder::look_at(std::int64_t boot_ns) {
  if (timer_ != 0) parts_.loop->cancel(timer_);
  timer_ = parts_.loop->at(boot_ns, [this] {
    timer_ = 0;
    look();
  });
}

void RunFolder::look() {
  const bool is_whole = parts_.has_home() && (parts_.is_whole() || restore());
  if (is_whole) {
    (void)os::remember_run_folder(parts_.home, parts_.path);  // others may have chosen meanwhile
    (void)os::socket_folder(parts_.path);                     // a link to it, if jobs need one
    parts_.tell_keepers(parts_.path);
  }
  const bool is_told = watch_.follow({parts_.home, parts_.path});
  look_at(parts_.clock->now().boot_ns +
          (is_whole && is_told ? kWatchedLookPause : kFolderLookPause));
}

bool RunFolder::restore() {
  if (restore_in(parts_.path)) return true;
  const std::string last = os::run_folder_in(parts_.home);
  return last != parts_.path && restore_in(last);
}

bool RunFolder::restore_in(const std::string& folder) {
  Result<void> made = os::private_folder(folder, ::getuid());
  if (made) made = parts_.restore(folder);
  if (made) {
    fmt::print(stderr, "pergpu: sockets in {} were removed; created new ones in {}\n", parts_.path,
               folder);
    parts_.path = folder;
    said_.clear();
    return true;
  }
  if (made.error().message != said_) {
    said_ = made.error().message;
    fmt::print(stderr, "pergpu: sockets in {} were removed; can't create new ones in {}: {}\n",
               parts_.path, folder, said_);
  }
  return false;
}

}  // namespace pergpu
