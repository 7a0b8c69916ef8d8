// Runs as they are kept, and the index by which one is found again.
#include "state/run.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace pergpu {
namespace {

TEST(RunTest, GivesBackWhatItWasMadeOf) {
  const pergpu::Run run("03-lr=0.1", R"({"lr":0.1})", R"({"lr":"1e-1"})", false);
  EXPECT_EQ(run.folder(), "03-lr=0.1");
  EXPECT_EQ(run.json(), R"({"lr":0.1})");
  EXPECT_EQ(run.texts(), R"({"lr":"1e-1"})");
  EXPECT_EQ(run.spec(), (RunSpec{.json = R"({"lr":0.1})", .texts = R"({"lr":"1e-1"})"}));
  EXPECT_FALSE(run.listed);
}

TEST(RunTest, PartsMayBeEmpty) {
  const pergpu::Run run("", "{}", "", true);
  EXPECT_EQ(run.folder(), "");
  EXPECT_EQ(run.json(), "{}");
  EXPECT_EQ(run.texts(), "");
}

TEST(RunIndexTest, AnEmptyOneFindsNothing) { EXPECT_EQ(RunIndex().find({}, "{}"), std::nullopt); }

RC_GTEST_PROP(RunIndexProperty, FindsTheFirstWithTheseParametersAndNoOther, ()) {
  // Few different texts, so that many are alike.
  const auto numbers =
      *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, *rc::gen::inRange(1, 300)));
  std::vector<pergpu::Run> runs;
  RunIndex index;
  std::map<std::string, std::int32_t> first;
  for (const int number : numbers) {
    const std::string json = "{\"x\":" + std::to_string(number) + "}";
    const auto place = static_cast<std::int32_t>(runs.size());
    runs.emplace_back("folder", json, "", true);
    index.add(runs, place);
    first.emplace(json, place);
  }
  for (int number = 0; number < 300; ++number) {
    const std::string json = "{\"x\":" + std::to_string(number) + "}";
    const auto known = first.find(json);
    const std::optional<std::int32_t> found = index.find(runs, json);
    RC_ASSERT(found == (known == first.end() ? std::nullopt : std::optional(known->second)));
  }
}

}  // namespace
}  // namespace pergpu
