#include "job/schedule/gpu_shapes.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <vector>

namespace pergpu {
namespace {

using News = GpuShapes::News;
constexpr std::uint64_t kGib = 1ull << 30;

constexpr std::uint32_t kModel = 1;
constexpr std::uint32_t kSeed = 2;

std::vector<ParameterMark> of(std::uint32_t model, std::uint32_t seed) {
  return {{kModel, model}, {kSeed, seed}};
}

GpuNeed bytes(std::uint64_t gib) {
  return {.bytes = gib * kGib, .busy = 0.3, .measured = 1, .cores = 1};
}

TEST(GpuShapes, AreTheValuesOfWhatTellsTheMemory) {
  GpuShapes shapes;
  EXPECT_EQ(shapes.shape_of(of(7, 1)), 0u);
  EXPECT_EQ(shapes.add({of(7, 1), bytes(9)}), News::Needs);
  EXPECT_EQ(shapes.add({of(8, 1), bytes(38)}), News::Needs);
  EXPECT_EQ(shapes.shape_of(of(7, 2)), 0u) << "two jobs tell nothing of two parameters";
  EXPECT_EQ(shapes.add({of(7, 2), bytes(10)}), News::Shapes);
  const GpuShape small = shapes.shape_of(of(7, 99));
  const GpuShape large = shapes.shape_of(of(8, 99));
  ASSERT_NE(small, 0u);
  ASSERT_NE(large, 0u);
  EXPECT_NE(small, large);
  EXPECT_EQ(shapes.needs().size(), 2u);
  EXPECT_EQ(shapes.needs().at(small).bytes, 10 * kGib);
  EXPECT_EQ(shapes.needs().at(large).bytes, 38 * kGib);
  EXPECT_EQ(shapes.all().bytes, 38 * kGib);
  EXPECT_EQ(shapes.shape_of(of(9, 1)), 0u) << "a model that was not seen";
  EXPECT_EQ(shapes.shape_of({}), 0u);
}

TEST(GpuShapes, AreNoneWhereAllNeedNearlyTheSame) {
  GpuShapes shapes;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    shapes.add({of(7, seed), bytes(100)});
    shapes.add({of(8, seed), bytes(105)});
  }
  EXPECT_TRUE(shapes.needs().empty());
  EXPECT_EQ(shapes.shape_of(of(7, 0)), 0u);
}

TEST(GpuShapes, WhatIsAddedAgainIsKnownAndMoreOfItIsNot) {
  GpuShapes shapes;
  EXPECT_EQ(shapes.add({of(7, 1), bytes(9)}), News::Needs);
  EXPECT_EQ(shapes.add({of(7, 1), {.bytes = 8 * kGib, .cores = 1}}), News::None);
  EXPECT_EQ(shapes.add({of(7, 1), {.bytes = 10 * kGib}}), News::Needs);
  EXPECT_EQ(shapes.seen().size(), 1u);
  EXPECT_EQ(shapes.all().bytes, 10 * kGib);
}

TEST(GpuShapes, WhatWasNotMeasuredOfAShapeIsThatOfAll) {
  GpuShapes shapes;
  shapes.add({of(7, 1), bytes(9)});
  shapes.add({of(7, 2), bytes(9)});
  shapes.add({of(8, 1), {.bytes = 38 * kGib}});
  const GpuNeed& large = shapes.needs().at(shapes.shape_of(of(8, 3)));
  EXPECT_DOUBLE_EQ(large.busy, 0.3);
  EXPECT_EQ(large.measured, 2);
  EXPECT_EQ(large.cores, 1);
}

TEST(GpuShapes, ASeedForEachJobDrivesNoShapeOut) {
  GpuShapes shapes;
  shapes.add({of(8, 0), bytes(38)});
  for (std::uint32_t seed = 1; seed <= 3 * GpuShapes::kMostSeen; ++seed) {
    shapes.add({of(7, seed), bytes(seed == 1 ? 12 : 9)});
  }
  EXPECT_EQ(shapes.seen().size(), GpuShapes::kMostSeen);
  EXPECT_EQ(shapes.needs().at(shapes.shape_of(of(7, 0))).bytes, 12 * kGib);
  EXPECT_EQ(shapes.needs().at(shapes.shape_of(of(8, 1))).bytes, 38 * kGib);
}

TEST(GpuShapes, WhereNothingMattersTheLeastOfTheOlderHalfGoes) {
  GpuShapes shapes;
  for (std::uint32_t seed = 0; seed <= GpuShapes::kMostSeen; ++seed) {
    shapes.add({of(7, seed), bytes(seed == 0 ? 38 : 9)});
  }
  EXPECT_EQ(shapes.seen().size(), GpuShapes::kMostSeen);
  EXPECT_EQ(shapes.seen()[0].parameters, of(7, 0));
  EXPECT_EQ(shapes.seen()[1].parameters, of(7, 2));
  EXPECT_EQ(shapes.add({of(8, 1), bytes(60)}), News::Shapes);
  EXPECT_EQ(shapes.needs().at(shapes.shape_of(of(7, 99))).bytes, 38 * kGib)
      << "what matters came out only now";
}

TEST(GpuShapes, MoreOfThemThanAreRememberedDoNotComeAndGo) {
  for (const std::uint32_t order : {31, 37, 61, 73, 99, 101, 147}) {
    GpuShapes shapes;
    int lost = 0;
    for (std::uint32_t i = 0; i < 4 * GpuShapes::kMostSeen; ++i) {
      const std::uint32_t drawn = i * order % 200;  // a hundred widths, each with two seeds
      const bool had_some = !shapes.needs().empty();
      shapes.add({of(drawn / 2, drawn % 2), bytes(1 + drawn / 2)});
      if (had_some && shapes.needs().empty()) ++lost;
    }
    EXPECT_LE(lost, 2) << "while there were few pairs; order " << order;
    EXPECT_GE(shapes.needs().size(), GpuShapes::kMostSeen / 4);
  }
}

TEST(GpuShapes, ThatSuchAJobWasThereIsNoNewNeed) {
  GpuShapes shapes;
  shapes.add({of(7, 1), bytes(9)});
  const GpuNeed less{.bytes = 8 * kGib, .cores = 1};
  EXPECT_EQ(shapes.add({of(7, 2), less}), News::Seen);
  EXPECT_EQ(shapes.add({of(7, 2), less}), News::None);
}

TEST(GpuShapes, WhoWasNotSeenOnAGpuIsNotKept) {
  GpuShapes shapes;
  shapes.add({of(7, 1), {.cores = 1}});
  EXPECT_TRUE(shapes.seen().empty());
  EXPECT_EQ(shapes.add({of(7, 2), {.cores = 1}}), News::None);
}

// However it was learnt, nobody is promised less than any of its shape had, nor more than the most.
TEST(GpuShapesProperty, NobodyIsTakenToNeedLessThanItsShapeDid) {
  EXPECT_TRUE(rc::check([] {
    GpuShapes shapes;
    std::vector<GpuShapes::Seen> all;
    const int count = *rc::gen::inRange(1, 150);
    const bool by_model = *rc::gen::arbitrary<bool>();
    for (int i = 0; i < count; ++i) {
      const auto model = *rc::gen::inRange<std::uint32_t>(0, 4);
      const auto seed = *rc::gen::inRange<std::uint32_t>(0, 30);
      const auto noise = *rc::gen::inRange<std::uint64_t>(0, 4);
      const std::uint64_t gib = by_model ? 1 + 10 * model + noise : *rc::gen::inRange(1, 60);
      all.push_back({of(model, seed), bytes(gib)});
      shapes.add(all.back());
    }
    std::map<GpuShape, std::uint64_t> most;
    for (const GpuShapes::Seen& one : all) {
      std::uint64_t& its = most[shapes.shape_of(one.parameters)];
      its = std::max(its, one.need.bytes);
    }
    for (const auto& [shape, least] : most) {
      const GpuNeed& need = shape == 0 ? shapes.all() : shapes.needs().at(shape);
      RC_ASSERT(need.bytes >= least);
      RC_ASSERT(need.bytes <= shapes.all().bytes);
      RC_ASSERT(need.measured > 0);
    }
    const GpuShapes again(shapes.all(), shapes.seen());
    RC_ASSERT(again.needs() == shapes.needs());
  }));
}

}  // namespace
}  // namespace pergpu
