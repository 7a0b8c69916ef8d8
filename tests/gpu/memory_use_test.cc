// How much GPU memory an attempt is said to use, and when nothing can be said.
#include "gpu/memory_use.h"

#include <gtest/gtest.h>

#include "gpu/foreign.h"
#include "job/schedule/gpu_limit.h"

namespace pergpu::gpu {
namespace {

constexpr std::uint64_t kGiB = 1024 * kMiB;

struct MemoryInUse : ::testing::Test {
  MemoryInUse() {
    question.gpu = "a";
    question.ours = [](const GpuProcess& process) { return process.pid < 100; };
    question.idle_bytes = [](const std::string&) { return kGiB; };
    look.complete = true;
    look.gpus = {{.uuid = "a", .used_bytes = 9 * kGiB}, {.uuid = "b", .used_bytes = 5 * kGiB}};
    look.gpus[0].processes = {{.pid = 1, .memory_bytes = 3 * kGiB},
                              {.pid = 2, .memory_bytes = 2 * kGiB},
                              {.pid = 100, .memory_bytes = 2 * kGiB}};
  }
  std::optional<std::uint64_t> in_use() const { return memory_in_use(look, question); }
  GpuLook look;
  MemoryQuestion question;
};

TEST_F(MemoryInUse, IsTheSumOfItsOwnProcesses) { EXPECT_EQ(in_use(), 5 * kGiB); }

TEST_F(MemoryInUse, IsThatOfTheGpuThatIsAskedAbout) {
  question.gpu = "b";
  look.gpus[1].processes = {{.pid = 1, .memory_bytes = kGiB}};
  EXPECT_EQ(in_use(), kGiB);
}

TEST_F(MemoryInUse, WhereTheDriverDoesNotTellProcessesEverythingAboveIdle) {
  look.gpus[0].processes[1].memory_bytes.reset();
  EXPECT_EQ(in_use(), 8 * kGiB);
  look.gpus[0].processes[1].memory_bytes = kGiB;
  look.in_container = true;
  EXPECT_EQ(in_use(), 8 * kGiB);
  question.has_outsiders = true;
  EXPECT_EQ(in_use(), std::nullopt) << "it may be theirs";
}

TEST_F(MemoryInUse, IsNotKnownFromALookThatFailed) {
  look.gpus[0].health = GpuHealth::Unknown;
  EXPECT_EQ(in_use(), std::nullopt);
  look.gpus[0].health = GpuHealth::Ok;
  question.gpu = "c";
  EXPECT_EQ(in_use(), std::nullopt);
  question.gpu = "a";
  look.complete = false;
  EXPECT_EQ(in_use(), std::nullopt);
}

TEST(EndedAbove, LeavesRoomForAContextAndASixteenth) {
  EXPECT_EQ(ended_above(kGiB), kGiB + 512 * kMiB);
  EXPECT_EQ(ended_above(64 * kGiB), 68 * kGiB);
}

}  // namespace
}  // namespace pergpu::gpu
