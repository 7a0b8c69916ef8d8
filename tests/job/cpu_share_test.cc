// How jobs slow each other down (job/schedule/cpu_share.h).
#include "job/schedule/cpu_share.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pergpu {
namespace {

TEST(Crowd, SlowsWhoTakesItsShareWhereNothingIsLeft) {
  EXPECT_TRUE((Crowd{.machine_cores = 2, .used_cores = 1.95, .jobs = 8}.slows(0.24)));
  EXPECT_FALSE((Crowd{.machine_cores = 2, .used_cores = 1.95, .jobs = 8}.slows(0.02)))
      << "that one does not want more";
  EXPECT_FALSE((Crowd{.machine_cores = 2, .used_cores = 1.5, .jobs = 8}.slows(0.24)));
  EXPECT_FALSE((Crowd{.machine_cores = 0, .used_cores = 64, .jobs = 64}.slows(1)));
}

TEST(CpuShare, KnowsNothingBeforeTheFirstReading) {
  const CpuShare share;
  EXPECT_EQ(share.cores_wanted(), 0);
  EXPECT_EQ(share.alone_s(30), 30);
}

TEST(CpuShare, WhoWasNeverSlowedTookWhatItTakes) {
  CpuShare share;
  share.add(10, 0.3, false);
  EXPECT_DOUBLE_EQ(share.cores_wanted(), 0.3);
  EXPECT_DOUBLE_EQ(share.alone_s(12), 12);
}

TEST(CpuShare, WhoWasAlwaysSlowedWantsACoreAtLeast) {
  CpuShare share;
  share.add(100, 0.25, true);
  EXPECT_DOUBLE_EQ(share.cores_wanted(), 1);
  EXPECT_DOUBLE_EQ(share.alone_s(100), 25);
  EXPECT_DOUBLE_EQ(share.alone_s(100, 2), 12.5);
}

TEST(CpuShare, WhatItTookWhileItHadCompanyCountsLess) {
  CpuShare share;
  share.add(20, 2, false);
  share.add(40, 0.5, true);
  EXPECT_DOUBLE_EQ(share.cores_wanted(), 2);
  EXPECT_DOUBLE_EQ(share.alone_s(60), 30);
  EXPECT_DOUBLE_EQ(share.alone_s(66), 33) << "what was not read was like the rest";
}

TEST(Speeds, EqualsGetTheSame) {
  for (const double speed : speeds(std::vector<double>(8, 1.0), 2)) EXPECT_DOUBLE_EQ(speed, 0.25);
}

TEST(Speeds, WhatOneDoesNotWantTheOthersGet) {
  const std::vector<double> of = speeds({0.1, 1, 1}, 1.1);
  EXPECT_DOUBLE_EQ(of[0], 1);
  EXPECT_DOUBLE_EQ(of[1], 0.5);
  EXPECT_DOUBLE_EQ(of[2], 0.5);
}

TEST(Speeds, ThreadsGetTheSameAndNotJobs) {
  const std::vector<double> of = speeds({3, 1}, 2);
  EXPECT_DOUBLE_EQ(of[0], 0.5);
  EXPECT_DOUBLE_EQ(of[1], 0.5);
}

TEST(SpeedsProperty, AllCoresAreUsedAndNoMore) {
  EXPECT_TRUE(rc::check([] {
    const auto hundredths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 500));
    const double cores = *rc::gen::inRange(1, 33);
    std::vector<double> wanted;
    for (const int one : hundredths) wanted.push_back(one / 100.0);
    const std::vector<double> of = speeds(wanted, cores);
    RC_ASSERT(of.size() == wanted.size());
    double used = 0;
    for (std::size_t i = 0; i < of.size(); ++i) {
      RC_ASSERT(of[i] > 0 && of[i] <= 1 + 1e-9);
      used += of[i] * wanted[i];
    }
    const double all = std::accumulate(wanted.begin(), wanted.end(), 0.0);
    RC_ASSERT(std::abs(used - std::min(all, cores)) < 1e-6);
  }));
}

}  // namespace
}  // namespace pergpu
