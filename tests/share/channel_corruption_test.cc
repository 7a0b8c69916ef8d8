// A process that writes over the shared memory, by mistake or on purpose, can break a channel.  It
// cannot make us read or write outside, crash, or wait past a deadline.
#include <fcntl.h>

#include <array>
#include <random>
#include <thread>

#include "share/rig.h"

namespace pergpu::share {
namespace {

using Random = std::mt19937_64;

std::uint64_t below(Random& random, std::uint64_t limit) { return random() % limit; }

/// A value that is likely to hit a weak spot.
std::uint64_t nasty(Random& random, std::uint64_t present) {
  switch (below(random, 6)) {
    case 0:
      return random();
    case 1:
      return 0;
    case 2:
      return ~std::uint64_t{0};
    case 3:
      return present + 1;
    case 4:
      return present ^ (std::uint64_t{1} << below(random, 64));
    default:
      return below(random, 16);
  }
}

/// Writes over a word or a few of everything but the payload.
void scribble(const Channel& channel, Random& random) {
  std::byte* base = channel.core().mapping.data();
  std::uint64_t end = channel.geometry().slots_at;
  const Geometry& g = channel.geometry();
  for (std::uint64_t i = below(random, 4) + 1; i > 0; --i) {
    // Most of it is padding: aim at what is used.
    std::uint64_t at = below(random, end / 8) * 8;
    std::uint64_t aim = below(random, 10);
    if (aim < 2) {
      constexpr std::uint64_t kUsed[] = {0, 64, 72, 128, 4088};
      at = g.page_bytes * (1 + below(random, g.producers + g.consumers)) + kUsed[below(random, 5)];
    } else if (aim < 6) {
      std::uint64_t lane = below(random, g.producers * g.consumers);
      at = g.lanes_at + lane * g.lane_bytes + 64 * below(random, g.lane_bytes / 64);
    } else if (aim < 8) {
      at = g.descriptors_at + 8 * below(random, 3) + 64 * below(random, g.producers * g.slots);
    }
    auto* word = reinterpret_cast<std::atomic<std::uint64_t>*>(base + at);
    word->store(nasty(random, word->load()));
  }
}

class Corruption : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seed, Corruption, ::testing::Range(0, 6));

TEST_P(Corruption, NeverCrashesAndNeverHangs) {
  Random random(static_cast<std::uint64_t>(GetParam()));
  std::array<int, 8> outcomes = {};
  for (int round = 0; round < 50; ++round) {
    Channel channel = make_channel({.producers = 1 + static_cast<std::uint32_t>(round % 2),
                                    .consumers = 1 + static_cast<std::uint32_t>(round / 2 % 2),
                                    .slots_per_lane = 3,
                                    .slot_bytes = 64});
    std::vector<std::unique_ptr<Producer>> producers;
    std::vector<std::unique_ptr<Consumer>> consumers;
    std::vector<std::pair<Producer*, Slot>> slots;
    std::vector<std::pair<Consumer*, Item>> items;
    for (int step = 0; step < 60; ++step) {
      std::int64_t deadline = below(random, 20) == 0 ? in_ms(1) : 0;
      std::int64_t begin = os::awake_now_ns();
      switch (below(random, 10)) {
        case 0:
          if (step > 20 && below(random, 8) != 0) break;
          if (auto p = channel.attach_producer()) producers.push_back(std::move(*p));
          break;
        case 1:
          if (step > 20 && below(random, 8) != 0) break;
          if (auto c = channel.attach_consumer()) consumers.push_back(std::move(*c));
          break;
        case 2:
        case 3:
          if (!producers.empty()) {
            Acquired got = producers.back()->acquire(deadline);
            ++outcomes[static_cast<std::size_t>(got.outcome)];
            if (got.outcome != Outcome::Ready) break;
            std::memset(got.slot.data, 1, got.slot.size);
            slots.push_back({producers.back().get(), got.slot});
          }
          break;
        case 4:
        case 5:
          if (!slots.empty()) {
            (void)slots.back().first->publish(slots.back().second, below(random, 65));
            slots.pop_back();
          }
          break;
        case 6:
          if (!consumers.empty()) {
            Taken got = consumers.back()->take(deadline);
            ++outcomes[static_cast<std::size_t>(got.outcome)];
            if (got.outcome != Outcome::Ready) break;
            int sum = 0;
            for (std::size_t i = 0; i < got.item.bytes; ++i)
              sum += static_cast<int>(got.item.data[i]);
            items.push_back({consumers.back().get(), got.item});
            EXPECT_GE(sum, 0);
          }
          break;
        case 7:
          if (!items.empty()) {
            (void)items.back().first->release(items.back().second);
            items.pop_back();
          }
          break;
        case 8:
          EXPECT_LE(channel.describe().lanes.size(), 4U);
          break;
        default:
          if (step > 20) scribble(channel, random);
      }
      // Who attaches waits two seconds for a gate that a living process seems to hold.
      ASSERT_LT(os::awake_now_ns() - begin, 9000 * kMs);
    }
    slots.clear();
    items.clear();
  }
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::Ready)], 100);
  // It was aimed well.
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::Corrupt)], 0);
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::Stale)], 0);
}

/// Uses the channel as one end of it until it is told to stop, or that the memory is of no use.
int use(const Channel& channel, bool produces, Shared& shared) {
  while (shared[0] == 0) {
    if (produces) {
      Result<std::unique_ptr<Producer>> producer = channel.attach_producer();
      for (int i = 0; producer && i < 1000 && shared[0] == 0; ++i) {
        Acquired got = (*producer)->acquire(in_ms(2));
        if (got.outcome == Outcome::Corrupt || got.outcome == Outcome::Stale) break;
        if (got.outcome != Outcome::Ready) continue;
        std::memset(got.slot.data, 1, got.slot.size);
        if ((*producer)->publish(got.slot, got.slot.size)) ++shared[1];
      }
    } else {
      Result<std::unique_ptr<Consumer>> consumer = channel.attach_consumer();
      for (int i = 0; consumer && i < 1000 && shared[0] == 0; ++i) {
        Taken got = (*consumer)->take(in_ms(2));
        if (got.outcome == Outcome::Corrupt || got.outcome == Outcome::Stale) break;
        if (got.outcome != Outcome::Ready) continue;
        std::vector<std::byte> copy(got.item.data, got.item.data + got.item.bytes);
        if ((*consumer)->release(got.item)) ++shared[2];
      }
    }
    ++shared[produces ? 3 : 4];
    wake(shared[produces ? 3 : 4]);
    wait(shared[0], 0, in_ms(1));
  }
  return 0;
}

TEST_P(Corruption, OfMemoryThatBothEndsUseCrashesNeither) {
  Random random(static_cast<std::uint64_t>(GetParam()));
  std::uint64_t passed = 0;
  for (int round = 0; round < 20; ++round) {
    Channel channel = make_channel({.slots_per_lane = 3, .slot_bytes = 64});
    Shared shared;
    Forked producer([&] { return use(channel, true, shared); });
    Forked consumer([&] { return use(channel, false, shared); });
    ASSERT_TRUE(reaches(shared[2], 20));
    std::int64_t until = in_ms(20);
    while (os::awake_now_ns() < until) {
      scribble(channel, random);
      std::this_thread::yield();
    }
    // Either goes on, or says what is wrong; and what it is told to do it does.
    shared[0] = 1;
    wake(shared[0]);
    EXPECT_EQ(producer.wait(), 0);
    EXPECT_EQ(consumer.wait(), 0);
    passed += shared[2];
  }
  EXPECT_GE(passed, 20U * 20U);
}

TEST(CorruptHeader, IsNotAdopted) {
  Random random(1);
  Channel channel = make_channel({.slots_per_lane = 2, .slot_bytes = 64});
  std::byte* base = channel.core().mapping.data();
  for (std::size_t at = 0; at < offsetof(ChannelHeader, name); at += 4) {
    for (int i = 0; i < 50; ++i) {
      std::uint32_t before = 0;
      std::memcpy(&before, base + at, 4);
      auto value = static_cast<std::uint32_t>(nasty(random, before));
      std::memcpy(base + at, &value, 4);
      Result<Channel> adopted =
          Channel::adopt(os::UniqueFd(::fcntl(channel.fd(), F_DUPFD_CLOEXEC, 0)));
      if (adopted) {
        EXPECT_LE(adopted->geometry().total_bytes, channel.geometry().total_bytes);
      } else {
        EXPECT_EQ(adopted.error().kind, ErrorKind::Corrupt) << adopted.error().message;
      }
      std::memcpy(base + at, &before, 4);
    }
  }
}

TEST(CorruptRing, IsToldByBothEndsAndForGood) {
  Channel channel = make_channel({.slots_per_lane = 2});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  const Layout& layout = channel.core().layout;
  layout.ready(0, 0).words->tail = 1000;
  layout.free(0, 0).entries[0] = 77;
  layout.free(0, 0).words->tail = 1;
  for (int again = 0; again < 2; ++again) {
    Taken taken = consumer->take(soon());
    EXPECT_EQ(taken.outcome, Outcome::Corrupt);
    EXPECT_NE(std::string(taken.why), "");
    EXPECT_EQ(producer->acquire(soon()).outcome, Outcome::Corrupt);
  }
}

TEST(CorruptRing, ASlotIsNotGivenOutTwice) {
  Channel channel = make_channel({.slots_per_lane = 2});
  auto producer = producer_of(channel);
  auto consumer = consumer_of(channel);
  Slot slot = producer->acquire(0).slot;
  ASSERT_TRUE(producer->publish(slot, 8));
  const Layout& layout = channel.core().layout;
  layout.ready(0, 0).entries[1] = slot.index;
  layout.ready(0, 0).words->tail = 2;
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Ready);
  EXPECT_EQ(consumer->take(0).outcome, Outcome::Corrupt);
}

}  // namespace
}  // namespace pergpu::share
