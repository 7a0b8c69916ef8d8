// Parameters: what snapshots hold while threads and processes write, and what deaths leave.
#include "share/parameters.h"

#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <thread>

#include "share/rig.h"
#include "share/segment.h"

namespace pergpu::share {
namespace {

constexpr std::size_t kRow =
    4096;  // numbers of one writer: more than one page, so a copy takes time

/// One row for each writer, in which all numbers are the same, and the count of its updates.
class ParametersTest : public testing::Test {
 protected:
  static constexpr std::size_t kRows = 4;

  ParametersTest() {
    Result<Segment> segment =
        Segment::create("test", Parameters::size_for(4, kRows * kRow * sizeof(std::uint64_t)));
    EXPECT_TRUE(segment);
    mapping_ = std::move(*segment->map(View::Shared));
    Result<std::unique_ptr<Parameters>> made =
        Parameters::lay_out(memory(), "head", kRows * kRow * sizeof(std::uint64_t));
    EXPECT_TRUE(made);
    (*made)->complete();
  }

  std::span<std::byte> memory() { return {mapping_.data(), mapping_.size()}; }
  std::unique_ptr<Parameters> open() {
    Result<std::unique_ptr<Parameters>> opened = Parameters::open(memory());
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  static std::span<std::uint64_t> row(std::span<std::byte> data, std::size_t number) {
    return {reinterpret_cast<std::uint64_t*>(data.data()) + number * kRow, kRow};
  }
  static std::string counter_of(std::size_t writer) {
    return "updates of " + std::to_string(writer);
  }

  /// One update: the whole row, and the counter that says how many there were.
  static bool update(Parameters& shared, std::size_t writer) {
    Result<Outcome> entered = shared.gate().enter(soon());
    if (!entered || *entered != Outcome::Ready) return false;
    std::int64_t value = shared.count(*shared.counter(counter_of(writer)), 1);
    for (std::uint64_t& one : row(shared.data(), writer)) one = static_cast<std::uint64_t>(value);
    return shared.gate().leave();
  }
  /// How many rows of a snapshot have half an update in them.
  static std::size_t torn_rows(const Parameters::Snapshot& taken, std::span<std::byte> data) {
    std::size_t torn = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      std::uint64_t expected = 0;
      for (const Parameters::Counter& one : taken.counters) {
        if (one.name == counter_of(i)) expected = static_cast<std::uint64_t>(one.value);
      }
      std::span<std::uint64_t> numbers = row(data, i);
      bool whole = std::all_of(numbers.begin(), numbers.end(),
                               [expected](std::uint64_t one) { return one == expected; });
      if (!whole) ++torn;
    }
    return torn;
  }
  Parameters::Snapshot take(Parameters& shared, std::int64_t deadline = soon()) {
    copy_.resize(shared.data().size());
    Result<Parameters::Snapshot> taken =
        shared.snapshot(copy_, deadline, Parameters::IfLate::Refuse);
    EXPECT_TRUE(taken) << taken.error().message;
    return taken ? std::move(*taken) : Parameters::Snapshot{};
  }

  Mapping mapping_;
  std::vector<std::byte> copy_;
};

TEST_F(ParametersTest, SnapshotsOfThreadsHaveWholeUpdates) {
  std::atomic<bool> stop = false;
  auto shared = open();
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < kRows; ++i) {
    writers.emplace_back([&, i] {
      while (!stop) ASSERT_TRUE(update(*shared, i));
    });
  }
  for (int i = 0; i < 200; ++i) {
    Parameters::Snapshot taken = take(*shared);
    ASSERT_EQ(taken.outcome, Outcome::Ready);
    ASSERT_EQ(torn_rows(taken, copy_), 0U);
    EXPECT_EQ(taken.cut_updates, 0U);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
}

TEST_F(ParametersTest, SnapshotsOfProcessesHaveWholeUpdates) {
  std::vector<Forked> writers;
  for (std::size_t i = 0; i < kRows; ++i) {
    writers.emplace_back([this, i] {
      auto own = open();
      while (update(*own, i)) {
      }
      return 1;
    });
  }
  auto shared = open();
  std::int64_t before = 0;
  for (int i = 0; i < 200 || before == 0; ++i) {
    Parameters::Snapshot taken = take(*shared);
    ASSERT_EQ(taken.outcome, Outcome::Ready);
    ASSERT_EQ(torn_rows(taken, copy_), 0U);
    std::int64_t now = 0;
    for (const Parameters::Counter& one : taken.counters) now += one.value;
    ASSERT_GE(now, before) << "time goes on";
    before = now;
  }
}

TEST_F(ParametersTest, TwoTakeSnapshotsAtTheSameTime) {
  std::atomic<bool> stop = false;
  auto shared = open();
  std::thread writer([&] {
    while (!stop) ASSERT_TRUE(update(*shared, 0));
  });
  Forked other([this] {
    auto own = open();
    for (int i = 0; i < 100; ++i) {
      Parameters::Snapshot taken = take(*own);
      if (taken.outcome != Outcome::Ready || torn_rows(taken, copy_) != 0) return 1;
    }
    return 0;
  });
  auto own = open();
  for (int i = 0; i < 100; ++i) {
    Parameters::Snapshot taken = take(*own);
    ASSERT_EQ(taken.outcome, Outcome::Ready);
    ASSERT_EQ(torn_rows(taken, copy_), 0U);
  }
  EXPECT_EQ(other.wait(), 0);
  stop = true;
  writer.join();
}

// Each of the rows has a writer, which is killed at any moment; the next one goes on with its row.
TEST_F(ParametersTest, SurvivorsGoOnHoweverManyAreKilled) {
  std::mt19937 chance(7);
  auto start = [this](std::size_t i) {
    return Forked([this, i] {
      auto own = open();
      while (update(*own, i)) {
      }
      return 1;
    });
  };
  std::vector<Forked> writers;
  for (std::size_t i = 0; i < kRows; ++i) writers.push_back(start(i));
  auto shared = open();
  std::int64_t most = 0;
  for (int kills = 0; kills < 100; ++kills) {
    std::size_t victim = chance() % kRows;
    writers[victim].kill();
    Parameters::Snapshot taken = take(*shared);
    ASSERT_EQ(taken.outcome, Outcome::Ready);
    ASSERT_LE(torn_rows(taken, copy_), taken.cut_updates) << "half an update, and it is not said";
    for (const Parameters::Counter& one : taken.counters) most = std::max(most, one.value);
    writers[victim] = start(victim);
  }
  EXPECT_GT(most, 0);
  for (Forked& writer : writers) writer.kill();
  EXPECT_EQ(shared->gate().users(), std::vector<pid_t>{::getpid()});
}

TEST_F(ParametersTest, AnUpdateThatDeathHasCutIsTold) {
  auto shared = open();
  Shared told;
  Forked dying([&] {
    auto own = open();
    Result<Outcome> entered = own->gate().enter(soon());
    std::size_t counter = *own->counter(counter_of(0));
    own->count(counter, 1);
    row(own->data(), 0)[7] = 1;
    told[0] = 1;
    ::pause();
    return entered ? 0 : 1;
  });
  ASSERT_TRUE(reaches(told[0], 1));
  Parameters::Snapshot late = take(*shared, in_ms(20));
  EXPECT_EQ(late.outcome, Outcome::TimedOut);
  EXPECT_EQ(late.pid, static_cast<std::uint32_t>(dying.pid()));
  dying.kill();
  Parameters::Snapshot taken = take(*shared);
  EXPECT_EQ(taken.outcome, Outcome::Ready);
  EXPECT_EQ(taken.cut_updates, 1U);
  EXPECT_EQ(torn_rows(taken, copy_), 1U);
  ASSERT_TRUE(update(*shared, 0));
  taken = take(*shared);
  EXPECT_EQ(taken.cut_updates, 1U) << "it stays told";
  EXPECT_EQ(torn_rows(taken, copy_), 0U);
}

TEST_F(ParametersTest, ATornCopyIsMadeWhereItIsAskedForAndSaysSo) {
  auto shared = open();
  std::thread([&] {
    Result<Outcome> entered = shared->gate().enter(soon());
    ASSERT_TRUE(entered && *entered == Outcome::Ready);
    std::thread([&] {
      copy_.resize(shared->data().size());
      Result<Parameters::Snapshot> taken =
          shared->snapshot(copy_, in_ms(5), Parameters::IfLate::Tear);
      ASSERT_TRUE(taken);
      EXPECT_EQ(taken->outcome, Outcome::Ready);
      EXPECT_TRUE(taken->torn);
    }).join();
    EXPECT_TRUE(shared->gate().leave());
  }).join();
}

TEST_F(ParametersTest, ASnapshotInsideAnUpdateIsRefused) {
  auto shared = open();
  ASSERT_TRUE(shared->gate().enter(soon()));
  copy_.resize(shared->data().size());
  Result<Parameters::Snapshot> taken = shared->snapshot(copy_, soon(), Parameters::IfLate::Refuse);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::Invalid);
  EXPECT_TRUE(shared->gate().leave());
  std::vector<std::byte> small(8);
  EXPECT_FALSE(shared->snapshot(small, soon(), Parameters::IfLate::Refuse));
}

// ---- counters ----

TEST_F(ParametersTest, ProcessesThatNameCountersAtTheSameTimeCountTogether) {
  std::vector<Forked> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([this] {
      auto own = open();
      for (int step = 0; step < 3000; ++step) {
        Result<std::size_t> counter = own->counter("n" + std::to_string(step % 30));
        if (!counter) return 1;
        own->count(*counter, 2);
      }
      return 0;
    });
  }
  for (Forked& other : others) ASSERT_EQ(other.wait(), 0);
  std::vector<Parameters::Counter> counters = open()->counters();
  ASSERT_EQ(counters.size(), 30U);
  for (const Parameters::Counter& one : counters) EXPECT_EQ(one.value, 4 * 100 * 2) << one.name;
}

TEST_F(ParametersTest, CountersAreRefusedByNameAndNumber) {
  auto shared = open();
  for (const std::string& bad : {std::string(), std::string(48, 'x')}) {
    EXPECT_EQ(shared->counter(bad).error().kind, ErrorKind::Invalid);
  }
  for (std::size_t i = 0; i < Parameters::kMostCounters; ++i) {
    ASSERT_EQ(*shared->counter(std::string(40, 'x') + std::to_string(i)), i);
  }
  EXPECT_EQ(shared->counter("one more").error().kind, ErrorKind::Full);
  EXPECT_EQ(*shared->counter(std::string(40, 'x') + "5"), 5U);
  EXPECT_EQ(shared->count(5, -3), -3);
  EXPECT_EQ(shared->count(5, 1), -2);
}

// ---- what is in the memory ----

TEST_F(ParametersTest, HeadAndDataComeBack) {
  auto shared = open();
  EXPECT_EQ(shared->head(), "head");
  EXPECT_EQ(shared->data().size(), kRows * kRow * sizeof(std::uint64_t));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shared->data().data()) % 4096, 0U);
  EXPECT_EQ(shared->data_offset() + shared->data().size(), memory().size());
}

TEST_F(ParametersTest, WhatIsNotCompleteIsNotOpened) {
  std::vector<std::byte> room(Parameters::size_for(0, 64) + 64);
  std::size_t skipped = (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
  std::span<std::byte> zeroes = std::span(room).subspan(skipped, Parameters::size_for(0, 64));
  EXPECT_EQ(Parameters::open(zeroes).error().kind, ErrorKind::Invalid);
  auto made = Parameters::lay_out(zeroes, "", 64);
  ASSERT_TRUE(made);
  EXPECT_EQ(Parameters::open(zeroes).error().kind, ErrorKind::Invalid);
  (*made)->complete();
  EXPECT_TRUE(Parameters::open(zeroes));
  EXPECT_FALSE(Parameters::open(zeroes.first(zeroes.size() - 1)));
  EXPECT_FALSE(Parameters::open(zeroes.subspan(8)));
  EXPECT_FALSE(Parameters::open({}));
  EXPECT_FALSE(Parameters::lay_out(zeroes, "", 128)) << "there is not so much";
  EXPECT_FALSE(Parameters::lay_out(zeroes, "", 60));
}

TEST_F(ParametersTest, NoByteOfADamagedHeaderLeadsOutside) {
  EXPECT_TRUE(rc::check([this] {
    std::vector<std::byte> before(memory().begin(), memory().begin() + 48);
    auto at = *rc::gen::inRange<std::size_t>(0, before.size());
    auto garbage =
        *rc::gen::container<std::vector<std::uint8_t>>(8, rc::gen::arbitrary<std::uint8_t>());
    std::memcpy(memory().data() + at, garbage.data(), std::min(garbage.size(), before.size() - at));
    Result<std::unique_ptr<Parameters>> opened = Parameters::open(memory());
    if (opened) {
      std::span<std::byte> data = (*opened)->data();
      RC_ASSERT(data.data() >= memory().data());
      RC_ASSERT(data.data() + data.size() <= memory().data() + memory().size());
      std::string_view head = (*opened)->head();
      RC_ASSERT(head.data() + head.size() <= reinterpret_cast<char*>(data.data()));
    }
    std::memcpy(memory().data(), before.data(), before.size());
  }));
}

TEST_F(ParametersTest, AHeaderThatChangesWhileItIsReadLeadsNowhereOutside) {
  constexpr std::size_t kDataBytesAt = 32;
  std::atomic_ref size(*reinterpret_cast<std::uint64_t*>(memory().data() + kDataBytesAt));
  const std::uint64_t whole = size;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) {
      size = std::uint64_t{1} << 40;
      size = whole;
    }
  });
  int opened = 0;
  for (int i = 0; i < 1'000'000 && (i < 20'000 || opened == 0); ++i) {
    Result<std::unique_ptr<Parameters>> one = Parameters::open(memory());
    if (!one) continue;
    ++opened;
    EXPECT_EQ((*one)->data().size(), whole);
    if (testing::Test::HasFailure()) break;
  }
  done = true;
  other.join();
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace pergpu::share
