// What runs in a task just now, for those who look on from elsewhere: a file beside the records,
// replaced every few seconds while the task lives, and of no worth afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ids.h"
#include "job/usage.h"
#include "result.h"

namespace pergpu::store {

struct Present {
  AttemptId attempt = {};
  std::int64_t at_wall_ns = 0;  // when it was sent, by the clock of that machine
  std::string status = {};      // STATUS= of PERGPU_NOTIFY
  std::string progress = {};    // PROGRESS=
  UsageReading reading = {};    // without its time, which is of another machine's clock
  bool operator==(const Present&) const = default;
};

/// "now.3.json"
std::string present_name(std::int32_t task);
std::string to_text(const std::vector<Present>& present);
/// ErrorKind::Corrupt: it is something else.
Result<std::vector<Present>> present_of(std::string_view text);

}  // namespace pergpu::store
