// "Said once" is remembered by a marker in the home, so that each command does not repeat it.
#include "cli/place.h"

#include <utility>

#include "os/file.h"
#include "os/paths.h"

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

}  // namespace pergpu::cli
