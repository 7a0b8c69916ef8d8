#include "os/loop.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "fixture.h"

namespace pergpu::os {
namespace {

UniqueFd event(unsigned value = 0) {
  return UniqueFd(::eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK));
}

void fire(int fd) { EXPECT_EQ(::eventfd_write(fd, 1), 0); }
void drain(int fd) {
  eventfd_t value = 0;
  ::eventfd_read(fd, &value);
}

TEST(Loop, ReadableDescriptorCallsItsCallback) {
  TestLoop loop;
  const UniqueFd fd = event();
  std::uint32_t seen = 0;
  ASSERT_TRUE(loop->watch(fd.get(), EPOLLIN, [&](std::uint32_t events) {
    seen = events;
    loop->stop();
  }));
  fire(fd.get());
  loop.run();
  EXPECT_EQ(seen, static_cast<std::uint32_t>(EPOLLIN));
}

TEST(Loop, LevelTriggeredUntilDrained) {
  TestLoop loop;
  const UniqueFd fd = event(1);
  int calls = 0;
  ASSERT_TRUE(loop->watch(fd.get(), EPOLLIN, [&](std::uint32_t) {
    if (++calls == 3) drain(fd.get());
  }));
  for (int i = 0; i < 5; ++i) loop.settle();
  EXPECT_EQ(calls, 3);
}

TEST(Loop, CallbackRemovesItsOwnWatch) {
  TestLoop loop;
  const UniqueFd fd = event(1);
  int calls = 0;
  const auto shared = std::make_shared<int>(7);
  ASSERT_TRUE(loop->watch(fd.get(), EPOLLIN, [&, shared](std::uint32_t) {
    loop->unwatch(fd.get());
    calls += *shared;  // the captures outlive the watch while the callback runs
  }));
  loop.settle();
  EXPECT_EQ(calls, 7);
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(Loop, EventPendingInTheSameBatchIsDroppedWithItsWatch) {
  TestLoop loop;
  const UniqueFd a = event(1);
  const UniqueFd b = event(1);
  int calls = 0;
  // Whichever comes first removes the other.
  ASSERT_TRUE(loop->watch(a.get(), EPOLLIN, [&](std::uint32_t) {
    ++calls;
    drain(a.get());
    loop->unwatch(b.get());
  }));
  ASSERT_TRUE(loop->watch(b.get(), EPOLLIN, [&](std::uint32_t) {
    ++calls;
    drain(b.get());
    loop->unwatch(a.get());
  }));
  loop.settle();
  EXPECT_EQ(calls, 1);
}

TEST(Loop, StaleEventDoesNotReachAReusedNumber) {
  TestLoop loop;
  UniqueFd a = event(1);
  UniqueFd b = event(1);
  int first_calls = 0;
  int reused_calls = 0;
  const auto replace = [&](UniqueFd& mine, UniqueFd& other) {
    ++first_calls;
    drain(mine.get());
    const int number = other.get();
    loop->unwatch(number);
    other.reset();
    other = event();  // the same number, nothing to read
    ASSERT_EQ(other.get(), number);
    ASSERT_TRUE(loop->watch(number, EPOLLIN, [&](std::uint32_t) { ++reused_calls; }));
  };
  ASSERT_TRUE(loop->watch(a.get(), EPOLLIN, [&](std::uint32_t) { replace(a, b); }));
  ASSERT_TRUE(loop->watch(b.get(), EPOLLIN, [&](std::uint32_t) { replace(b, a); }));
  loop.settle();
  EXPECT_EQ(first_calls, 1);
  EXPECT_EQ(reused_calls, 0);
}

TEST(Loop, ChangedInterestHoldsWithinTheBatch) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  const UniqueFd other = event(1);
  int reads = 0;
  ASSERT_EQ(::send(far.get(), "x", 1, MSG_NOSIGNAL), 1);
  ASSERT_TRUE(loop->watch(other.get(), EPOLLIN, [&, fd = near.get()](std::uint32_t) {
    drain(other.get());
    ASSERT_TRUE(loop->change(fd, 0));
  }));
  ASSERT_TRUE(loop->watch(near.get(), EPOLLIN, [&](std::uint32_t) { ++reads; }));
  for (int i = 0; i < 3; ++i) loop.settle();
  EXPECT_LE(reads, 1);  // 1: when its event came before the change
}

TEST(Loop, HangUpIsReportedWithoutAskingForIt) {
  TestLoop loop;
  auto [near, far] = socket_pair();
  std::uint32_t seen = 0;
  ASSERT_TRUE(loop->watch(near.get(), 0, [&](std::uint32_t events) {
    seen = events;
    loop->stop();
  }));
  far.reset();
  loop.run();
  EXPECT_TRUE(seen & EPOLLHUP);
}

TEST(Loop, WatchingOneDescriptorTwiceIsAnError) {
  TestLoop loop;
  const UniqueFd fd = event();
  ASSERT_TRUE(loop->watch(fd.get(), EPOLLIN, [](std::uint32_t) {}));
  EXPECT_FALSE(loop->watch(fd.get(), EPOLLIN, [](std::uint32_t) {}));
}

TEST(Loop, TimersRunInTheOrderOfTheirDeadlines) {
  TestLoop loop;
  std::vector<int> order;
  const std::int64_t now = boot_now_ns();
  loop->at(now + 3'000'000, [&] {
    order.push_back(3);
    loop->stop();
  });
  loop->at(now + 1'000'000, [&] { order.push_back(1); });
  loop->at(now + 2'000'000, [&] { order.push_back(2); });
  loop->at(now + 2'000'000, [&] { order.push_back(22); });  // equal: in the order of asking
  loop.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 22, 3}));
}

TEST(Loop, TimerNeverRunsEarly) {
  TestLoop loop;
  const std::int64_t deadline = boot_now_ns() + 5'000'000;
  std::int64_t ran_at = 0;
  loop->at(deadline, [&] {
    ran_at = boot_now_ns();
    loop->stop();
  });
  loop.run();
  EXPECT_GE(ran_at, deadline);
}

TEST(Loop, CancelledTimerDoesNotRun) {
  TestLoop loop;
  bool ran = false;
  const Loop::TimerId id = loop->at(0, [&] { ran = true; });
  loop->cancel(id);
  loop->cancel(id);  // again: nothing
  loop->cancel(0);
  loop.settle();
  EXPECT_FALSE(ran);
}

TEST(Loop, TimerCancelsAnotherOfTheSameInstant) {
  TestLoop loop;
  bool second = false;
  Loop::TimerId id = 0;
  loop->at(1, [&] { loop->cancel(id); });
  id = loop->at(1, [&] { second = true; });
  loop.settle();
  EXPECT_FALSE(second);
}

TEST(Loop, TimerThatRenewsItselfStarvesNobody) {
  TestLoop loop;
  const UniqueFd fd = event(1);
  bool seen = false;
  std::function<void()> again = [&] {
    if (!seen) loop->at(0, again);
  };
  again();
  ASSERT_TRUE(loop->watch(fd.get(), EPOLLIN, [&](std::uint32_t) {
    drain(fd.get());
    seen = true;
    loop->stop();
  }));
  loop.run();
  EXPECT_TRUE(seen);
}

TEST(Loop, EarlierDeadlineAddedLaterComesFirst) {
  TestLoop loop;
  const Loop::TimerId far = loop->at(boot_now_ns() + 3'600'000'000'000, [] {});
  loop.settle();
  bool ran = false;
  loop->at(boot_now_ns() + 1'000'000, [&] {
    ran = true;
    loop->stop();
  });
  loop.run();
  EXPECT_TRUE(ran);
  loop->cancel(far);
}

TEST(Loop, SignalsArriveAsCallbacks) {
  TestLoop loop;
  std::vector<int> got;
  ASSERT_TRUE(loop->on_signals({SIGUSR1, SIGUSR2}, [&](int signal) {
    got.push_back(signal);
    if (got.size() == 2) loop->stop();
  }));
  ::kill(::getpid(), SIGUSR1);
  ::kill(::getpid(), SIGUSR2);
  loop.run();
  EXPECT_EQ(got, (std::vector<int>{SIGUSR1, SIGUSR2}));
}

TEST(Loop, TurnEndsAfterTheBatchAndBeforeSleeping) {
  TestLoop loop;
  const UniqueFd a = event(1);
  const UniqueFd b = event(1);
  std::vector<char> log;
  for (const int fd : {a.get(), b.get()}) {
    ASSERT_TRUE(loop->watch(fd, EPOLLIN, [&log, fd](std::uint32_t) {
      drain(fd);
      log.push_back('e');
    }));
  }
  loop->on_turn([&] {
    log.push_back('t');
    if (log.size() > 2) loop->stop();
  });
  loop.run();
  EXPECT_EQ(log, (std::vector<char>{'t', 'e', 'e', 't'}));  // once before the first sleep
}

TEST(Loop, SleepsWhenNothingHappens) {
  TestLoop loop;
  int turns = 0;
  loop->on_turn([&] { ++turns; });
  loop->at(boot_now_ns() + 50'000'000, [&] { loop->stop(); });
  loop.run();
  EXPECT_LE(turns, 4);
}

TEST(Loop, StopBeforeRunIsKept) {
  TestLoop loop;
  loop->stop();
  EXPECT_TRUE(loop->run());
}

TEST(Loop, ThrowingCallbackEndsTheLoopWithAnError) {
  TestLoop loop;
  loop->at(0, [] { throw std::runtime_error("boom"); });
  const Result<void> ran = loop->run();
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("boom"), std::string::npos);
}

TEST(Loop, ATurnThatBlocksOrWorksTooLongIsTold) {
  TestLoop loop;
  std::vector<std::int64_t> told;
  ASSERT_TRUE(loop->watch_turns(50'000'000, [&](std::int64_t ns) { told.push_back(ns); }));
  loop->at(0, [&] {
    const std::int64_t end = boot_now_ns() + 100'000'000;  // works
    while (boot_now_ns() < end) continue;
  });
  loop->at(boot_now_ns() + 200'000'000, [&] { ::poll(nullptr, 0, 100); });  // blocks
  loop->at(boot_now_ns() + 400'000'000, [&] { loop->stop(); });
  ASSERT_TRUE(loop->run());
  ASSERT_GE(told.size(), 1u);  // a busy machine may take the core from the one that works
  EXPECT_GE(told.back(), 50'000'000);
}

TEST(Loop, LeavesNoDescriptorBehind) {
  const std::size_t before = open_fds();
  {
    TestLoop loop;
    ASSERT_TRUE(loop->on_signals({SIGUSR1}, [](int) {}));
    const UniqueFd fd = event();
    ASSERT_TRUE(loop->watch(fd.get(), EPOLLIN, [](std::uint32_t) {}));
    loop.settle();
  }
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace pergpu::os
