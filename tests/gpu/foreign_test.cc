// The verdict about who uses a GPU (gpu/foreign.h).
#include "gpu/foreign.h"

#include <gtest/gtest.h>

namespace pergpu::gpu {
namespace {

constexpr std::uint64_t kIdle = 10 * kMiB;

GpuReading idle_gpu() {
  GpuReading reading;
  reading.uuid = "GPU-a";
  reading.total_bytes = 80 * 1024 * kMiB;
  reading.used_bytes = kIdle;
  return reading;
}

GpuProcess process(std::int32_t pid, std::uint64_t bytes = 1024 * kMiB) {
  return {.pid = pid, .memory_bytes = bytes, .uid = 1001, .command = "python3"};
}

UseQuestion question() {
  UseQuestion q;
  q.idle_bytes = kIdle;
  q.ours = [](const GpuProcess& p) { return descends_from(p, {100}); };
  q.user_name = [](std::uint32_t uid) { return uid == 1001 ? "alice" : "somebody"; };
  return q;
}

TEST(Judge, IdleGpuIsFree) {
  const UseVerdict verdict = judge(idle_gpu(), question());
  EXPECT_EQ(verdict.use, GpuUse::Free);
  EXPECT_TRUE(verdict.startable());
  EXPECT_EQ(verdict.words, "");
}

TEST(Judge, ForeignComputeProcessIsNamed) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(4711, 21811 * kMiB), process(4712)};
  const UseVerdict verdict = judge(reading, question());
  EXPECT_EQ(verdict.use, GpuUse::Foreign);
  EXPECT_FALSE(verdict.startable());
  EXPECT_EQ(verdict.words, "used by alice (python3, pid 4711, 21.3 GiB) and 1 more");
  ASSERT_EQ(verdict.holders.size(), 2u);
}

TEST(Judge, ForeignProcessWithoutAnyMemoryStillCounts) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(4711, 0)};
  EXPECT_EQ(judge(reading, question()).use, GpuUse::Foreign);
}

TEST(Judge, ProcessOfAnInvisibleUserIsForeign) {
  GpuReading reading = idle_gpu();
  reading.processes = {{.pid = 4711}};
  const UseVerdict verdict = judge(reading, question());
  EXPECT_EQ(verdict.use, GpuUse::Foreign);
  EXPECT_EQ(verdict.words, "used by another user (pid 4711)");
}

TEST(Judge, GraphicsOnlyProcessesAndTheirMemoryDoNotCount) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(50, 3000 * kMiB)};
  reading.processes[0].compute = false;
  reading.used_bytes = kIdle + 3000 * kMiB;
  EXPECT_EQ(judge(reading, question()).use, GpuUse::Free);
  reading.processes[0].memory_bytes.reset();
  EXPECT_EQ(judge(reading, question()).use, GpuUse::Free) << "size not told: it may be all of it";
}

TEST(Judge, MemoryWithoutAnyProcessIsAnUnknownHolderAbove500MiB) {
  GpuReading reading = idle_gpu();
  reading.used_bytes = kIdle + 500 * kMiB;
  EXPECT_EQ(judge(reading, question()).use, GpuUse::Free);
  reading.used_bytes += kMiB;
  const UseVerdict verdict = judge(reading, question());
  EXPECT_EQ(verdict.use, GpuUse::UnknownHolder);
  EXPECT_EQ(verdict.words, "501 MiB above idle in use, but by no known process");
}

TEST(Judge, HolderOfTheDeviceFileIsNamedForUnexplainedMemory) {
  GpuReading reading = idle_gpu();
  reading.used_bytes = kIdle + 2048 * kMiB;
  reading.device_holders = {{.pid = 77, .uid = 1001, .command = "pt_data_worker"}};
  const UseVerdict verdict = judge(reading, question());
  EXPECT_EQ(verdict.use, GpuUse::UnknownHolder);
  EXPECT_EQ(verdict.words,
            "2.0 GiB above idle in use; its device file is open in pt_data_worker, pid 77");
}

TEST(Judge, WhoKeepsTheDeviceOfAProgramThatHasEndedIsNamed) {
  GpuReading reading = idle_gpu();
  reading.processes = {{.pid = 4711, .memory_bytes = 2048 * kMiB, .matched = false}};
  EXPECT_EQ(judge(reading, question()).words,
            "used by a process that isn't visible here (pid 4711, 2.0 GiB)");
  reading.device_holders = {{.pid = 4720, .uid = 1001, .command = "python3"}};
  const UseVerdict verdict = judge(reading, question());
  EXPECT_EQ(verdict.use, GpuUse::UnknownHolder);
  EXPECT_EQ(verdict.words,
            "used by a process that has ended (pid 4711, 2.0 GiB); its device file is open in "
            "python3, pid 4720");
}

TEST(Judge, UnmatchedPidInAContainerIsAnUnknownHolder) {
  GpuReading reading = idle_gpu();
  reading.processes = {{.pid = 4711, .matched = false}};
  UseQuestion q = question();
  q.in_container = true;
  const UseVerdict verdict = judge(reading, q);
  EXPECT_EQ(verdict.use, GpuUse::UnknownHolder);
  EXPECT_EQ(verdict.words,
            "used by a process that isn't visible in this container (host pid 4711)");
}

TEST(Judge, HostPidThatHappensToBeOursInAContainerIsNotBelieved) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(100)};
  UseQuestion q = question();
  q.in_container = true;
  EXPECT_EQ(judge(reading, q).use, GpuUse::UnknownHolder);
}

TEST(Judge, BesideOthersThereHasToBeRoom) {
  GpuReading reading = idle_gpu();
  reading.total_bytes = 80 * 1024 * kMiB;
  reading.processes = {process(4711, 50 * 1024 * kMiB)};
  reading.used_bytes = kIdle + 50 * 1024 * kMiB;
  UseQuestion q = question();
  q.outsiders = Outsiders::Fit;
  q.needed_bytes = 30 * 1024 * kMiB - kIdle;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Free);
  q.needed_bytes += 1;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Foreign);
  reading.processes[0].matched = false;
  EXPECT_EQ(judge(reading, q).use, GpuUse::UnknownHolder);
  q.needed_bytes -= 1;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Free);
  reading.total_bytes = 0;
  EXPECT_NE(judge(reading, q).use, GpuUse::Free) << "how much there is is not known";
}

TEST(Judge, WhatAJobLeftIsNoOutsider) {
  GpuReading reading = idle_gpu();
  reading.total_bytes = 80 * 1024 * kMiB;
  reading.used_bytes = kIdle + 2048 * kMiB;
  UseQuestion q = question();
  q.outsiders = Outsiders::Fit;
  q.needed_bytes = 1024 * kMiB;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Free);
  q.after_job = true;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Dirty);
}

TEST(Judge, LaneWithARunningAttemptIsOurs) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(200)};
  reading.processes[0].ancestors = {150, 100};
  reading.used_bytes = 40 * 1024 * kMiB;
  UseQuestion q = question();
  q.running_ours = true;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Ours);
  reading.processes = {{.pid = 4711, .matched = false}};
  q.in_container = true;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Ours) << "nobody can tell otherwise";
}

TEST(Judge, StrangerBesideOurAttemptIsShown) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(100), process(4711)};
  UseQuestion q = question();
  q.running_ours = true;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Foreign);
}

TEST(Judge, JobOfAnotherLaneClosesAnIdleOne) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(100)};
  const UseVerdict verdict = judge(reading, question());
  EXPECT_EQ(verdict.use, GpuUse::Ours);
  EXPECT_FALSE(verdict.startable());
}

TEST(JudgeAfterJob, CleanWhenMemoryIsBackWithin300MiB) {
  GpuReading reading = idle_gpu();
  UseQuestion q = question();
  q.after_job = true;
  reading.used_bytes = kIdle + 300 * kMiB;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Free);
  reading.used_bytes += kMiB;
  const UseVerdict verdict = judge(reading, q);
  EXPECT_EQ(verdict.use, GpuUse::Dirty);
  EXPECT_EQ(verdict.words, "301 MiB above idle still in use after a job, but by no known process");
}

TEST(JudgeAfterJob, ProcessOfOursThatIsLeftIsDirty) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(200)};
  reading.processes[0].ancestors = {100};
  UseQuestion q = question();
  q.after_job = true;
  const UseVerdict verdict = judge(reading, q);
  EXPECT_EQ(verdict.use, GpuUse::Dirty);
  EXPECT_EQ(verdict.words,
            "processes of an ended job are still running: python3, pid 200, 1.0 GiB");
}

TEST(JudgeAfterJob, OrphanOfOursThatNvmlDoesNotListIsDirty) {
  GpuReading reading = idle_gpu();
  reading.device_holders = {{.pid = 300, .command = "pt_data_worker", .ancestors = {100}}};
  UseQuestion q = question();
  q.after_job = true;
  const UseVerdict verdict = judge(reading, q);
  EXPECT_EQ(verdict.use, GpuUse::Dirty);
  ASSERT_EQ(verdict.holders.size(), 1u);
  EXPECT_EQ(verdict.holders[0].pid, 300);
}

TEST(JudgeAfterJob, PidThatMeansNothingAnyMoreIsDirtNotAStranger) {
  GpuReading reading = idle_gpu();
  reading.processes = {{.pid = 4711, .matched = false}};
  UseQuestion q = question();
  q.after_job = true;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Dirty);
}

TEST(JudgeIgnoringOutsiders, StrangersAndTheirMemoryAreSkipped) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(4711), {.pid = 4712, .matched = false}};
  reading.used_bytes = 60 * 1024 * kMiB;
  UseQuestion q = question();
  q.outsiders = Outsiders::Ignore;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Free);
  reading.processes.clear();
  EXPECT_EQ(judge(reading, q).use, GpuUse::Free);
}

TEST(JudgeIgnoringOutsiders, OurOwnRemainsAreNot) {
  GpuReading reading = idle_gpu();
  reading.processes = {process(4711), process(100)};
  UseQuestion q = question();
  q.outsiders = Outsiders::Ignore;
  q.after_job = true;
  EXPECT_EQ(judge(reading, q).use, GpuUse::Dirty);
}

TEST(Judge, NothingStartsOnAGpuThatIsNotHealthy) {
  for (const GpuHealth health : {GpuHealth::Unknown, GpuHealth::Lost, GpuHealth::Error}) {
    GpuReading reading = idle_gpu();
    reading.health = health;
    reading.note = "the words of the driver";
    UseQuestion q = question();
    q.outsiders = Outsiders::Ignore;
    const UseVerdict verdict = judge(reading, q);
    EXPECT_EQ(verdict.use, GpuUse::Unusable);
    EXPECT_EQ(verdict.words, "the words of the driver");
    reading.note = "";
    EXPECT_NE(judge(reading, q).words, "");
  }
}

TEST(IdleMemory, LearnsTheLowestReadingWithoutAComputeProcess) {
  IdleMemory idle;
  EXPECT_FALSE(idle.of("GPU-a"));
  GpuReading reading = idle_gpu();
  reading.used_bytes = 400 * kMiB;
  idle.learn(reading);
  EXPECT_EQ(idle.of("GPU-a"), 400 * kMiB);
  reading.used_bytes = 900 * kMiB;
  idle.learn(reading);
  EXPECT_EQ(idle.of("GPU-a"), 400 * kMiB);
  reading.used_bytes = 3 * kMiB;
  idle.learn(reading);
  EXPECT_EQ(idle.of("GPU-a"), 3 * kMiB);
  reading.used_bytes = 1 * kMiB;
  reading.processes = {process(4711)};
  idle.learn(reading);
  EXPECT_EQ(idle.of("GPU-a"), 3 * kMiB);
}

TEST(IdleMemory, GpuInUseAtTheFirstLookDoesNotCountAsIdle) {
  IdleMemory idle;
  GpuReading reading = idle_gpu();
  reading.used_bytes = 20 * 1024 * kMiB;  // a container's neighbour, say
  idle.learn(reading);
  UseQuestion q = question();
  q.idle_bytes = idle.of("GPU-a");
  EXPECT_EQ(judge(reading, q).use, GpuUse::UnknownHolder);
}

TEST(IdleMemory, FailedReadingTeachesNothing) {
  IdleMemory idle;
  GpuReading reading = idle_gpu();
  reading.health = GpuHealth::Unknown;
  reading.used_bytes = 0;
  idle.learn(reading);
  EXPECT_FALSE(idle.of("GPU-a"));
}

TEST(GpuUse, EveryVerdictHasAName) {
  for (const GpuUse use : {GpuUse::Free, GpuUse::Ours, GpuUse::Foreign, GpuUse::UnknownHolder,
                           GpuUse::Dirty, GpuUse::Unusable}) {
    EXPECT_NE(to_string(use), "unknown");
  }
}

TEST(BytesInWords, ChangesUnitAtOneGiB) {
  EXPECT_EQ(bytes_in_words(0), "0 MiB");
  EXPECT_EQ(bytes_in_words(1023 * kMiB), "1023 MiB");
  EXPECT_EQ(bytes_in_words(1536 * kMiB), "1.5 GiB");
}

}  // namespace
}  // namespace pergpu::gpu
