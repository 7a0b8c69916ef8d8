// The order in which ready jobs start.
#include "job/schedule/queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace pergpu {
namespace {

Demand priority(int value) {
  Demand demand;
  demand.priority = value;
  return demand;
}

StepKey key(std::int64_t sweep, std::int16_t step) { return {.sweep = {sweep}, .step = step}; }

ReadyJob ready(std::int64_t id, StepKey step, std::int32_t run, std::int64_t expected_ns = 0) {
  return {.id = {id}, .step = step, .run = run, .expected_ns = expected_ns};
}

// Takes everything out in order.
std::vector<std::int64_t> order_of(ReadyQueue& queue) {
  std::vector<std::int64_t> ids;
  while (!queue.heads().empty()) {
    const ReadyJob first = queue.heads().begin()->job;
    ids.push_back(first.id.value);
    queue.take(first, {});
  }
  return ids;
}

TEST(ReadyQueue, FileOrderIsRunThenStep) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  queue.declare(key(1, 1), {});
  for (const ReadyJob& job : {ready(4, key(1, 1), 1), ready(3, key(1, 0), 1),
                              ready(2, key(1, 1), 0), ready(1, key(1, 0), 0)}) {
    queue.insert(job);
  }
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST(ReadyQueue, OnceStepsComeBeforeRuns) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  queue.declare(key(1, 1), {});
  queue.insert(ready(1, key(1, 0), 0));
  queue.insert(ready(2, key(1, 1), -1));
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{2, 1}));
}

TEST(ReadyQueue, OlderSweepFirst) {
  ReadyQueue queue;
  queue.declare(key(2, 0), {});
  queue.declare(key(1, 0), {});
  queue.insert(ready(1, key(2, 0), 0, 1'000));
  queue.insert(ready(2, key(1, 0), 5));
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{2, 1}));
}

TEST(ReadyQueue, PriorityBeforeAge) {
  ReadyQueue queue;
  queue.declare(key(1, 0), priority(0));
  queue.declare(key(2, 0), priority(5));
  queue.declare(key(3, 0), priority(-1));
  queue.insert(ready(1, key(1, 0), 0));
  queue.insert(ready(2, key(2, 0), 0));
  queue.insert(ready(3, key(3, 0), 0));
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{2, 1, 3}));
}

TEST(ReadyQueue, LongestExpectedFirstThenFileOrder) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  queue.declare(key(1, 1), {});
  queue.insert(ready(1, key(1, 0), 0));
  queue.insert(ready(2, key(1, 0), 1, 50));
  queue.insert(ready(3, key(1, 1), 0, 80));
  queue.insert(ready(4, key(1, 0), 2, 90));
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{4, 3, 2, 1}));
}

TEST(ReadyQueue, StepWithMaxParallelCountsAsLongAsAllThatIsLeftOfIt) {
  ReadyQueue queue;
  const auto first = [&] { return queue.heads().begin()->job.id.value; };
  queue.declare(key(1, 0), {});
  queue.declare(key(1, 1), {.max_parallel = 2});
  queue.insert(ready(1, key(1, 0), 0, 60));
  queue.insert(ready(2, key(1, 1), 1, 20));
  queue.insert(ready(3, key(1, 1), 2, 20));
  queue.set_left(key(1, 0), 100);  // no matter: these go at once
  queue.set_left(key(1, 1), 6);
  EXPECT_EQ(first(), 1);  // as long, and before it in the file
  queue.set_left(key(1, 1), 7);
  EXPECT_EQ(first(), 2);
  queue.take(ready(2, key(1, 1), 1, 20), {});
  EXPECT_EQ(first(), 1);
}

TEST(ReadyQueue, WhatIsLeftOfAStepMayBeMoreThanATimeCanTell) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  queue.declare(key(1, 1), {.max_parallel = 1});
  queue.insert(ready(1, key(1, 0), 0, 4'000'000'000'000'000'000));
  queue.insert(ready(2, key(1, 1), 1, 3'000'000'000'000'000'000));
  queue.set_left(key(1, 1), 1'000'000);
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{2, 1}));
}

TEST(ReadyQueue, ChangedPriorityMovesItsJobs) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  queue.declare(key(2, 0), {});
  queue.insert(ready(1, key(1, 0), 0));
  queue.insert(ready(2, key(2, 0), 0));
  queue.declare(key(2, 0), priority(1));
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{2, 1}));
}

TEST(ReadyQueue, InsertAndEraseAreIdempotent) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  const ReadyJob job = ready(1, key(1, 0), 0, 7);
  queue.insert(job);
  queue.insert(job);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.size(key(1, 0)), 1u);
  EXPECT_TRUE(queue.erase(job));
  EXPECT_FALSE(queue.erase(job));
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_TRUE(queue.heads().empty());
}

TEST(ReadyQueue, TheLongestThatIsOverInTime) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  EXPECT_FALSE(queue.first_within(key(1, 0), 100));
  for (const std::int64_t ns : {50, 30, 10}) queue.insert(ready(ns, key(1, 0), 0, ns));
  queue.insert(ready(99, key(1, 0), 0));
  EXPECT_EQ(queue.first_within(key(1, 0), 50)->id, JobId{50});
  EXPECT_EQ(queue.first_within(key(1, 0), 49)->id, JobId{30});
  EXPECT_EQ(queue.first_within(key(1, 0), 10)->id, JobId{10});
  EXPECT_FALSE(queue.first_within(key(1, 0), 9)) << "how long job 99 takes is not known";
  queue.pause(key(1, 0), true);
  EXPECT_FALSE(queue.first_within(key(1, 0), 50));
}

TEST(ReadyQueue, AStepThatPausesForTwoCausesPausesUntilBothAreOver) {
  ReadyQueue queue;
  queue.declare(key(1, 0), Demand{});
  queue.insert(ready(1, key(1, 0), 0));
  queue.pause(key(1, 0), true, PauseCause::Storage);
  queue.pause(key(1, 0), true);
  queue.pause(key(1, 0), false, PauseCause::Storage);
  EXPECT_TRUE(queue.heads().empty());
  queue.pause(key(1, 0), true, PauseCause::Storage);
  queue.pause(key(1, 0), false);
  EXPECT_TRUE(queue.heads().empty());
  queue.pause(key(1, 0), false, PauseCause::Storage);
  EXPECT_EQ(queue.heads().size(), 1u);
}

TEST(ReadyQueue, ManyJobsOfOneStepAreOneHead) {
  ReadyQueue queue;
  queue.declare(key(1, 0), {});
  constexpr std::int32_t kJobs = 100'000;
  for (std::int32_t run = 0; run < kJobs; ++run) queue.insert(ready(run + 1, key(1, 0), run));
  EXPECT_EQ(queue.size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(queue.heads().size(), 1u);
  EXPECT_TRUE(queue.erase(ready(kJobs / 2, key(1, 0), kJobs / 2 - 1)));
  EXPECT_EQ(queue.heads().begin()->job.run, 0);
}

TEST(ReadyQueue, CountsTheHeadsThatHaveAWeight) {
  ReadyQueue queue;
  for (const std::int64_t sweep : {1, 2, 3}) {
    queue.declare(key(sweep, 0), {.weight = sweep == 3 ? 0 : 1});
    for (const std::int32_t run : {0, 1}) queue.insert(ready(10 * sweep + run, key(sweep, 0), run));
  }
  EXPECT_EQ(queue.sharing(), 2);
  queue.take(ready(10, key(1, 0), 0), {});
  EXPECT_EQ(queue.sharing(), 2) << "the next one is its head";
  queue.take(ready(11, key(1, 0), 1), {});
  EXPECT_EQ(queue.sharing(), 1);
  queue.declare(key(3, 0), {.weight = 5});
  EXPECT_EQ(queue.sharing(), 2);
  queue.declare(key(2, 0), {});
  EXPECT_EQ(queue.sharing(), 1);
  for (const ReadyJob& job : queue.ready(key(3, 0))) queue.erase(job);
  EXPECT_EQ(queue.sharing(), 0);
}

ReadyJob shaped(std::int64_t id, std::int32_t run, GpuShape shape) {
  ReadyJob job = ready(id, key(1, 0), run);
  job.shape = shape;
  return job;
}
Demand asking(int share) { return {.share = share, .is_auto = true}; }

TEST(ReadyQueue, AShapeIsAClassOfItsOwnThatAsksForWhatItWasDeclaredTo) {
  ReadyQueue queue;
  queue.declare(key(1, 0), asking(500), {{7, asking(100)}});
  queue.set_left(key(1, 0), 3);
  const ReadyJob small = shaped(1, 0, 7);
  ReadyJob grown_one = shaped(2, 1, 7);
  grown_one.growths.gpu_memory = 1;
  const ReadyJob usual = shaped(3, 2, 0);
  for (const ReadyJob& job : {small, grown_one, usual}) queue.insert(job);
  EXPECT_EQ(queue.demand(small.key())->share, 100);
  EXPECT_EQ(queue.demand(grown_one.key())->share, 200);
  EXPECT_EQ(queue.demand(usual.key())->share, 500);
  EXPECT_EQ(queue.heads().size(), 3u);
  EXPECT_EQ(queue.size(key(1, 0)), 3u);
  EXPECT_EQ(queue.ready(key(1, 0)).size(), 3u);
  queue.declare(key(1, 0), asking(400));  // what was said of the shape no longer holds
  EXPECT_EQ(queue.demand(usual.key())->share, 400);
  EXPECT_EQ(queue.demand(small.key())->share, 400);
  EXPECT_EQ(queue.demand(grown_one.key())->share, 800);
  queue.declare(key(1, 0), asking(400), {{7, asking(150)}});
  EXPECT_EQ(queue.demand(usual.key())->share, 400);
  EXPECT_EQ(queue.demand(grown_one.key())->share, 300);
  queue.pause(key(1, 0), true);
  EXPECT_TRUE(queue.heads().empty());
  queue.declare(key(1, 0), asking(400), {{8, asking(250)}});
  queue.insert(shaped(4, 3, 8));
  EXPECT_TRUE(queue.heads().empty()) << "its step pauses";
  queue.pause(key(1, 0), false);
  EXPECT_EQ(order_of(queue), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST(ReadyQueue, KeepsNoShapeThatNeitherIsDeclaredNorHasAJob) {
  ReadyQueue queue;
  queue.declare(key(1, 0), asking(500), {{7, asking(100)}, {8, asking(200)}});
  queue.insert(shaped(1, 0, 7));
  queue.declare(key(1, 0), asking(500));
  EXPECT_NE(queue.demand({key(1, 0), {}, 7}), nullptr);
  EXPECT_EQ(queue.demand({key(1, 0), {}, 8}), nullptr);
  queue.erase(shaped(1, 0, 7));
  queue.declare(key(1, 0), asking(500));
  EXPECT_EQ(queue.demand({key(1, 0), {}, 7}), nullptr);
  EXPECT_NE(queue.demand(key(1, 0)), nullptr);
}

TEST(ReadyQueue, WhoMovesToAnotherShapeHasWaitedAsLong) {
  ReadyQueue queue;
  queue.declare(key(1, 0), asking(500), {{7, asking(100)}});
  queue.declare(key(2, 0), {});
  queue.insert(shaped(1, 0, 0));
  queue.insert(ready(2, key(2, 0), 0));
  queue.take(ready(2, key(2, 0), 0), {key(1, 0)});
  queue.move(shaped(1, 0, 0), 7);
  EXPECT_EQ(queue.ready(key(1, 0)), (std::vector<ReadyJob>{shaped(1, 0, 7)}));
  EXPECT_EQ(queue.overtaken({key(1, 0), {}, 7}), 1);
  queue.move(shaped(1, 0, 0), 8);  // it is not there any more
  EXPECT_EQ(queue.size(), 1u);
}

}  // namespace
}  // namespace pergpu
