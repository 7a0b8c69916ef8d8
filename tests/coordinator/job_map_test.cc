// What is kept of some jobs is what a map would keep.
#include "state/job_map.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <utility>
#include <vector>

namespace pergpu {
namespace {

RC_GTEST_PROP(JobMapProperty, IsAMap, ()) {
  JobMap<int> map;
  std::map<JobId, int> model;
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(1, 700), rc::gen::inRange(0, 3)));
  for (const auto& [number, what] : steps) {
    const JobId id{number};
    if (what == 0) {
      map.erase(id);
      model.erase(id);
    } else {
      map.put(id, what);
      model[id] = what;
    }
    RC_ASSERT(map.contains(id) == model.contains(id));
    RC_ASSERT(map.size() == model.size());
    RC_ASSERT(map.empty() == model.empty());
  }
  std::vector<std::pair<JobId, int>> seen;
  map.for_each([&](JobId id, int value) { seen.emplace_back(id, value); });
  RC_ASSERT(seen == (std::vector<std::pair<JobId, int>>(model.begin(), model.end())));
  for (const auto& [id, value] : model) RC_ASSERT(*map.find(id) == value);
}

TEST(JobMapTest, WhatIsBeyondItIsNotThere) {
  JobMap<int> map;
  EXPECT_EQ(map.find(JobId{1'000'000}), nullptr);
  map.erase(JobId{1'000'000});
  EXPECT_TRUE(map.empty());
}

}  // namespace
}  // namespace pergpu
