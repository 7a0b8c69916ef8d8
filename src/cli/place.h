// Where this user's coordinator lives on this machine.
#pragma once

#include <string>

#include "coordinator/snapshot.h"
#include "result.h"

namespace pergpu::cli {

struct Place {
  std::string home = {};     // the state
  std::string run_dir = {};  // sockets
  std::string said = {};     // not empty: why the home is not the usual one; to be said once

  std::string socket() const { return coordinator_socket(run_dir); }
  std::string log() const { return home + "/coordinator.log"; }
};

/// By os/paths.h.  Every failure here means that no coordinator can be reached (exit 3).
Result<Place> find_place();

}  // namespace pergpu::cli
