// What the coordinator and the probe say to each other: JSON lines.
//   request   {"id":7,"op":"look","skip":[2],"stay":true}
//             {"id":7,"op":"rest","stay":false}   no look and no reply, only the word about staying
//             {"id":7,"op":"usage","skip":[2],"stay":true,"trees":[[pid,start]…],"gpus":[UUIDs]}
//   progress  {"id":7,"at":"gpu","index":3}        "at": "load", "init" or "gpu"; before each of
//   them
//             {"id":7,"at":"xids","xids":[…]}      errors, sent before a GPU is touched
//   reply     {"id":7,"look":{…}}                  the fields of GpuLook
//             {"id":7,"usage":{…}}                 the fields of UsageAnswer
// skip: GPUs (NVML indices) that are not touched.  stay: do not leave for want of requests.  One
// look and one reading of usage may be under way, answered in order.  The probe leaves when its
// input ends.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "gpu/inventory.h"
#include "result.h"

namespace pergpu::gpu {

struct ProbeRequest {
  std::int64_t id = 0;
  std::set<int> skip = {};
  bool stay = false;
  bool rest = false;                                  // no look: only whether it is to stay
  std::optional<UsageQuestion> usage = std::nullopt;  // this instead of a look
  bool operator==(const ProbeRequest&) const = default;
};

struct ProbeProgress {
  std::int64_t id = 0;
  std::string at = {};
  int index = -1;
  std::vector<GpuXid> xids = {};
  bool operator==(const ProbeProgress&) const = default;
};

struct ProbeReply {
  std::int64_t id = 0;
  GpuLook look = {};
};

struct ProbeUsage {
  std::int64_t id = 0;
  UsageAnswer usage = {};
};

using ProbeAnswer = std::variant<ProbeProgress, ProbeReply, ProbeUsage>;

/// No longer line is accepted from a probe.
constexpr std::size_t kMaxReplyBytes = 8u << 20;

// One line each, without the newline.
std::string to_line(const ProbeRequest& request);
std::string to_line(const ProbeProgress& progress);
std::string to_line(const ProbeReply& reply);
std::string to_line(const ProbeUsage& usage);

Result<ProbeRequest> parse_request(std::string_view line);
Result<ProbeAnswer> parse_answer(std::string_view line);

}  // namespace pergpu::gpu
