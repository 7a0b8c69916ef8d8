// Names are on the wire and in the store: each can be read back, and none changes.
#include <gtest/gtest.h>

#include <set>

#include "job/builders.h"
#include "job/event.h"
#include "job/gpu_slot.h"
#include "job/outcome.h"
#include "job/state.h"

namespace pergpu {
namespace {

TEST(Names, OfStatesAreRead) {
  std::set<std::string_view> names;
  for (JobState s : testing_jobs::kAllStates) {
    EXPECT_EQ(job_state_of(to_string(s)), s);
    names.insert(to_string(s));
  }
  EXPECT_EQ(names.size(), std::size(testing_jobs::kAllStates));
  EXPECT_EQ(job_state_of("sleeping"), std::nullopt);
}

TEST(Names, OfOutcomeClassesAreThoseOfTheDocumentation) {
  const std::pair<OutcomeClass, std::string_view> expected[] = {
      {OutcomeClass::Ok, "ok"},
      {OutcomeClass::UserError, "user-error"},
      {OutcomeClass::Exit, "exit"},
      {OutcomeClass::Signal, "signal"},
      {OutcomeClass::OomHost, "oom-host"},
      {OutcomeClass::OomGpu, "oom-gpu"},
      {OutcomeClass::GpuMemory, "gpu-memory"},
      {OutcomeClass::Hardware, "hardware"},
      {OutcomeClass::Driver, "driver"},
      {OutcomeClass::Neighbour, "neighbour"},
      {OutcomeClass::DiskFull, "disk-full"},
      {OutcomeClass::OutputMissing, "output-missing"},
      {OutcomeClass::Stall, "stall"},
      {OutcomeClass::Timeout, "timeout"},
      {OutcomeClass::Lost, "lost"},
      {OutcomeClass::Unknown, "unknown"},
      {OutcomeClass::Requeue, "requeue"},
      {OutcomeClass::Cancelled, "cancelled"}};
  for (const auto& [cls, name] : expected) {
    EXPECT_EQ(to_string(cls), name);
    EXPECT_EQ(outcome_class_of(name), cls);
  }
  EXPECT_EQ(outcome_class_of(""), std::nullopt);
}

TEST(Names, OfGpuLanesTellTheInstanceAndThePart) {
  const auto name = [](GpuPlace place, std::int32_t part = 0) {
    const std::int32_t slot = slot_of(place);
    EXPECT_EQ(place_of(slot), place);
    return to_string(LaneId{.pool = LaneId::Pool::Gpu, .slot = slot, .part = part});
  };
  EXPECT_EQ(name({.gpu = 0}), "gpu0");
  EXPECT_EQ(name({.gpu = 63}), "gpu63");
  EXPECT_EQ(name({.gpu = 0, .instance = 0}), "gpu0:0");
  EXPECT_EQ(name({.gpu = 63, .instance = 31}), "gpu63:31");
  EXPECT_EQ(name({.gpu = 7, .instance = 6}, 2), "gpu7:6.2");
}

TEST(Names, OfStopCausesAreRead) {
  for (StopCause c : {StopCause::Cancel, StopCause::Timeout, StopCause::Memory, StopCause::Idle,
                      StopCause::Stall, StopCause::GpuMemory}) {
    EXPECT_EQ(stop_cause_of(to_string(c)), c);
  }
}

TEST(Names, OfLanes) {
  EXPECT_EQ(to_string(LaneId{.pool = LaneId::Pool::Gpu, .slot = 0}), "gpu0");
  EXPECT_EQ(to_string(LaneId{.pool = LaneId::Pool::Cpu, .slot = 3}), "cpu3");
  EXPECT_EQ(to_string(LaneId{.pool = LaneId::Pool::Sweep, .sweep = {4}, .slot = 5}), "lane5");
}

TEST(States, AreQueuedOrHeldOrLiveOrEnded) {
  for (JobState s : testing_jobs::kAllStates) {
    const bool waits = s == JobState::Queued || s == JobState::Held;
    EXPECT_EQ(int{waits} + int{is_live(s)} + int{is_ended(s)}, 1) << to_string(s);
  }
}

}  // namespace
}  // namespace pergpu
