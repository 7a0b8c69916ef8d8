// Both ends as threads over ONE mapping: the only way in which ThreadSanitizer sees what one end
// does to the other.  It knows nothing of two processes, nor of two mappings of one page.
#include <thread>

#include "os/test_hooks.h"
#include "share/rig.h"

namespace pergpu::share {
namespace {

struct Counts {
  std::atomic<std::uint64_t> items{0};
  std::atomic<std::uint64_t> sum{0};  // of what the items say
  std::atomic<std::uint64_t> bad{0};
  bool in_order = true;  // what a consumer left goes to another one out of its turn
};

/// Publishes 1 … count, several at a time, and closes.
void produce(const Channel& channel, std::uint64_t first, std::uint64_t count, Counts& counts) {
  auto producer = producer_of(channel);
  for (std::uint64_t number = first; number < first + count; ++number) {
    Outcome outcome = send(*producer, number, soon());
    if (outcome == Outcome::PeerLeft)
      --number;
    else if (outcome != Outcome::Ready)
      ++counts.bad;
  }
  producer->close();
}

/// Takes until the end; each item holds its own number in its first eight bytes.
void consume(const Channel& channel, std::uint64_t at_most, Counts& counts) {
  auto consumer = consumer_of(channel);
  std::vector<std::uint64_t> last(channel.geometry().producers);
  std::vector<Item> held;
  for (std::uint64_t i = 0; i < at_most; ++i) {
    Taken taken = consumer->take(soon());
    if (taken.outcome == Outcome::Ended) break;
    if (taken.outcome != Outcome::Ready) {
      ++counts.bad;
      break;
    }
    std::uint64_t first = 0;
    std::memcpy(&first, taken.item.data, 8);
    std::uint64_t number = first * 0xF1DE83E19937733D;  // the inverse of what fill() multiplies by
    bool whole = is_whole(taken.item.data, taken.item.bytes, number);
    bool later = !counts.in_order || taken.item.sequence > last[taken.item.producer];
    if (!whole || !later) ++counts.bad;
    last[taken.item.producer] = taken.item.sequence;
    ++counts.items;
    counts.sum += number;
    held.push_back(taken.item);
    if (held.size() == 2) {
      for (const Item& item : held) {
        if (!consumer->release(item)) ++counts.bad;
      }
      held.clear();
    }
  }
}

TEST(ChannelThreads, OneToOneInOrderAndWhole) {
  Channel channel = make_channel({.slots_per_lane = 3});
  Counts counts;
  constexpr std::uint64_t kItems = 20000;
  std::jthread consumer([&] { consume(channel, kItems + 1, counts); });
  produce(channel, 1, kItems, counts);
  consumer.join();
  EXPECT_EQ(counts.items, kItems);
  EXPECT_EQ(counts.sum, kItems * (kItems + 1) / 2);
  EXPECT_EQ(counts.bad, 0U);
  EXPECT_EQ(misplaced(channel), "");
}

TEST(ChannelThreads, EachItemOfManyGoesToOneOfMany) {
  Channel channel = make_channel({.producers = 3, .consumers = 3, .slots_per_lane = 2});
  Counts counts;
  constexpr std::uint64_t kEach = 4000;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { consume(channel, ~0U, counts); });
  for (std::uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back(
        [&channel, &counts, i] { produce(channel, 1 + i * kEach, kEach, counts); });
  }
  threads.clear();
  EXPECT_EQ(counts.items, 3 * kEach);
  EXPECT_EQ(counts.sum, 3 * kEach * (3 * kEach + 1) / 2);
  EXPECT_EQ(counts.bad, 0U);
  EXPECT_EQ(misplaced(channel), "");
}

TEST(ChannelThreads, ConsumersThatComeAndGoLoseNothing) {
  Channel channel = make_channel({.producers = 2, .consumers = 3, .slots_per_lane = 2});
  Counts counts;
  counts.in_order = false;
  constexpr std::uint64_t kEach = 2000;
  std::vector<std::jthread> threads;
  for (std::uint64_t i = 0; i < 2; ++i) {
    threads.emplace_back(
        [&channel, &counts, i] { produce(channel, 1 + i * kEach, kEach, counts); });
  }
  threads.emplace_back([&] { consume(channel, ~0U, counts); });
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int visit = 0; visit < 20; ++visit) consume(channel, 20, counts);
    });
  }
  threads.clear();
  EXPECT_EQ(counts.items, 2 * kEach);
  EXPECT_EQ(counts.sum, 2 * kEach * (2 * kEach + 1) / 2);
  EXPECT_EQ(counts.bad, 0U);
}

TEST(ChannelThreads, AsOnAKernelThatWatchesOneWord) {
  os::pretend_missing(os::KernelCall::FutexWaitv, true);
  Channel channel = make_channel({.producers = 2, .consumers = 1, .slots_per_lane = 2});
  Counts counts;
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { produce(channel, 1, 500, counts); });
  threads.emplace_back([&] { produce(channel, 501, 500, counts); });
  consume(channel, ~0U, counts);
  threads.clear();
  os::pretend_missing(os::KernelCall::FutexWaitv, false);
  EXPECT_EQ(counts.items, 1000U);
  EXPECT_EQ(counts.sum, 500500U);
  EXPECT_EQ(counts.bad, 0U);
}

TEST(ChannelThreads, AThreadThatEndsDoesNotEndTheProducer) {
  Channel channel = make_channel({});
  std::unique_ptr<Producer> producer;
  std::thread([&] { producer = producer_of(channel); }).join();
  auto consumer = consumer_of(channel);
  EXPECT_EQ(consumer->take(in_ms(30)).outcome, Outcome::TimedOut) << "its process lives";
  ASSERT_EQ(send(*producer, 1, 0), Outcome::Ready);
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Ready);
}

}  // namespace
}  // namespace pergpu::share
