// The C++ header on top of the C interface: what it owns it gives back.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <pergpu_share.hpp>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using pergpu_share::Outcome;

TEST(CppApi, WhatFailsThrowsWithTheWordsOfTheLibrary) {
  try {
    pergpu_share::Memory memory("test", 0);
    FAIL() << "memory of nothing";
  } catch (const pergpu_share::Error& error) {
    EXPECT_EQ(error.code(), PERGPU_SHARE_INVALID);
    EXPECT_EQ(error.os_errno(), EINVAL);
    EXPECT_STREQ(error.what(), "0 bytes of memory can't be allocated");
  }
  EXPECT_THROW(pergpu_share::Memory::adopt(-1), pergpu_share::Error);
  EXPECT_THROW(pergpu_share::Channel({.slot_bytes = 0}), pergpu_share::Error);
}

TEST(CppApi, MappingsOutliveTheirMemory) {
  pergpu_share::Memory memory("test", 4096);
  {
    pergpu_share::Mapping mapping = memory.map(pergpu_share::View::Shared);
    mapping.bytes()[7] = std::byte{42};
  }
  memory.seal();
  EXPECT_TRUE(memory.sealed());
  pergpu_share::Memory other = pergpu_share::Memory::adopt(::fcntl(memory.fd(), F_DUPFD, 0));
  pergpu_share::Mapping mapping = other.map(pergpu_share::View::ReadOnly);
  memory = std::move(other);
  memory = pergpu_share::Memory("another", 1);
  EXPECT_EQ(mapping.bytes().size(), 4096u);
  EXPECT_EQ(mapping.bytes()[7], std::byte{42});
}

TEST(CppApi, SlotsAndItemsGoBackByThemselves) {
  pergpu_share::Channel channel({.slots_per_lane = 1, .slot_bytes = 8});
  pergpu_share::Producer producer = channel.producer();
  pergpu_share::Consumer consumer = channel.consumer();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(producer.acquire(0ns)) << "the only slot was abandoned";
  }
  for (std::uint64_t number = 1; number <= 3; ++number) {
    pergpu_share::Acquired got = producer.acquire(0ns);
    ASSERT_TRUE(got);
    std::memcpy(got.slot.bytes().data(), &number, 8);
    EXPECT_THROW(got.slot.publish(9), pergpu_share::Error);
    got.slot.publish(8);
    EXPECT_EQ(producer.acquire(0ns).outcome, Outcome::TimedOut);
    pergpu_share::Taken taken = consumer.take(0ns);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken.item.sequence(), number);
    EXPECT_EQ(taken.item.bytes().size(), 8u);
    EXPECT_EQ(producer.acquire(0ns).outcome, Outcome::TimedOut) << "it is being read";
    pergpu_share::Item moved = std::move(taken.item);
    EXPECT_EQ(std::memcmp(moved.bytes().data(), &number, 8), 0);
  }
  producer.close();
  EXPECT_EQ(consumer.take().outcome, Outcome::Ended);
  EXPECT_STREQ(name_of(Outcome::Ended), "ended");
}

TEST(CppApi, WhoLeavesGivesItsPlaceUp) {
  pergpu_share::Channel made({.slot_bytes = 8});
  pergpu_share::Channel channel = pergpu_share::Channel::adopt(::fcntl(made.fd(), F_DUPFD, 0));
  EXPECT_EQ(channel.describe().slot_bytes, 8u);
  { pergpu_share::Producer first = channel.producer(); }
  pergpu_share::Producer second = made.producer();
  EXPECT_EQ(second.index(), 0u);
  EXPECT_EQ(made.place(pergpu_share::Side::Producers, 0).alive, 1u);
}

TEST(CppApi, BatchesGoBackByThemselves) {
  std::vector<std::uint32_t> rows(6);
  std::iota(rows.begin(), rows.end(), 0u);
  pergpu_share_field field = {.data = rows.data(), .row_bytes = 4, .image = nullptr};
  pergpu_share_loader_options options = {};
  options.rows = rows.size();
  options.batch = 2;
  options.ahead = 1;
  options.in_order = 1;
  pergpu_share::Loader loader(options, {&field, 1});
  EXPECT_EQ(loader.describe().batches, 3u);
  for (std::uint32_t i = 0; i < 9; ++i) {
    pergpu_share::Batch batch = loader.next();
    ASSERT_TRUE(batch) << name_of(batch.outcome());
    EXPECT_EQ(batch.epoch(), i / 3);
    EXPECT_EQ(batch.number(), i % 3);
    ASSERT_EQ(batch.field(0).size(), 8u);
    EXPECT_EQ(std::memcmp(batch.field(0).data(), &rows[2 * (i % 3)], 8), 0);
    EXPECT_THROW(batch.field(1), pergpu_share::Error);
  }
}

}  // namespace
