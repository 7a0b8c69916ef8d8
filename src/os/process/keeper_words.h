// Which processes are keepers, and whose: by the words that they were started with.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace pergpu::os {

struct KeeperWords {
  std::int64_t number = 0;
  std::string run_folder = {};  // where its sockets were at its start; they may have moved since
  std::string home = {};
  std::string home_id = {};  // distinguishes the home from a later one of its path; "": not known

  /// Its home has, or leads to, this path.
  bool has_home(const std::string& path) const;
  /// Its home is, or may be, the folder of this identity ("": not known).
  bool has_home_id(const std::string& id) const;
};

/// nullopt: it is no keeper, or it can't be seen.
std::optional<KeeperWords> keeper_words(pid_t pid);

}  // namespace pergpu::os
