// One ring: first in, first out over any number of turns, and no index leads outside.
#include "share/ring.h"

#include <rapidcheck.h>

#include <array>
#include <deque>

#include "share/rig.h"

namespace pergpu::share {
namespace {

struct RingMemory {
  RingWords words = {};
  std::array<Word, 8> entries = {};
  Ring ring() { return {.words = &words, .entries = entries.data(), .mask = 7, .slots = 6}; }
};

void holds(const std::function<void()>& property) { EXPECT_TRUE(rc::check(property)); }

TEST(Ring, FirstInFirstOut) {
  holds([] {
    RingMemory memory;
    auto start = *rc::gen::arbitrary<std::uint32_t>();  // so the indices wrap
    memory.words.tail = start;
    memory.words.head = start;
    PushEnd in(memory.ring());
    PopEnd out(memory.ring());
    std::deque<std::uint32_t> expected;
    for (std::uint32_t i = 0; i < 200; ++i) {
      RC_ASSERT(in.waiting() == expected.size());
      if (expected.size() < 6 && *rc::gen::arbitrary<bool>()) {
        in.push(i % 6);
        expected.push_back(i % 6);
        continue;
      }
      std::uint32_t slot = 99;
      Popped popped = out.peek(slot);
      RC_ASSERT((popped == Popped::Empty) == expected.empty());
      RC_ASSERT(out.empty() == expected.empty());
      if (expected.empty()) continue;
      RC_ASSERT(slot == expected.front());
      expected.pop_front();
      out.advance();
    }
  });
}

TEST(Ring, ASecondOwnerOfAnEndGoesOnWhereTheFirstWas) {
  RingMemory memory;
  PushEnd in(memory.ring());
  in.push(3);
  in.push(4);
  std::uint32_t slot = 0;
  PopEnd first(memory.ring());
  ASSERT_EQ(first.peek(slot), Popped::Got);
  first.advance();
  PushEnd next_in(memory.ring());
  next_in.push(5);
  PopEnd next(memory.ring());
  for (std::uint32_t expected : {4U, 5U}) {
    ASSERT_EQ(next.peek(slot), Popped::Got);
    EXPECT_EQ(slot, expected);
    next.advance();
  }
  EXPECT_EQ(next.peek(slot), Popped::Empty);
}

TEST(Ring, GarbageIsCorruptAndNeverOutside) {
  holds([] {
    RingMemory memory;
    PushEnd in(memory.ring());
    PopEnd out(memory.ring());
    for (int i = 0; i < 20; ++i) {
      memory.words.tail = *rc::gen::arbitrary<std::uint32_t>();
      memory.words.head = *rc::gen::arbitrary<std::uint32_t>();
      memory.entries[*rc::gen::inRange<std::size_t>(0, 8)] = *rc::gen::arbitrary<std::uint32_t>();
      RC_ASSERT(in.waiting() <= 8U);
      std::uint32_t slot = 0;
      if (out.peek(slot) == Popped::Got) {
        RC_ASSERT(slot < 6U);
        out.advance();
      }
      in.push(*rc::gen::inRange<std::uint32_t>(0, 6));
    }
  });
}

TEST(Ring, OnlyASleeperIsWoken) {
  Word flag{0};
  wake_sleeper(flag);
  EXPECT_EQ(flag.load(), 0U);
  flag = 1;
  wake_sleeper(flag);
  EXPECT_EQ(flag.load(), 0U);
}

}  // namespace
}  // namespace pergpu::share
