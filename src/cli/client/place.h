// Where this user's coordinator lives on this machine.
#pragma once

#include <string>

#include "api/snapshot.h"
#include "result.h"

namespace pergpu::cli {

struct Place {
  std::string home = {};     // the state
  std::string run_dir = {};  // sockets
  std::string said = {};     // not empty: why the home is not the usual one; to be said once

  std::string socket() const { return coordinator_socket(run_dir); }
  std::string log() const { return home + "/coordinator.log"; }
};

/// With the folder in which there is a socket now: a coordinator whose sockets were removed may
/// have made them elsewhere.
Place found_again(const Place& place);

/// A process that can be seen from here has the home's lock.
bool is_served(const Place& place);

/// By os/process/paths.h.  Every failure here means that no coordinator can be reached (exit 3).
Result<Place> find_place();

}  // namespace pergpu::cli
