// Waiting for words of shared memory, on this kernel and as on one that cannot watch many at once.
#include "share/futex.h"

#include <sys/time.h>

#include <array>
#include <thread>

#include "os/test_hooks.h"
#include "share/rig.h"

namespace pergpu::share {
namespace {

class Futex : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { os::pretend_missing(os::KernelCall::FutexWaitv, GetParam()); }
  void TearDown() override { os::pretend_missing(os::KernelCall::FutexWaitv, false); }

  /// Waits on, as callers do, until something has happened.
  static Woken wait_for_change(std::span<const Watched> words, std::int64_t deadline) {
    while (true) {
      Woken woken = wait_any(words, deadline);
      if (woken != Woken::Look) return woken;
      for (const Watched& watched : words) {
        if (watched.word->load() != watched.value) return woken;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Kernel, Futex, ::testing::Bool());

TEST_P(Futex, ADeadlineIsKept) {
  Word a{0};
  Word b{0};
  std::array<Watched, 2> both{Watched{&a, 0}, Watched{&b, 0}};
  std::int64_t deadline = in_ms(60);
  EXPECT_EQ(wait_for_change(both, deadline), Woken::TimedOut);
  EXPECT_GE(os::awake_now_ns(), deadline);
}

TEST_P(Futex, AWordThatHasAnotherValueIsNotWaitedFor) {
  Word a{0};
  Word b{7};
  std::array<Watched, 2> both{Watched{&a, 0}, Watched{&b, 8}};
  EXPECT_EQ(wait_for_change(both, soon()), Woken::Look);
}

TEST_P(Futex, EachOfManyWordsWakes) {
  std::array<Word, kMostWatched> words{};
  std::vector<Watched> watched;
  for (Word& word : words) watched.push_back({&word, 0});
  for (std::size_t i : {std::size_t{0}, std::size_t{1}, kMostWatched - 1}) {
    std::jthread other([&words, i] {
      words[i] = 1;
      wake(words[i]);
    });
    EXPECT_EQ(wait_for_change(watched, soon()), Woken::Look);
    other.join();
    watched[i].value = 1;
  }
}

TEST_P(Futex, ASignalIsTold) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) {};  // no SA_RESTART
  ::sigaction(SIGALRM, &action, &before);
  itimerval timer = {.it_interval = {0, 5000}, .it_value = {0, 5000}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  Word a{0};
  Word b{0};
  std::array<Watched, 2> both{Watched{&a, 0}, Watched{&b, 0}};
  EXPECT_EQ(wait_for_change(both, soon()), Woken::Interrupted);
  timer = {};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

TEST(FutexProbe, AnOldKernelIsKnown) {
  os::pretend_missing(os::KernelCall::FutexWaitv, true);
  EXPECT_FALSE(watches_many());
  os::pretend_missing(os::KernelCall::FutexWaitv, false);
}

}  // namespace
}  // namespace pergpu::share
