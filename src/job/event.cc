// Names of events, stop causes and lanes.  Event names and stop causes are in the journal: never
// renamed.
#include "job/event.h"

#include "job/gpu_slot.h"
#include "job/names.h"
#include "result.h"

namespace pergpu {

std::string to_string(LaneId id) {
  const std::string slot = std::to_string(id.slot);
  switch (id.pool) {
    case LaneId::Pool::Gpu:
      return "gpu" + to_string(place_of(id.slot)) +
             (id.part > 0 ? "." + std::to_string(id.part) : "");
    case LaneId::Pool::Cpu:
      return "cpu" + slot;
    case LaneId::Pool::Sweep:
      return "lane" + slot;
  }
  return "?" + slot;
}

std::vector<LaneId> lanes_of(const Placement& placement) {
  if (placement.lane.pool != LaneId::Pool::Gpu || placement.slots.empty()) {
    return {placement.lane};
  }
  std::vector<LaneId> lanes;
  for (const std::int32_t slot : placement.slots) {
    lanes.push_back({.pool = LaneId::Pool::Gpu, .slot = slot});
  }
  return lanes;
}

std::vector<std::string> lane_names(const Placement& placement) {
  std::vector<std::string> names;
  for (const LaneId& lane : lanes_of(placement)) names.push_back(to_string(lane));
  return names;
}

std::string lane_words(const Placement& placement) {
  std::string words;
  const std::vector<std::string> names = lane_names(placement);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) words += i + 1 == names.size() ? " and " : ", ";
    words += names[i];
  }
  return words;
}

std::string_view to_string(StopCause c) {
  switch (c) {
    case StopCause::Cancel:
      return "cancel";
    case StopCause::Timeout:
      return "timeout";
    case StopCause::Memory:
      return "memory";
    case StopCause::Idle:
      return "idle";
    case StopCause::Stall:
      return "stall";
    case StopCause::GpuMemory:
      return "gpu-memory";
  }
  return "?";
}

std::optional<StopCause> stop_cause_of(std::string_view name) {
  static constexpr StopCause kAll[] = {StopCause::Cancel, StopCause::Timeout, StopCause::Memory,
                                       StopCause::Idle,   StopCause::Stall,   StopCause::GpuMemory};
  return enumerator_of(name, kAll);
}

std::string_view to_string(HoldCause c) {
  switch (c) {
    case HoldCause::Other:
      return "other";
    case HoldCause::Breaker:
      return "breaker";
  }
  return "?";
}

std::optional<HoldCause> hold_cause_of(std::string_view name) {
  static constexpr HoldCause kAll[] = {HoldCause::Other, HoldCause::Breaker};
  return enumerator_of(name, kAll);
}

std::string_view event_name(const JobEvent& e) {
  return std::visit(
      Overloaded{[](const event::Submitted&) -> std::string_view { return "submitted"; },
                 [](const event::Requeued&) -> std::string_view { return "requeued"; },
                 [](const event::Held&) -> std::string_view { return "held"; },
                 [](const event::Starting&) -> std::string_view { return "starting"; },
                 [](const event::Started&) -> std::string_view { return "started"; },
                 [](const event::Stopping&) -> std::string_view { return "stopping"; },
                 [](const event::Ended&) -> std::string_view { return "ended"; },
                 [](const event::Cancelled&) -> std::string_view { return "cancelled"; },
                 [](const event::Skipped&) -> std::string_view { return "skipped"; },
                 [](const event::Folded&) -> std::string_view { return "folded"; }},
      e);
}

}  // namespace pergpu
