// Lanes of attempts that run elsewhere: no two at once on one, and no more of them than ran at
// once.
#include "slurm/cluster_lanes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace pergpu::testing {
namespace {

TEST(ClusterLanes, AreGivenAgainFromTheFirst) {
  ClusterLanes lanes;
  EXPECT_EQ(lanes.take(10), 0);
  EXPECT_EQ(lanes.take(11), 1);
  lanes.leave(0, 20);
  EXPECT_EQ(lanes.take(20), 0);
}

TEST(ClusterLanes, AreNotFreeBeforeTheirLastEndWheneverThatWasHeard) {
  ClusterLanes lanes;
  EXPECT_EQ(lanes.take(10), 0);
  lanes.leave(0, 30);
  EXPECT_EQ(lanes.take(25), 1) << "it began before the other one ended";
}

TEST(ClusterLanes, OfBeforeARestartStayTaken) {
  ClusterLanes lanes;
  lanes.occupy(1);
  lanes.leave(0, 15);
  EXPECT_EQ(lanes.take(10), 2);
  EXPECT_EQ(lanes.take(16), 0);
}

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int32_t lane = 0;
};

RC_GTEST_PROP(ClusterLanes, SpansOfOneLaneDoNotOverlapAndThereAreNoMoreLanesThanSpansAtOnce, ()) {
  const auto count = *rc::gen::inRange(1, 40);
  std::vector<Span> spans;
  for (int i = 0; i < count; ++i) {
    const auto begin = *rc::gen::inRange<std::int64_t>(0, 100);
    spans.push_back({begin, begin + *rc::gen::inRange<std::int64_t>(1, 30)});
  }
  // Told in the order in which it happened, ends before begins of the same instant.
  std::vector<std::pair<std::int64_t, std::size_t>> happened;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    happened.emplace_back(2 * spans[i].begin + 1, i);
    happened.emplace_back(2 * spans[i].end, i);
  }
  std::sort(happened.begin(), happened.end());
  ClusterLanes lanes;
  int now = 0;
  int most = 0;
  std::int32_t highest = -1;
  for (const auto& [when, i] : happened) {
    if (when % 2 == 1) {
      spans[i].lane = lanes.take(spans[i].begin);
      highest = std::max(highest, spans[i].lane);
      most = std::max(most, ++now);
    } else {
      lanes.leave(spans[i].lane, spans[i].end);
      --now;
    }
  }
  RC_ASSERT(highest + 1 == most);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool overlap = spans[i].begin < spans[j].end && spans[j].begin < spans[i].end;
      RC_ASSERT(!overlap || spans[i].lane != spans[j].lane);
    }
  }
}

}  // namespace
}  // namespace pergpu::testing
