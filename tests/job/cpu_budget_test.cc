// How many cpus a job may count on, and when it is pinned.
#include "job/schedule/cpu_budget.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pergpu {
namespace {

using Cores = std::vector<int>;

Cores first(int n) {
  Cores cores(static_cast<std::size_t>(n));
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

TEST(CpuBudget, IsWhatWasDeclaredElseAnEqualShare) {
  EXPECT_EQ(cpu_budget(4, 16, 8), 4);
  EXPECT_EQ(cpu_budget(std::nullopt, 16, 8), 2);
  EXPECT_EQ(cpu_budget(std::nullopt, 16, 5), 3);
  EXPECT_EQ(cpu_budget(std::nullopt, 16, 8, 2), 4) << "of two GPUs";
  EXPECT_EQ(cpu_budget(4, 16, 8, 2), 4);
  EXPECT_EQ(cpu_budget(std::nullopt, 16, 2, 0.25), 2) << "of a quarter of one";
  EXPECT_EQ(cpu_budget(std::nullopt, 16, 8, 0.25), 1);
  EXPECT_EQ(cpu_budget(std::nullopt, 16, 2, 3), 16);
}

TEST(CpuBudget, IsAtLeastOne) {
  EXPECT_EQ(cpu_budget(std::nullopt, 2, 8), 1);
  EXPECT_EQ(cpu_budget(std::nullopt, 2, 0), 2);
}

TEST(MachineCpuLanes, AreTheCoresThatGpuJobsLeave) {
  EXPECT_EQ(machine_cpu_lanes(64, 8, 4), 32);
  EXPECT_EQ(machine_cpu_lanes(16, 8, 2), 1);
}

TEST(ChooseCores, PrefersThoseNearTheGpu) {
  EXPECT_EQ(choose_cores(2, first(8), {4, 5, 6, 7}, {}), (Cores{4, 5}));
  EXPECT_EQ(choose_cores(2, first(8), {}, {}), (Cores{0, 1}));
}

TEST(ChooseCores, FillsUpFromElsewhereWhenTooFewAreNear) {
  EXPECT_EQ(choose_cores(3, first(8), {6, 7}, {}), (Cores{0, 6, 7}));
}

TEST(ChooseCores, GivesNoCoreTwice) {
  EXPECT_EQ(choose_cores(2, first(8), {4, 5, 6, 7}, {{.cpus = 2, .cpu_list = {4, 5}}}),
            (Cores{6, 7}));
}

TEST(ChooseCores, PinsNobodyWhenTheBudgetsDoNotFit) {
  EXPECT_EQ(choose_cores(4, first(8), {}, {{.cpus = 4}, {.cpus = 1}}), Cores{});
  EXPECT_EQ(choose_cores(9, first(8), {}, {}), Cores{});
}

TEST(ChooseCores, UsesOnlyAllowedCores) {
  EXPECT_EQ(choose_cores(2, {2, 3, 9}, {0, 1, 9}, {}), (Cores{2, 9}));
}

}  // namespace
}  // namespace pergpu
