// The channel over pipes, and that the two channels cannot be told apart by what comes out.
#include "share/pipe_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <rapidcheck.h>

#include <deque>
#include <functional>

#include "share/outcome_name.h"
#include "share/rig.h"

namespace pergpu::share {
namespace {

PipeEnds make_ends(std::uint32_t slots) {
  Result<PipeEnds> ends = PipeEnds::create({.slots_per_lane = slots, .slot_bytes = 256});
  EXPECT_TRUE(ends) << ends.error().message;
  return std::move(*ends);
}

PipeEnds duplicate(const PipeEnds& ends) {
  PipeEnds copy;
  for (auto [from, to] : {std::pair{&ends.segment, &copy.segment},
                          {&ends.ready_read, &copy.ready_read},
                          {&ends.ready_write, &copy.ready_write},
                          {&ends.free_read, &copy.free_read},
                          {&ends.free_write, &copy.free_write}}) {
    to->reset(::fcntl(from->get(), F_DUPFD_CLOEXEC, 0));
    EXPECT_TRUE(*to);
  }
  return copy;
}

struct Pair {
  explicit Pair(std::uint32_t slots) {
    PipeEnds ends = make_ends(slots);
    producer = std::make_unique<PipeProducer>(*PipeProducer::attach(duplicate(ends)));
    consumer = std::make_unique<PipeConsumer>(*PipeConsumer::attach(std::move(ends)));
  }
  std::unique_ptr<PipeProducer> producer;
  std::unique_ptr<PipeConsumer> consumer;
};

TEST(PipeChannel, WhatGoesInComesOutAndThenItsEnd) {
  Pair pair(2);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_EQ(send(*pair.producer, i, 0), Outcome::Ready);
    Taken taken = pair.consumer->take(0);
    ASSERT_EQ(taken.outcome, Outcome::Ready);
    EXPECT_TRUE(is_whole(taken.item.data, taken.item.bytes, i));
    ASSERT_TRUE(pair.consumer->release(taken.item));
  }
  EXPECT_EQ(pair.consumer->take(in_ms(20)).outcome, Outcome::TimedOut);
  pair.producer->close();
  EXPECT_EQ(pair.consumer->take(soon()).outcome, Outcome::Ended);
}

TEST(PipeChannel, LeavingIsToldFromClosing) {
  Pair pair(2);
  ASSERT_EQ(send(*pair.producer, 1, 0), Outcome::Ready);
  pair.producer.reset();
  EXPECT_EQ(pair.consumer->take(soon()).outcome, Outcome::Ready);
  EXPECT_EQ(pair.consumer->take(soon()).outcome, Outcome::PeerLeft);
}

TEST(PipeChannel, NobodyWhoEverCameIsNoEnd) {
  PipeEnds ends = make_ends(2);
  ends.ready_write.reset();
  auto consumer = std::move(*PipeConsumer::attach(std::move(ends)));
  Taken taken = consumer.take(soon());
  EXPECT_EQ(taken.outcome, Outcome::PeerDied);
  EXPECT_EQ(taken.peer.pid, 0U);
}

TEST(PipeChannel, AConsumerThatClosesIsSeen) {
  Pair pair(1);
  ASSERT_EQ(send(*pair.producer, 1, 0), Outcome::Ready);
  pair.consumer->close();
  EXPECT_EQ(pair.consumer->take(0).outcome, Outcome::Stale);
  EXPECT_EQ(pair.producer->acquire(soon()).outcome, Outcome::PeerDied);
}

TEST(PipeChannel, TheDeathOfEitherSideIsTold) {
  for (bool producer_dies : {true, false}) {
    PipeEnds ends = make_ends(2);
    Shared shared;
    Forked dying([&] {
      if (producer_dies) {
        auto producer = std::move(*PipeProducer::attach(std::move(ends)));
        send(producer, 1, soon());
        shared[0] = 1;
        wake(shared[0]);
        return ::pause();
      }
      auto consumer = std::move(*PipeConsumer::attach(std::move(ends)));
      shared[0] = 1;
      wake(shared[0]);
      return ::pause();
    });
    ASSERT_TRUE(reaches(shared[0], 1));
    auto pid = static_cast<std::uint32_t>(dying.pid());
    if (producer_dies) {
      auto consumer = std::move(*PipeConsumer::attach(std::move(ends)));
      EXPECT_EQ(consumer.take(soon()).outcome, Outcome::Ready);
      dying.send(SIGKILL);
      Taken taken = consumer.take(soon());
      EXPECT_EQ(taken.outcome, Outcome::PeerDied);
      EXPECT_EQ(taken.peer.pid, pid);
    } else {
      auto producer = std::move(*PipeProducer::attach(std::move(ends)));
      dying.send(SIGKILL);
      EXPECT_EQ(send(producer, 1, soon()), Outcome::Ready);
      EXPECT_EQ(send(producer, 2, soon()), Outcome::Ready) << "no SIGPIPE";
      Acquired got = producer.acquire(soon());
      EXPECT_EQ(got.outcome, Outcome::PeerDied);
      EXPECT_EQ(got.peer.pid, pid);
    }
  }
}

TEST(PipeChannel, ASlotThatAFullPipeDoesNotTakeStaysWithWhoHasIt) {
  PipeEnds ends = make_ends(1024);
  ASSERT_EQ(::fcntl(ends.ready_write.get(), F_SETPIPE_SZ, 4096), 4096);
  PipeProducer producer = *PipeProducer::attach(std::move(ends));
  Acquired got;
  Result<void> sent;
  int count = 0;
  for (; sent && count < 1024; ++count) {
    got = producer.acquire(0);
    ASSERT_EQ(got.outcome, Outcome::Ready);
    sent = producer.publish(got.slot, 8);
  }
  EXPECT_EQ(count, 171) << "170 tokens lie on a page";
  EXPECT_FALSE(sent);
  EXPECT_TRUE(producer.abandon(got.slot));
}

constexpr int kNoSmallPipes = 99;

/// What `work` returns, in a process of a user who has more pipes than the soft limit allows.
int with_small_pipes(const std::function<int()>& work) {
  Forked process([&] {
    if (::setresuid(65534, 65534, 65534) != 0) return kNoSmallPipes;
    for (int i = 0; i < 400; ++i) {
      int fds[2];
      if (::pipe(fds) != 0) return kNoSmallPipes;
      ::fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
      if (::fcntl(fds[0], F_GETPIPE_SZ) < 1 << 16) return work();
    }
    return kNoSmallPipes;
  });
  return process.wait();
}

TEST(PipeChannel, MoreSlotsThanAPipeTakesAreRefusedInWords) {
  if (::getuid() != 0) GTEST_SKIP() << "root may have pipes of any size, and become somebody else";
  auto create = [](std::uint32_t slots) {
    return PipeEnds::create({.slots_per_lane = slots, .slot_bytes = 256});
  };
  int told = with_small_pipes([&] {
    Result<PipeEnds> made = create(1024);
    bool is_told = !made && made.error().kind == ErrorKind::Unavailable &&
                   made.error().message.find("pipe-user-pages-soft") != std::string::npos;
    return is_told ? 0 : 1;
  });
  if (told == kNoSmallPipes) GTEST_SKIP() << "nobody gets small pipes here";
  EXPECT_EQ(told, 0);
  EXPECT_EQ(with_small_pipes([&] { return create(8) ? 0 : 1; }), 0);
}

TEST(PipeChannel, ItsDescriptorTellsWhenThereIsSomething) {
  Pair pair(2);
  pollfd waiting = {.fd = pair.consumer->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  ASSERT_EQ(send(*pair.producer, 1, 0), Outcome::Ready);
  EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
}

/// A script for one producer and one consumer, as what came of each step.
template <typename Producer_, typename Consumer_>
std::vector<std::string> run_script(Producer_& producer, Consumer_& consumer,
                                    const std::vector<int>& script) {
  std::vector<std::string> log;
  std::deque<Slot> slots;
  std::deque<Item> items;
  std::uint64_t number = 0;
  for (int step : script) {
    switch (step) {
      case 0:
      case 1: {
        Acquired got = producer.acquire(0);
        log.push_back(std::string("acquire ") + name_of(got.outcome));
        if (got.outcome == Outcome::Ready) slots.push_back(got.slot);
        break;
      }
      case 2:
      case 3: {
        if (slots.empty()) break;
        Slot slot = step == 2 ? slots.front() : slots.back();
        step == 2 ? slots.pop_front() : slots.pop_back();
        std::size_t bytes = size_of(++number, slot.size);
        fill(slot.data, bytes, number);
        log.push_back(producer.publish(slot, bytes) ? "published" : "refused");
        break;
      }
      case 4:
        if (slots.empty()) break;
        log.push_back(producer.abandon(slots.back()) ? "abandoned" : "refused");
        slots.pop_back();
        break;
      case 5:
      case 6: {
        Taken got = consumer.take(0);
        log.push_back(std::string("take ") + name_of(got.outcome));
        if (got.outcome != Outcome::Ready) break;
        items.push_back(got.item);
        log.push_back(std::to_string(got.item.sequence) + ": " + std::to_string(got.item.bytes) +
                      (is_whole(got.item.data, got.item.bytes, got.item.sequence) ? "" : " torn"));
        break;
      }
      case 7:
      case 8: {
        if (items.empty()) break;
        Item item = step == 7 ? items.front() : items.back();
        step == 7 ? items.pop_front() : items.pop_back();
        log.push_back(consumer.release(item) ? "released" : "refused");
        break;
      }
      default:
        log.push_back(items.empty() ? "" : consumer.release(Item{.slot = 99}) ? "?" : "unknown");
    }
  }
  producer.close();
  for (Taken got = consumer.take(0);; got = consumer.take(0)) {
    log.push_back(std::to_string(got.item.sequence) + name_of(got.outcome));
    if (got.outcome != Outcome::Ready) return log;
  }
}

TEST(PipeChannel, GivesWhatTheOtherChannelGives) {
  EXPECT_TRUE(rc::check([] {
    auto slots = *rc::gen::inRange<std::uint32_t>(1, 6);
    auto script = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 10));
    Pair pair(slots);
    Channel channel = make_channel({.slots_per_lane = slots});
    auto producer = producer_of(channel);
    auto consumer = consumer_of(channel);
    std::vector<std::string> by_pipes = run_script(*pair.producer, *pair.consumer, script);
    RC_ASSERT(run_script(*producer, *consumer, script) == by_pipes);
  }));
}

}  // namespace
}  // namespace pergpu::share
