// What is new in the folder of a handover since it was looked at last.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "slurm/array_call.h"
#include "store/present.h"
#include "store/records.h"

namespace pergpu {

/// Of a life that has reported all there is.
inline constexpr std::int32_t kAllParts = std::numeric_limits<std::int32_t>::max();

struct WatchedHandover {
  std::string key = {};
  std::string folder = {};
  std::string home = {};  // of the sweeps: there while its file system is
  bool is_step = false;   // of an allocation: its only task is 0
  std::map<std::int32_t, store::RecordName> read = {};  // of open tasks: up to where
};

struct HandoverNews {
  std::string key = {};
  std::string unread = {};                          // why not all of it could be read
  std::optional<std::string> owner = std::nullopt;  // as its folder says
  ClosedTasks closed = {};
  bool is_silent = false;  // a step of which not even srun has said a word
  std::vector<std::pair<std::int32_t, std::vector<store::Present>>> present = {};  // by task
  std::vector<store::Life> lives = {};
};

/// `sees`: what runs is read, too.  Blocks.
HandoverNews news_of(const WatchedHandover& handover, bool sees);

}  // namespace pergpu
