// What `gpus = "auto"` makes of what was seen.
#include "job/schedule/gpu_need.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "job/gpu_parts.h"
#include "job/schedule/schedule.h"

namespace pergpu {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr GpuRoom kRoom = {.bytes = 80 * kGiB, .cores = 8};

Demand automatic() { return {.pool = LaneId::Pool::Gpu, .gpus = 1, .is_auto = true}; }

Demand fitted(const GpuNeed& need, const GpuRoom& room = kRoom) {
  Demand demand = automatic();
  fit(demand, &need, room);
  return demand;
}
GpuNeed measured(std::uint64_t bytes, double busy, double cores = 0) {
  return {.bytes = bytes, .busy = busy, .measured = 1, .cores = cores};
}

TEST(GpuNeed, WithoutItAJobHasAGpuAlone) {
  Demand demand = automatic();
  fit(demand, nullptr, kRoom);
  EXPECT_EQ(demand.share, kWholeGpu);
  EXPECT_EQ(fitted({.bytes = kGiB}).share, kWholeGpu) << "how busy it is is not known";
  EXPECT_EQ(fitted(measured(0, 0.1)).share, kWholeGpu) << "nor how much memory it has";
  EXPECT_EQ(fitted(measured(kGiB, 0.1), {.cores = 8}).share, kWholeGpu);
  EXPECT_EQ(fitted(measured(80 * kGiB, 0.1)).share, kWholeGpu) << "nothing is left beside it";
  EXPECT_EQ(fitted(measured(80 * kGiB, 0.1)).promise_bytes, 0u) << "nor is it held to anything";
}

TEST(GpuNeed, MemoryTimeAndCoresEachSayHowManyFit) {
  EXPECT_EQ(fitted(measured(19 * kGiB, 0.01)).share, 245) << "19.6 of 80 GiB";
  EXPECT_EQ(fitted(measured(kGiB, 0.3)).share, 250) << "3 are busy for 0.9";
  EXPECT_EQ(fitted(measured(kGiB, 0.95)).share, kWholeGpu);
  EXPECT_EQ(fitted(measured(kGiB, 0.01, 2)).share, 250);
}

TEST(GpuNeed, PromisesWhatItsLikeHadAndAMarginOrWhatTheStepSays) {
  Demand demand = fitted(measured(32 * kGiB, 0.1));
  EXPECT_EQ(promised_to(demand, 80 * kGiB), 33 * kGiB);
  EXPECT_EQ(promised_to(demand, 24 * kGiB), 24 * kGiB) << "all of a smaller one";
  EXPECT_EQ(promise_of(kGiB), kGiB + (256u << 20));
  demand.most_gpu_memory = 80 * kGiB;
  EXPECT_EQ(promised_to(grown(demand, {.gpu_memory = 1}), 80 * kGiB), 66 * kGiB);
  EXPECT_EQ(promised_to(grown(demand, {.gpu_memory = 2}), 80 * kGiB), 80 * kGiB);

  Demand declared = automatic();
  declared.gpu_memory_bytes = 16 * kGiB;
  const GpuNeed need = measured(4 * kGiB, 0.01);
  fit(declared, &need, kRoom);
  EXPECT_EQ(promised_to(declared, 80 * kGiB), 17 * kGiB);
  EXPECT_EQ(declared.share, 213);
}

TEST(GpuNeed, OfSeveralIsTheirMostMemoryAndTheirMeanTime) {
  GpuNeed need = measured(4 * kGiB, 0.2);
  need.add(measured(3 * kGiB, 0.4, 1));
  need.add({.bytes = 6 * kGiB});
  EXPECT_EQ(need.bytes, 6 * kGiB);
  EXPECT_NEAR(need.busy, 0.3, 1e-9);
  EXPECT_EQ(need.measured, 2);
  EXPECT_EQ(need.cores, 1);
  for (int i = 0; i < 1000; ++i) need.add(measured(kGiB, 0.8));
  EXPECT_NEAR(need.busy, 0.8, 0.01) << "what was long ago is forgotten";
}

/// Processes take turns: what so many of them get done together, of what one alone does.
double throughput(int jobs, double busy) { return std::min<double>(jobs, 1 / busy); }

RC_GTEST_PROP(GpuNeedProperty, TimeIsFilledUpToTheLastTwentieth, (std::uint16_t raw)) {
  const double busy = (raw % 1000 + 32) / 1032.0;  // at most 31 have room
  const int jobs = kWholeGpu / fitted(measured(kGiB, busy)).share;
  RC_ASSERT(throughput(jobs, busy) >= 0.95 / busy - 1e-9);
  RC_ASSERT(jobs == 1 || throughput(jobs - 1, busy) < 0.95 / busy);
}

RC_GTEST_PROP(GpuNeedProperty, MemoryIsNeverPromisedTwice, (std::uint32_t raw)) {
  const Demand demand = fitted(measured(raw % (80 * 1024) * (1ull << 20), 0.001));
  const auto jobs = static_cast<std::uint64_t>(kWholeGpu / demand.share);
  RC_ASSERT(jobs * promised_to(demand, kRoom.bytes) <= kRoom.bytes);
}

/// A look each second, from the first one in `from` to before `to`, with a reading each.
void look(GpuTrial& trial, int from, int to, std::uint64_t bytes, double busy) {
  for (int s = from; s < to; ++s) {
    trial.saw(s * kSecond + 1, bytes, GpuTrial::Busy{busy, s * kSecond + 1});
  }
}

TEST(GpuTrial, IsSettledWhenItsMemoryHasNotRisenForHalfOfItsTime) {
  GpuTrial trial;
  look(trial, 1, 30, kGiB, 0);
  EXPECT_FALSE(trial.is_settled()) << "it loads data";
  look(trial, 30, 38, 10 * kGiB, 0.5);
  EXPECT_FALSE(trial.is_settled()) << "seen for 8 s";
  look(trial, 38, 45, 12 * kGiB, 0.5);
  EXPECT_FALSE(trial.is_settled()) << "it rose 6 s ago, 8 s after it began";
  look(trial, 45, 48, 12 * kGiB - kGiB / 2, 0.5);
  EXPECT_TRUE(trial.is_settled());
  EXPECT_EQ(trial.need(), measured(12 * kGiB, 0.5));
}

TEST(GpuTrial, SlowRiseIsARise) {
  GpuTrial trial;
  std::uint64_t bytes = 10 * kGiB;
  for (int s = 1; s < 60; ++s) {
    look(trial, s, s + 1, bytes, 0.5);
    bytes += bytes / 150;
  }
  EXPECT_FALSE(trial.is_settled());
}

TEST(GpuTrial, HowBusyItIsTakesThreeReadings) {
  GpuTrial trial;
  look(trial, 1, 3, kGiB, 0.5);
  for (int s = 3; s < 30; ++s) trial.saw(s * kSecond, kGiB, GpuTrial::Busy{0.5, 2 * kSecond + 1});
  EXPECT_EQ(trial.need(), GpuNeed{.bytes = kGiB}) << "the same one again is none";
  EXPECT_FALSE(trial.is_settled());
  look(trial, 30, 31, kGiB, 0.8);
  EXPECT_EQ(trial.need(), measured(kGiB, 0.6));
}

TEST(GpuTrial, BesideOthersItTellsOfMemoryOnly) {
  GpuTrial trial;
  for (int s = 0; s < 30; ++s) trial.saw(s * kSecond + 1, kGiB, std::nullopt);
  EXPECT_FALSE(trial.is_settled());
  EXPECT_EQ(trial.need(), GpuNeed{.bytes = kGiB});
}

TEST(GpuNeed, WithMpsTwiceAsManyFitInTime) {
  Demand demand{.pool = LaneId::Pool::Gpu, .gpus = 1, .is_auto = true};
  const GpuNeed need{.bytes = 1u << 30, .busy = 0.5, .measured = 1};
  fit(demand, &need, {.bytes = 80ull << 30});
  EXPECT_EQ(demand.share, 500);
  fit(demand, &need, {.bytes = 80ull << 30, .kernels = 2});
  EXPECT_EQ(demand.share, 250);
}

}  // namespace
}  // namespace pergpu
