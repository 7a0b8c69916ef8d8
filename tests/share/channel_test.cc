// A channel with both ends in one process: what goes in comes out, in order, and mistakes of
// callers are told.
#include "share/channel.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "share/rig.h"

namespace pergpu::share {
namespace {

TEST(Channel, WhatGoesInComesOutInOrder) {
  Channel channel = make_channel({.slots_per_lane = 3});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  for (std::uint64_t number = 1; number <= 1000; ++number) {
    ASSERT_EQ(send(*producer, number, 0), Outcome::Ready);
    if (number % 3 != 0) continue;
    for (std::uint64_t expected = number - 2; expected <= number; ++expected) {
      Taken taken = consumer->take(0);
      ASSERT_EQ(taken.outcome, Outcome::Ready);
      EXPECT_EQ(taken.item.sequence, expected);
      EXPECT_EQ(taken.item.bytes, size_of(expected, 256));
      EXPECT_TRUE(is_whole(taken.item.data, taken.item.bytes, expected));
      ASSERT_TRUE(consumer->release(taken.item));
    }
  }
}

TEST(Channel, AFullOneTakesNothingAndAnEmptyOneGivesNothing) {
  Channel channel = make_channel({.slots_per_lane = 2});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  EXPECT_EQ(consumer->take(0).outcome, Outcome::TimedOut);
  EXPECT_EQ(send(*producer, 1, 0), Outcome::Ready);
  EXPECT_EQ(send(*producer, 2, 0), Outcome::Ready);
  EXPECT_EQ(send(*producer, 3, 0), Outcome::TimedOut);
}

TEST(Channel, ATimeoutHolds) {
  Channel channel = make_channel({.slots_per_lane = 1});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  std::int64_t begin = os::awake_now_ns();
  EXPECT_EQ(consumer->take(begin + 50 * kMs).outcome, Outcome::TimedOut);
  EXPECT_GE(os::awake_now_ns(), begin + 50 * kMs);
  ASSERT_EQ(send(*producer, 1, 0), Outcome::Ready);
  begin = os::awake_now_ns();
  EXPECT_EQ(producer->acquire(begin + 300 * kMs).outcome, Outcome::TimedOut);
  EXPECT_GE(os::awake_now_ns(), begin + 300 * kMs) << "longer than one wait of the kernel";
}

TEST(Channel, SeveralAreHeldAtOnceAndReleasedInAnyOrder) {
  Channel channel = make_channel({.slots_per_lane = 4});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  for (int round = 0; round < 10; ++round) {
    std::vector<Slot> slots;
    for (int i = 0; i < 4; ++i) slots.push_back(producer->acquire(0).slot);
    EXPECT_EQ(producer->acquire(0).outcome, Outcome::TimedOut);
    for (int i : {2, 0, 3, 1}) ASSERT_TRUE(producer->publish(slots[static_cast<size_t>(i)], 8));
    std::vector<Item> items;
    for (int i = 0; i < 4; ++i) items.push_back(consumer->take(0).item);
    for (int i : {1, 3, 0, 2}) ASSERT_TRUE(consumer->release(items[static_cast<size_t>(i)]));
  }
  EXPECT_EQ(misplaced(channel), "");
}

TEST(Channel, AnAbandonedSlotComesAgainAndSendsNothing) {
  Channel channel = make_channel({.slots_per_lane = 1});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  Acquired got = producer->acquire(0);
  ASSERT_TRUE(producer->abandon(got.slot));
  EXPECT_EQ(consumer->take(0).outcome, Outcome::TimedOut);
  EXPECT_EQ(producer->acquire(0).outcome, Outcome::Ready);
}

TEST(Channel, MayBeFilledBeforeAConsumerComes) {
  Channel channel = make_channel({.consumers = 3, .slots_per_lane = 2});
  auto producer = producer_of(channel);
  for (std::uint64_t i = 1; i <= 6; ++i) ASSERT_EQ(send(*producer, i, 0), Outcome::Ready);
  auto consumer = consumer_of(channel);
  for (std::uint64_t i = 1; i <= 6; ++i) EXPECT_EQ(consumer->take(0).item.sequence, i);
}

TEST(Channel, ConsumersThatWaitShareTheWork) {
  Channel channel = make_channel({.consumers = 2, .slots_per_lane = 4});
  auto producer = producer_of(channel);
  auto one = consumer_of(channel);
  auto other = consumer_of(channel);
  for (std::uint64_t i = 1; i <= 8; ++i) ASSERT_EQ(send(*producer, i, 0), Outcome::Ready);
  int of_one = 0;
  int of_other = 0;
  while (one->take(0).outcome == Outcome::Ready) ++of_one;
  while (other->take(0).outcome == Outcome::Ready) ++of_other;
  EXPECT_EQ(of_one, 4);
  EXPECT_EQ(of_other, 4);
}

TEST(Channel, AProducerThatComesLaterSharesTheWorkAsWell) {
  Channel channel = make_channel({.consumers = 2, .slots_per_lane = 3});
  auto first = consumer_of(channel);
  auto second = consumer_of(channel);
  auto producer = producer_of(channel);
  std::vector<Item> held;
  for (std::uint64_t i = 1; i <= 4; ++i) send(*producer, i, 0);
  for (int i = 0; i < 2; ++i) held.push_back(first->take(0).item);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(second->release(second->take(0).item));
  ASSERT_TRUE(producer->abandon(producer->acquire(0).slot));  // it has taken those two back
  producer = nullptr;
  auto next = producer_of(channel);
  // What the first one gives back was sent by another producer: no reason to prefer it.
  for (const Item& item : held) ASSERT_TRUE(first->release(item));
  for (std::uint64_t i = 5; i <= 8; ++i) ASSERT_EQ(send(*next, i, 0), Outcome::Ready);
  for (Consumer* consumer : {first.get(), second.get()}) {
    std::uint32_t items = 0;
    for (int i = 0; i < 6; ++i) items += consumer->take(0).outcome == Outcome::Ready ? 1 : 0;
    EXPECT_EQ(items, 2U);
  }
}

TEST(Channel, EveryConsumerSeesTheEndOnceAllHaveClosed) {
  Channel channel = make_channel({.producers = 2, .consumers = 2});
  auto first = producer_of(channel);
  auto second = producer_of(channel);
  auto one = consumer_of(channel);
  auto other = consumer_of(channel);
  ASSERT_EQ(send(*first, 1, 0), Outcome::Ready);
  first->close();
  EXPECT_EQ(first->acquire(0).outcome, Outcome::Ended);
  EXPECT_EQ(one->take(0).outcome, Outcome::Ready);
  EXPECT_EQ(one->take(0).outcome, Outcome::TimedOut) << "the second producer goes on";
  second->close();
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(one->take(0).outcome, Outcome::Ended);
    EXPECT_EQ(other->take(0).outcome, Outcome::Ended);
  }
}

TEST(Channel, APlaceThatNobodyTookKeepsItOpenUntilItIsComplete) {
  Channel channel = make_channel({.producers = 2});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  producer->close();
  EXPECT_EQ(consumer->take(0).outcome, Outcome::TimedOut);
  channel.complete();
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Ended);
  EXPECT_EQ(channel.attach_producer().error().kind, ErrorKind::Invalid);
}

/// A producer comes while the channel is completed, and closes.  False: it was turned away.
bool comes_while_completed(const Channel& channel) {
  std::atomic<bool> go = false;
  std::thread completing([&] {
    while (!go) {
    }
    channel.complete();
  });
  go = true;
  Result<std::unique_ptr<Producer>> producer = channel.attach_producer();
  completing.join();
  if (!producer) {
    EXPECT_EQ(producer.error().kind, ErrorKind::Invalid);
    return false;
  }
  (*producer)->close();
  return true;
}

TEST(Channel, WhoComesWhileItIsCompletedIsNeverSaidToHaveLeft) {
  int turned_away = 0;
  for (int round = 0; round < 2000; ++round) {
    Channel channel = make_channel({.producers = 1});
    auto consumer = consumer_of(channel);
    turned_away += comes_while_completed(channel) ? 0 : 1;
    ASSERT_EQ(consumer->take(soon()).outcome, Outcome::Ended) << "round " << round;
  }
  std::printf("             %d of 2000 were turned away\n", turned_away);
}

TEST(Channel, WhoIsTurnedAwayHidesNoEarlierEnd) {
  for (int round = 0; round < 2000; ++round) {
    Channel channel = make_channel({.producers = 1});
    auto earlier = producer_of(channel);
    ASSERT_EQ(send(*earlier, 1, 0), Outcome::Ready);
    earlier.reset();
    bool came = comes_while_completed(channel);
    auto consumer = consumer_of(channel);
    ASSERT_EQ(consumer->take(soon()).outcome, Outcome::Ready);
    if (!came) {
      ASSERT_EQ(consumer->take(soon()).outcome, Outcome::PeerLeft) << "round " << round;
    }
    ASSERT_EQ(consumer->take(soon()).outcome, Outcome::Ended) << "round " << round;
  }
}

TEST(Channel, AProducerThatLeavesWithoutClosingIsTold) {
  Channel channel = make_channel({});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  ASSERT_EQ(send(*producer, 1, 0), Outcome::Ready);
  producer.reset();
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Ready);
  Taken taken = consumer->take(0);
  EXPECT_EQ(taken.outcome, Outcome::PeerLeft);
  EXPECT_EQ(taken.peer.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(taken.peer.last_sequence, 1U);
  EXPECT_EQ(consumer->take(0).outcome, Outcome::TimedOut) << "told once";
  auto next = producer_of(channel);
  ASSERT_EQ(send(*next, 2, 0), Outcome::Ready);
  EXPECT_EQ(consumer->take(0).item.sequence, 2U) << "numbers go on";
}

TEST(Channel, WhatAConsumerLeavesBehindGoesToAnother) {
  Channel channel = make_channel({.consumers = 2, .slots_per_lane = 2});
  auto producer = producer_of(channel);
  auto one = consumer_of(channel);
  auto other = consumer_of(channel);
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(send(*producer, i, 0), Outcome::Ready);
  Item held = one->take(0).item;
  EXPECT_EQ(held.sequence, 1U);
  one.reset();  // releases what it held; one item it had not taken
  EXPECT_EQ(producer->acquire(0).outcome, Outcome::PeerLeft);
  std::vector<std::uint64_t> got;
  for (Taken t = other->take(0); t.outcome == Outcome::Ready; t = other->take(0)) {
    got.push_back(t.item.sequence);
  }
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (std::vector<std::uint64_t>{2, 3, 4}));
}

TEST(Channel, AHandleOfAnEarlierOwnerIsRefused) {
  Channel channel = make_channel({});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  ASSERT_EQ(send(*producer, 1, 0), Outcome::Ready);
  Slot slot = producer->acquire(0).slot;
  Item item = consumer->take(0).item;
  producer->detach();
  consumer->detach();
  EXPECT_EQ(producer->publish(slot, 8).error().kind, ErrorKind::Unavailable);
  EXPECT_EQ(producer->acquire(0).outcome, Outcome::Stale);
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Stale);
  auto next_producer = producer_of(channel);
  auto next_consumer = consumer_of(channel);
  EXPECT_EQ(next_producer->index(), 0U);
  Error error = next_producer->publish(slot, 8).error();
  EXPECT_EQ(error.kind, ErrorKind::Invalid);
  EXPECT_NE(error.message.find("earlier owner"), std::string::npos) << error.message;
  EXPECT_EQ(next_consumer->release(item).error().kind, ErrorKind::Invalid);
}

TEST(Channel, TwiceAndTooMuchAreRefused) {
  Channel channel = make_channel({});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  Slot slot = producer->acquire(0).slot;
  EXPECT_EQ(producer->publish(slot, 257).error().kind, ErrorKind::Invalid);
  ASSERT_TRUE(producer->publish(slot, 256));
  EXPECT_EQ(producer->publish(slot, 8).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(producer->abandon(slot).error().kind, ErrorKind::Invalid);
  Item item = consumer->take(0).item;
  ASSERT_TRUE(consumer->release(item));
  EXPECT_EQ(consumer->release(item).error().kind, ErrorKind::Invalid);
}

TEST(Channel, ThereIsAPlaceForEachAndNoMore) {
  Channel channel = make_channel({.producers = 2});
  auto one = producer_of(channel);
  auto other = producer_of(channel);
  EXPECT_NE(one->index(), other->index());
  EXPECT_EQ(channel.attach_producer().error().kind, ErrorKind::Busy);
  one.reset();
  EXPECT_TRUE(channel.attach_producer());
}

TEST(Channel, HasNoMoreEndsThanOneWaitCanWatch) {
  Channel most = make_channel({.producers = 1, .consumers = kMostEnds, .slots_per_lane = 1});
  Result<Channel> more =
      Channel::create({.consumers = kMostEnds + 1, .slots_per_lane = 1, .slot_bytes = 64});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().kind, ErrorKind::Invalid);
  EXPECT_NE(more.error().message.find("128"), std::string::npos) << more.error().message;
  // All of them are watched at once: one slot each, all of them taken.
  auto producer = producer_of(most);
  std::vector<std::unique_ptr<Consumer>> consumers;
  for (std::uint32_t i = 0; i < kMostEnds; ++i) consumers.push_back(consumer_of(most));
  for (std::uint32_t i = 0; i < kMostEnds; ++i) ASSERT_EQ(send(*producer, i, 0), Outcome::Ready);
  EXPECT_EQ(producer->acquire(in_ms(20)).outcome, Outcome::TimedOut);
}

TEST(Channel, SlotsLieAtPagesWhereThatIsAskedFor) {
  for (bool page_aligned : {false, true}) {
    Channel channel = make_channel({.slot_bytes = 100, .page_aligned = page_aligned});
    auto producer = producer_of(channel);
    for (int i = 0; i < 4; ++i) {
      auto at = reinterpret_cast<std::uintptr_t>(producer->acquire(0).slot.data);
      EXPECT_EQ(at % (page_aligned ? 4096 : 64), 0U);
    }
  }
}

TEST(Channel, OptionsThatCannotBeAreRefused) {
  EXPECT_EQ(Channel::create({.slot_bytes = 0}).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(Channel::create({.producers = 0, .slot_bytes = 8}).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(Channel::create({.slots_per_lane = 0, .slot_bytes = 8}).error().kind,
            ErrorKind::Invalid);
  EXPECT_EQ(Channel::create({.slot_bytes = ~std::uint64_t{0}}).error().kind, ErrorKind::Invalid);
  EXPECT_EQ(Channel::create({.slot_bytes = std::uint64_t{1} << 43}).error().kind, ErrorKind::Full);
}

TEST(Channel, TheNoteIsReadByWhoAdoptsIt) {
  for (const std::string& note : {std::string(), std::string("two\0words", 9)}) {
    Channel channel = std::move(*Channel::create({.slot_bytes = 1, .note = note}));
    EXPECT_EQ(channel.note(), note);
    EXPECT_EQ(Channel::adopt(os::UniqueFd(::dup(channel.fd())))->note(), note);
  }
}

TEST(Channel, AnotherSegmentIsNotAdopted) {
  Result<Segment> segment = Segment::create("other", 1 << 16);
  Result<Channel> adopted =
      Channel::adopt(os::UniqueFd(::fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0)));
  EXPECT_EQ(adopted.error().kind, ErrorKind::Corrupt);
}

TEST(Channel, IsDescribedToWhoIsNoPartOfIt) {
  Channel channel = make_channel({.name = "batches", .consumers = 2, .slots_per_lane = 2});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(send(*producer, i, 0), Outcome::Ready);
  ASSERT_TRUE(consumer->release(consumer->take(0).item));
  Result<Channel> look = Channel::adopt(os::UniqueFd(::fcntl(channel.fd(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_TRUE(look) << look.error().message;
  ChannelState state = look->describe();
  EXPECT_EQ(state.name, "batches");
  EXPECT_EQ(state.geometry.slots, 4U);
  EXPECT_TRUE(state.producers[0].alive);
  EXPECT_EQ(state.producers[0].owner.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(state.producers[0].sequence, 3U);
  EXPECT_TRUE(state.consumers[0].alive);
  EXPECT_EQ(state.consumers[0].sequence, 1U);
  EXPECT_EQ(state.consumers[1].owner.state, PlaceState::Vacant);
  EXPECT_EQ(state.lanes[0].ready, 2U);
  EXPECT_EQ(state.lanes[0].free, 1U);
}

}  // namespace
}  // namespace pergpu::share
