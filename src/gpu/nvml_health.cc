// What NVML reports of a GPU's health: values by number, and critical errors (Xids) as events.  The
// driver keeps events from the registration on until they are taken, so no thread needs to wait for
// them.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "gpu/nvml.h"

namespace pergpu::gpu {
namespace {

struct FieldValue {
  std::uint32_t field = 0;
  std::uint32_t scope = 0;
  std::int64_t timestamp = 0;
  std::int64_t latency_us = 0;
  std::uint32_t type = 0;
  std::int32_t code = 0;
  std::uint64_t value = 0;  // a union: as wide as `type` says
};
struct EventData {
  NvmlDevice device = nullptr;
  std::uint64_t type = 0;
  std::uint64_t data = 0;
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);
static_assert(sizeof(EventData) == 32 && offsetof(EventData, data) == 16);

constexpr std::uint64_t kXidEvent = 0x8;
constexpr std::uint32_t kNoInstance = 0xffffffff;  // of the GPU, or it is not cut

// Numbers of values.
constexpr std::uint32_t kRetiredPending = 31;  // before Ampere: pages
constexpr std::uint32_t kRemapPending = 144;
constexpr std::uint32_t kRemapFailed = 145;
constexpr std::uint32_t kRecoveryAction = 230;

constexpr std::int32_t kNotFilledIn = -1;

/// The driver or the GPU has no such value, and will have none tomorrow.
bool is_not_offered(int code) {
  return code == nvml_code::kNotSupported || code == nvml_code::kInvalidArgument ||
         code == nvml_code::kFunctionNotFound || code == nvml_code::kNoPermission;
}

/// 0 where it is not offered; nullopt: asking failed.
std::optional<std::uint64_t> number_in(const FieldValue& field) {
  constexpr std::uint32_t kUnsignedInt = 1;
  constexpr std::uint32_t kSignedInt = 5;
  constexpr std::uint32_t kUnsignedShort = 6;
  constexpr std::uint32_t kDouble = 0;
  if (is_not_offered(field.code)) return 0;
  if (field.code != nvml_code::kSuccess || field.type == kDouble) return std::nullopt;
  if (field.type == kUnsignedShort) return field.value & 0xffffu;
  const bool is_int = field.type == kUnsignedInt || field.type == kSignedInt;
  return is_int ? field.value & 0xffffffffu : field.value;
}

std::optional<bool> flag_in(const FieldValue& field) {
  const std::optional<std::uint64_t> number = number_in(field);
  return number ? std::optional(*number != 0) : std::nullopt;
}

std::optional<bool> either(std::optional<bool> a, std::optional<bool> b) {
  if (a == true || b == true) return true;
  return a && b ? std::optional(false) : std::nullopt;
}

}  // namespace

NvmlHealth Nvml::health(NvmlDevice device) {
  std::array<FieldValue, 4> fields = {};
  fields[0].field = kRetiredPending;
  fields[1].field = kRemapPending;
  fields[2].field = kRemapFailed;
  fields[3].field = kRecoveryAction;
  const auto all_are = [&](std::int32_t code) {
    for (FieldValue& field : fields) field.code = code;
  };
  // A driver that fills none in must not pass for one that says "no".
  all_are(kNotFilledIn);
  // The last one is the newest: a driver that refuses it may know the others.
  const int count = static_cast<int>(fields.size());
  int code = nvml_code::kFunctionNotFound;
  if (call_.field_values != nullptr) code = call_.field_values(device, count, fields.data());
  if (code != nvml_code::kSuccess && call_.field_values != nullptr) {
    all_are(kNotFilledIn);
    fields[3].code = code;
    code = call_.field_values(device, count - 1, fields.data());
  }
  if (code != nvml_code::kSuccess) all_are(code);
  NvmlHealth health;
  health.repair_pending = either(flag_in(fields[0]), flag_in(fields[1]));
  health.repair_failed = flag_in(fields[2]);
  if (const auto action = number_in(fields[3])) health.recovery_action = static_cast<int>(*action);
  return health;
}

NvmlAnswer<NvmlEventSet> Nvml::watch_xids(NvmlDevice device) {
  if (call_.make_events == nullptr || call_.register_events == nullptr ||
      call_.wait_for_event == nullptr) {
    return {};
  }
  unsigned long long types = kXidEvent;
  if (call_.event_types != nullptr) {
    const int code = call_.event_types(device, &types);
    if (code != nvml_code::kSuccess) return {code, nullptr};
  }
  if ((types & kXidEvent) == 0) return {nvml_code::kNotSupported, nullptr};
  NvmlAnswer<NvmlEventSet> events;
  events.code = call_.make_events(&events.value);
  if (!events.ok()) return {events.code, nullptr};
  events.code = call_.register_events(device, kXidEvent, events.value);
  if (events.ok()) return events;
  unwatch(events.value);
  return {events.code, nullptr};
}

std::vector<NvmlXid> Nvml::take_xids(NvmlEventSet events) {
  std::vector<NvmlXid> xids;
  while (xids.size() < kMostXids) {
    EventData event;
    if (call_.wait_for_event(events, &event, 0) != nvml_code::kSuccess) break;
    if (event.type != kXidEvent) continue;
    NvmlXid& xid = xids.emplace_back(NvmlXid{.number = event.data});
    if (event.gpu_instance != kNoInstance) xid.gpu_instance = event.gpu_instance;
  }
  return xids;
}

void Nvml::unwatch(NvmlEventSet events) {
  if (call_.free_events != nullptr) call_.free_events(events);
}

}  // namespace pergpu::gpu
