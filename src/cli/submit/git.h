// Which commit a folder is at.  Asked of git itself; a folder without git, or a git that does not
// answer in time, is no error.
#pragma once

#include <string>

namespace pergpu::cli {

struct GitState {
  std::string commit = {};  // "" unknown
  bool dirty = false;       // tracked files differ from it
};

GitState git_state_of(const std::string& folder);

}  // namespace pergpu::cli
