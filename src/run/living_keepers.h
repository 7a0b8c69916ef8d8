// Keepers that live, by /proc: for when their sockets can't be found.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ids.h"
#include "os/process/keeper_words.h"

namespace pergpu {

struct LivingKeeper {
  KeeperId id = {};
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  os::KeeperWords words = {};  // home_id: home_identity() at its start
};

/// This user's whose home has this path, as far as they can be seen from here.  Reads all of /proc.
std::vector<LivingKeeper> living_keepers(const std::string& home);

/// Distinguishes a folder from others that have, or get, its path: "DEVICE:INODE"; "": there is
/// none.
std::string home_identity(const std::string& home);

/// "job 3 (process 4711)" of each attempt that these have, for people; of one without an attempt
/// "keeper process 4711".
std::string words_of(const std::vector<LivingKeeper>& keepers);

}  // namespace pergpu
