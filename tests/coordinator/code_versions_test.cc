// When changed code is warned of: once, and only while the newest attempts differ.
#include "coordinator/code_versions.h"

#include <gtest/gtest.h>

#include "coordinator/simulation.h"

namespace pergpu::testing {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;
using Warnings = std::vector<std::string>;

class CodeVersionsTest : public ::testing::Test {
 protected:
  CodeVersionsTest() {
    SweepSpec file = sweep_of("code", 3);
    file.steps = {step_of("train")};
    file.steps[0].command = {"python3", "train.py", "{x}.yaml"};
    EXPECT_TRUE(sim.submit(file, {.lanes = 1}));
    sim.run();
  }
  CodeVersions versions() {
    return {sim.world, [this](row::Meta fact) { EXPECT_TRUE(sim.world.absorb(std::move(fact))); },
            [](const Job& job, const std::string& path) {
              return path == std::to_string(job.run) + ".yaml";
            }};
  }
  /// The job is started again, one second later.
  void start(CodeVersions& seen, std::int64_t id, const Files& files) {
    clock.ns += 1'000'000'000;
    sim.world.job(JobId{id})->last->starting_at = clock.now();
    seen.saw(sim.job(id), files);
  }
  Warnings all(CodeVersions& seen) {
    Warnings found;
    for (const std::int64_t id : {1, 2, 3}) {
      for (const std::string& one : seen.warnings_of(sim.job(id))) {
        found.push_back(std::to_string(id) + ": " + one);
      }
    }
    return found;
  }

  MemoryStore store;
  SimClock clock;
  Simulation sim{store, clock};
  const Warnings changed_at_2 = {"2: train.py has changed since step train first started"};
};

TEST_F(CodeVersionsTest, OnceAndWhileTheNewestAttemptsDiffer) {
  CodeVersions seen = versions();
  for (const std::int64_t id : {1, 2, 3}) start(seen, id, {{"train.py", "a"}});
  EXPECT_EQ(all(seen), Warnings{});
  start(seen, 2, {{"train.py", "b"}});
  EXPECT_EQ(all(seen), changed_at_2);
  start(seen, 1, {{"train.py", "b"}});
  EXPECT_EQ(all(seen), changed_at_2) << "once, not with each job";
  start(seen, 3, {{"train.py", "b"}});
  EXPECT_EQ(all(seen), Warnings{}) << "all have run the same code";
}

TEST_F(CodeVersionsTest, ARestartKnowsThem) {
  CodeVersions before = versions();
  for (const std::int64_t id : {1, 2, 3}) start(before, id, {{"train.py", "a"}});
  start(before, 2, {{"train.py", "b"}});
  CodeVersions after = versions();
  EXPECT_EQ(all(after), changed_at_2);
  start(after, 1, {{"train.py", "b"}});
  start(after, 3, {{"train.py", "b"}});
  EXPECT_EQ(all(after), Warnings{});
}

TEST_F(CodeVersionsTest, WhatAReleaseBeforeWroteIsRead) {
  ASSERT_TRUE(sim.world.absorb(row::Meta{.key = "code 1 train", .value = R"({"train.py":"a"})"}));
  CodeVersions seen = versions();
  start(seen, 2, {{"train.py", "b"}});
  EXPECT_EQ(all(seen), changed_at_2);
  for (const char* text : {"[]", "{\"train.py\":[1,{}]}", "x", "{\"train.py\":[{\"hash\":1}]}"}) {
    ASSERT_TRUE(sim.world.absorb(row::Meta{.key = "code 1 train", .value = text}));
    CodeVersions of_nonsense = versions();
    EXPECT_EQ(all(of_nonsense), Warnings{}) << text;
  }
}

TEST_F(CodeVersionsTest, TheOldCodeAgainIsTheOldCode) {
  CodeVersions seen = versions();
  for (const std::int64_t id : {1, 2, 3}) start(seen, id, {{"train.py", "a"}});
  start(seen, 2, {{"train.py", "b"}});
  start(seen, 2, {{"train.py", "a"}});
  EXPECT_EQ(all(seen), Warnings{});
}

TEST_F(CodeVersionsTest, TheJobThatRanTheNewestVersionFirstTellsOfEachFile) {
  const auto changed = [](int job, const std::string& file) {
    return std::to_string(job) + ": " + file + " has changed since step train first started";
  };
  CodeVersions seen = versions();
  for (const std::int64_t id : {1, 2, 3}) {
    start(seen, id, {{"python3", "a"}, {"train.py", "a"}, {std::to_string(id - 1) + ".yaml", "a"}});
  }
  start(seen, 2, {{"python3", "b"}, {"train.py", "b"}, {"1.yaml", "b"}});
  EXPECT_EQ(all(seen), (Warnings{changed(2, "python3"), changed(2, "train.py")}));
  start(seen, 3, {{"python3", "b"}, {"train.py", "c"}, {"2.yaml", "b"}});
  const Warnings both = {changed(2, "python3"), changed(3, "train.py")};
  EXPECT_EQ(all(seen), both);
  CodeVersions after = versions();
  EXPECT_EQ(all(after), both) << "a restart knows";
  start(after, 2, {{"python3", "b"}, {"train.py", "d"}});
  EXPECT_EQ(all(after), (Warnings{changed(2, "python3"), changed(2, "train.py")}));
}

TEST_F(CodeVersionsTest, AFileOfOneRunIsOneRunsMatter) {
  CodeVersions seen = versions();
  for (const std::int64_t id : {1, 2, 3}) {
    start(seen, id, {{std::to_string(id - 1) + ".yaml", "a"}});
  }
  start(seen, 2, {{"1.yaml", "b"}});
  EXPECT_EQ(all(seen), Warnings{});
}

}  // namespace
}  // namespace pergpu::testing
