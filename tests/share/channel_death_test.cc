// Ends in processes of their own, killed in every situation: who survives is told at once, gets all
// that was published, and goes on with whoever comes next.
#include <sys/time.h>

#include <set>

#include "os/test_hooks.h"
#include "share/rig.h"

namespace pergpu::share {
namespace {

/// Kills `process`; how long `told` took to say so is printed.
template <typename Told>
void killed_and_told(Forked& process, Told told) {
  std::int64_t begin = os::awake_now_ns();
  process.send(SIGKILL);
  EXPECT_TRUE(told());
  std::int64_t took = os::awake_now_ns() - begin;
  std::printf("             told after %.2f ms\n", static_cast<double>(took) / kMs);
  EXPECT_LT(took, 1000 * kMs);
}

constexpr std::uint64_t kForGood = 1'000'000'000;

/// Until `seen` of the channel's state is true; false: not within ten seconds.
template <typename Seen>
bool becomes(const Channel& channel, Seen seen) {
  std::int64_t deadline = soon();
  while (!seen(channel.describe())) {
    if (os::awake_now_ns() > deadline) return false;
    ::usleep(100);
  }
  return true;
}

/// Until somebody has the first of these places.
bool comes(const Channel& channel, std::vector<ChannelState::End> ChannelState::*ends) {
  return becomes(channel, [ends](const ChannelState& state) {
    return (state.*ends)[0].owner.state == PlaceState::Attached;
  });
}

/// Publishes `count` items and stays.
int produce_and_stay(const Channel& channel, std::uint64_t count, Word& done) {
  auto producer = producer_of(channel);
  for (std::uint64_t i = 1; i <= count; ++i) {
    if (send(*producer, i, kForever) != Outcome::Ready) return 1;
    done = static_cast<std::uint32_t>(i);
    wake(done);
  }
  return ::pause();
}

/// Takes `count` items, releases all but the last `kept`, and stays.
int consume_and_stay(const Channel& channel, std::uint64_t count, std::uint64_t kept, Word& done) {
  auto consumer = consumer_of(channel);
  for (std::uint64_t i = 1; i <= count; ++i) {
    Taken taken = consumer->take(kForever);
    if (taken.outcome == Outcome::PeerDied) taken = consumer->take(kForever);  // an earlier one
    if (taken.outcome != Outcome::Ready) return 1;
    if (i + kept <= count && !consumer->release(taken.item)) return 1;
    done = static_cast<std::uint32_t>(i);
    wake(done);
  }
  return ::pause();
}

TEST(ChannelDeath, WhatADeadProducerPublishedIsDrainedThenItsDeathIsToldOnce) {
  Channel channel = make_channel({.slots_per_lane = 4});
  Shared shared;
  auto consumer = consumer_of(channel);
  Forked producer([&] { return produce_and_stay(channel, 3, shared[0]); });
  ASSERT_TRUE(reaches(shared[0], 3));
  auto pid = static_cast<std::uint32_t>(producer.pid());
  producer.kill();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    Taken taken = consumer->take(soon());
    ASSERT_EQ(taken.outcome, Outcome::Ready);
    EXPECT_TRUE(is_whole(taken.item.data, taken.item.bytes, i));
    ASSERT_TRUE(consumer->release(taken.item));
  }
  Taken told = consumer->take(soon());
  ASSERT_EQ(told.outcome, Outcome::PeerDied);
  EXPECT_EQ(told.peer.pid, pid);
  EXPECT_EQ(told.peer.last_sequence, 3U);
  EXPECT_EQ(consumer->take(in_ms(20)).outcome, Outcome::TimedOut);
  auto next = producer_of(channel);
  EXPECT_EQ(next->index(), 0U);
  for (std::uint64_t i = 4; i <= 7; ++i) ASSERT_EQ(send(*next, i, 0), Outcome::Ready);
  EXPECT_EQ(consumer->take(0).item.sequence, 4U) << "all four slots are there, numbers go on";
}

TEST(ChannelDeath, ASleepingConsumerIsToldOfItsProducersDeath) {
  Channel channel = make_channel({});
  Shared shared;
  auto consumer = consumer_of(channel);
  Forked producer([&] {
    auto mine = producer_of(channel);
    shared[0] = 1;
    wake(shared[0]);
    // The parent sleeps in the kernel when its flag is up.
    if (!becomes(channel, [](const ChannelState& s) { return s.consumers[0].sleeping; })) return 1;
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  ASSERT_TRUE(reaches(shared[0], 1));
  std::int64_t begin = os::awake_now_ns();
  EXPECT_EQ(consumer->take(soon()).outcome, Outcome::PeerDied);
  EXPECT_LT(os::awake_now_ns() - begin, 1000 * kMs);
}

TEST(ChannelDeath, ASleepingProducerIsToldOfItsConsumersDeath) {
  Channel channel = make_channel({.slots_per_lane = 2});
  Shared shared;
  auto producer = producer_of(channel);
  Forked consumer([&] { return consume_and_stay(channel, 2, 2, shared[0]); });
  ASSERT_TRUE(comes(channel, &ChannelState::consumers));
  ASSERT_EQ(send(*producer, 1, soon()), Outcome::Ready);
  ASSERT_EQ(send(*producer, 2, soon()), Outcome::Ready);
  ASSERT_TRUE(reaches(shared[0], 2));
  ASSERT_EQ(producer->acquire(0).outcome, Outcome::TimedOut) << "it holds both";
  killed_and_told(consumer, [&] {
    Acquired got = producer->acquire(soon());
    EXPECT_EQ(got.peer.lost, 2U);
    EXPECT_EQ(got.peer.pid, static_cast<std::uint32_t>(consumer.pid()));
    return got.outcome == Outcome::PeerDied;
  });
  EXPECT_EQ(send(*producer, 3, 0), Outcome::Ready) << "the slots are back";
  EXPECT_EQ(send(*producer, 4, 0), Outcome::Ready);
  EXPECT_EQ(misplaced(channel), "");
  auto next = consumer_of(channel);
  EXPECT_EQ(next->take(0).item.sequence, 3U);
}

TEST(ChannelDeath, KilledWhileItsChannelIsFullOrEmpty) {
  for (bool full : {false, true}) {
    Channel channel = make_channel({.slots_per_lane = 2});
    Shared shared;
    auto consumer = consumer_of(channel);
    std::uint64_t count = full ? kForGood : 0;
    Forked producer([&] { return produce_and_stay(channel, count, shared[0]); });
    ASSERT_TRUE(comes(channel, &ChannelState::producers));
    if (full) {
      ASSERT_TRUE(reaches(shared[0], 2));
    }
    killed_and_told(producer, [&] {
      int items = 0;
      Taken taken = consumer->take(soon());
      for (; taken.outcome == Outcome::Ready; taken = consumer->take(soon())) ++items;
      EXPECT_EQ(items, full ? 2 : 0);
      return taken.outcome == Outcome::PeerDied;
    });
  }
}

TEST(ChannelDeath, OtherProducersGoOn) {
  Channel channel = make_channel({.producers = 2});
  Shared shared;
  auto consumer = consumer_of(channel);
  auto living = producer_of(channel);
  Forked dying([&] { return produce_and_stay(channel, 1, shared[0]); });
  ASSERT_TRUE(reaches(shared[0], 1));
  ASSERT_EQ(send(*living, 1, 0), Outcome::Ready);
  killed_and_told(dying, [&] {
    int items = 0;
    Taken taken = consumer->take(soon());
    for (; taken.outcome == Outcome::Ready; taken = consumer->take(soon())) ++items;
    EXPECT_EQ(items, 2);
    return taken.outcome == Outcome::PeerDied && taken.peer.index == 1;
  });
  ASSERT_EQ(send(*living, 2, 0), Outcome::Ready);
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Ready);
  living->close();
  EXPECT_EQ(consumer->take(0).outcome, Outcome::TimedOut) << "the place of the dead may be taken";
  channel.complete();
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Ended);
}

TEST(ChannelDeath, WhatADeadConsumerHadNotTakenGoesToAnother) {
  Channel channel = make_channel({.consumers = 2, .slots_per_lane = 3});
  Shared shared;
  auto producer = producer_of(channel);
  Forked dying([&] { return consume_and_stay(channel, 1, 1, shared[0]); });
  ASSERT_TRUE(comes(channel, &ChannelState::consumers));
  auto living = consumer_of(channel);
  for (std::uint64_t i = 1; i <= 6; ++i) ASSERT_EQ(send(*producer, i, 0), Outcome::Ready);
  ASSERT_TRUE(reaches(shared[0], 1));
  killed_and_told(dying, [&] {
    Acquired got = producer->acquire(soon());
    EXPECT_EQ(got.peer.lost, 1U);
    return got.outcome == Outcome::PeerDied;
  });
  std::set<std::uint64_t> rest;
  for (Taken t = living->take(0); t.outcome == Outcome::Ready; t = living->take(0)) {
    EXPECT_TRUE(is_whole(t.item.data, t.item.bytes, t.item.sequence));
    rest.insert(t.item.sequence);
  }
  EXPECT_EQ(rest, (std::set<std::uint64_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(misplaced(channel), "");
}

TEST(ChannelDeath, WhatWasPublishedSurvivesTheDeathOfBothItsEnds) {
  Channel channel = make_channel({.consumers = 2, .slots_per_lane = 2});
  Shared shared;
  Forked consumer([&] { return consume_and_stay(channel, 0, 0, shared[0]); });
  ASSERT_TRUE(comes(channel, &ChannelState::consumers));
  Forked producer([&] { return produce_and_stay(channel, 4, shared[1]); });
  ASSERT_TRUE(reaches(shared[1], 4));
  auto survivor = consumer_of(channel);
  ASSERT_EQ(survivor->index(), 1U);
  consumer.kill();
  producer.kill();
  std::vector<std::uint64_t> got;
  Taken taken = survivor->take(soon());
  for (; taken.outcome == Outcome::Ready; taken = survivor->take(soon())) {
    got.push_back(taken.item.sequence);
  }
  EXPECT_EQ(taken.outcome, Outcome::PeerDied);
  EXPECT_EQ(got, (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST(ChannelDeath, EveryConsumerIsTold) {
  Channel channel = make_channel({.consumers = 3});
  Shared shared;
  std::vector<Forked> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.push_back(Forked([&] {
      auto consumer = consumer_of(channel);
      ++shared[0];
      wake(shared[0]);
      return consumer->take(soon()).outcome == Outcome::PeerDied ? 0 : 1;
    }));
  }
  ASSERT_TRUE(reaches(shared[0], 3));
  Forked producer([&] { return produce_and_stay(channel, 0, shared[1]); });
  ASSERT_TRUE(comes(channel, &ChannelState::producers));
  killed_and_told(producer, [&] {
    int told = 0;
    for (Forked& consumer : consumers) told += consumer.wait() == 0 ? 1 : 0;
    return told == 3;
  });
}

TEST(ChannelDeath, AReplacementFindsEverySlotOfASeriesOfTheDead) {
  Channel channel = make_channel({.slots_per_lane = 4});
  Shared shared;
  for (std::uint32_t round = 0; round < 10; ++round) {
    shared[0] = 0;
    Forked consumer([&] { return consume_and_stay(channel, 2, 1, shared[0]); });
    Forked producer([&] {
      auto mine = producer_of(channel);
      Acquired unpublished = mine->acquire(kForever);
      for (std::uint64_t i = 1;; ++i) {
        if (send(*mine, i, kForever) == Outcome::Ready || unpublished.outcome == Outcome::Ready) {
          continue;
        }
      }
      return 1;
    });
    ASSERT_TRUE(reaches(shared[0], 2)) << "round " << round;
  }
  auto consumer = consumer_of(channel);
  while (consumer->take(0).outcome == Outcome::Ready) {
  }
  consumer.reset();
  auto producer = producer_of(channel);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(producer->acquire(0).outcome, Outcome::Ready);
  EXPECT_EQ(misplaced(channel), "");
}

TEST(ChannelDeath, AChildThatWasForkedWhileHoldingHasNoPart) {
  Channel channel = make_channel({.slots_per_lane = 1});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  ASSERT_EQ(send(*producer, 1, 0), Outcome::Ready);
  Item item = consumer->take(0).item;
  Forked child([&] {
    bool refused = producer->acquire(0).outcome == Outcome::Stale &&
                   consumer->take(0).outcome == Outcome::Stale && !consumer->release(item);
    producer->close();
    producer.reset();
    consumer.reset();
    return refused ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(is_whole(item.data, item.bytes, 1));
  EXPECT_EQ(producer->acquire(0).outcome, Outcome::TimedOut) << "the item is held still";
  ASSERT_TRUE(consumer->release(item));
  EXPECT_EQ(send(*producer, 2, 0), Outcome::Ready);
  EXPECT_EQ(consumer->take(0).item.sequence, 2U);
}

TEST(ChannelDeath, ASignalInterruptsAWaitAndNothingElse) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &action, &before);
  Channel channel = make_channel({.producers = 1, .slots_per_lane = 1});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  itimerval timer = {.it_interval = {0, 5000}, .it_value = {0, 5000}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  EXPECT_EQ(consumer->take(soon()).outcome, Outcome::Interrupted);
  EXPECT_EQ(send(*producer, 1, 0), Outcome::Ready);
  EXPECT_EQ(producer->acquire(soon()).outcome, Outcome::Interrupted);
  timer = {};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(consumer->take(0).item.sequence, 1U);
}

TEST(ChannelDeath, WhoIsInsideTheGateAndDiesLocksNobodyOut) {
  Channel channel = make_channel({});
  Forked inside([] { return ::pause(); });
  Owner owner = {.pid = static_cast<std::uint32_t>(inside.pid()), .state = PlaceState::Attached};
  channel.core().layout.header().gate = owner.pack();
  inside.kill();
  EXPECT_TRUE(channel.attach_producer());
}

TEST(ChannelDeath, AnOldKernelTellsToo) {
  os::pretend_missing(os::KernelCall::FutexWaitv, true);
  Channel channel = make_channel({});
  Shared shared;
  auto consumer = consumer_of(channel);
  Forked producer([&] { return produce_and_stay(channel, 1, shared[0]); });
  ASSERT_TRUE(reaches(shared[0], 1));
  EXPECT_EQ(consumer->take(soon()).outcome, Outcome::Ready);
  killed_and_told(producer, [&] { return consumer->take(soon()).outcome == Outcome::PeerDied; });
  os::pretend_missing(os::KernelCall::FutexWaitv, false);
}

}  // namespace
}  // namespace pergpu::share
