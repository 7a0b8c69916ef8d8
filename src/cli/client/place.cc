// "Said once" is remembered by a marker in the home, so that each command does not repeat it.
#include "cli/client/place.h"

#include <sys/stat.h>

#include <utility>

#include "os/fs/file.h"
#include "os/fs/lock.h"
#include "os/process/paths.h"

namespace pergpu::cli {
namespace {

Error unreachable(Error why) {
  why.kind = ErrorKind::Unavailable;
  return why;
}

}  // namespace

Result<Place> find_place() {
  Result<os::Home> home = os::find_home();
  if (!home) return unreachable(std::move(home).error());
  Result<std::string> run_dir = os::run_folder(*home);
  if (!run_dir) return unreachable(std::move(run_dir).error());
  Place place{.home = home->path, .run_dir = *run_dir};
  const std::string marker = home->path + "/home-was-explained";
  if (!home->why_elsewhere.empty() && !os::exists(marker)) {
    const Result<void> written = os::write_file_atomic(marker, "", 0600, false);
    if (written) place.said = home->why_elsewhere;
  }
  return place;
}

bool is_served(const Place& place) {
  struct stat lock = {};
  return ::stat((place.home + "/coordinator.lock").c_str(), &lock) == 0 &&
         os::lock_holder(lock) != 0;
}

Place found_again(const Place& place) {
  if (os::exists(place.socket())) return place;
  const Result<std::string> remembered = os::remembered_run_folder(place.home);
  for (const std::string& folder :
       {remembered ? *remembered : std::string(), os::run_folder_in(place.home)}) {
    Place found = place;
    found.run_dir = folder;
    if (!folder.empty() && os::exists(found.socket())) return found;
  }
  return place;
}

}  // namespace pergpu::cli
