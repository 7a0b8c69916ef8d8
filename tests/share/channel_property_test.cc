// What holds for every channel, whatever passes through it: items of any size, held for any time
// and released in any order, come out whole and once, in the order of their producer.  And many of
// them: a hundred million with PERGPU_LONG=1 in the environment.
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "share/rig.h"

namespace pergpu::share {
namespace {

class ChannelProperty : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seed, ChannelProperty, ::testing::Range(0, 20));

TEST_P(ChannelProperty, AnyItemsHeldAndReleasedAnyhowComeOutWholeAndInOrder) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  auto below = [&random](std::uint64_t limit) { return random() % limit; };
  std::uint64_t most = 8 + below(70'000);
  auto slots = static_cast<std::uint32_t>(1 + below(7));
  Channel channel = make_channel({.slots_per_lane = slots, .slot_bytes = most});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  std::map<std::uint64_t, std::uint64_t> sizes;  // by sequence
  std::vector<Slot> filling;
  std::vector<Item> held;
  std::uint64_t published = 0;
  std::uint64_t taken = 0;
  auto is_as_sent = [&](const Item& item) {
    return item.bytes == sizes[item.sequence] && is_whole(item.data, item.bytes, item.sequence);
  };
  for (int step = 0; step < 2000; ++step) {
    switch (below(4)) {
      case 0: {
        Acquired got = producer->acquire(0);
        bool all_out = filling.size() + held.size() + (published - taken) == slots;
        ASSERT_EQ(got.outcome, all_out ? Outcome::TimedOut : Outcome::Ready);
        if (!all_out) filling.push_back(got.slot);
        break;
      }
      case 1: {
        if (filling.empty()) break;
        std::size_t which = below(filling.size());
        std::uint64_t bytes = below(most + 1);
        fill(filling[which].data, bytes, ++published);
        sizes[published] = bytes;
        ASSERT_TRUE(producer->publish(filling[which], bytes));
        filling.erase(filling.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      }
      case 2: {
        Taken got = consumer->take(0);
        ASSERT_EQ(got.outcome, taken == published ? Outcome::TimedOut : Outcome::Ready);
        if (taken == published) break;
        ASSERT_EQ(got.item.sequence, ++taken);
        EXPECT_TRUE(is_as_sent(got.item));
        held.push_back(got.item);
        break;
      }
      default: {
        if (held.empty()) break;
        std::size_t which = below(held.size());
        EXPECT_TRUE(is_as_sent(held[which])) << "changed while it was held";
        ASSERT_TRUE(consumer->release(held[which]));
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
  }
  EXPECT_GT(taken, 100U);
  EXPECT_EQ(misplaced(channel), "");
}

TEST(ChannelProperty, ASlotThatIsHeldIsNotWrittenHoweverManyPass) {
  Channel channel = make_channel({.slots_per_lane = 2});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  ASSERT_EQ(send(*producer, 1, 0), Outcome::Ready);
  Item kept = consumer->take(0).item;
  for (std::uint64_t number = 2; number < 1000; ++number) {
    ASSERT_EQ(send(*producer, number, 0), Outcome::Ready);
    ASSERT_TRUE(consumer->release(consumer->take(0).item));
  }
  EXPECT_TRUE(is_whole(kept.data, kept.bytes, 1));
  EXPECT_TRUE(consumer->release(kept));
}

TEST(ChannelProperty, NoneOfManySmallItemsIsLostOrComesTwice) {
  const char* wanted = std::getenv("PERGPU_LONG");
  bool is_long = wanted != nullptr && std::string(wanted) != "0";
  std::uint64_t count = is_long ? 100'000'000 : 100'000;
  Channel channel = make_channel({.slots_per_lane = 16, .slot_bytes = 8});
  auto consumer = consumer_of(channel);
  std::jthread sending([&] {
    auto producer = producer_of(channel);
    for (std::uint64_t i = 1; i <= count; ++i) {
      Acquired got = producer->acquire(kForever);
      if (got.outcome != Outcome::Ready) break;
      std::memcpy(got.slot.data, &i, 8);
      if (!producer->publish(got.slot, 8)) break;
    }
    producer->close();
  });
  std::uint64_t wrong = 0;
  std::uint64_t taken = 0;
  while (true) {
    Taken got = consumer->take(in_ms(60'000));
    if (got.outcome != Outcome::Ready) {
      EXPECT_EQ(got.outcome, Outcome::Ended);
      break;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, got.item.data, 8);
    if (number != ++taken || got.item.sequence != taken) ++wrong;
    if (!consumer->release(got.item)) ++wrong;
  }
  EXPECT_EQ(taken, count);
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(misplaced(channel), "");
}

}  // namespace
}  // namespace pergpu::share
