// Who lives and who does not, by the kernel's word.
#include "share/liveness.h"

#include <linux/futex.h>
#include <pthread.h>

#include <thread>

#include "share/rig.h"
#include "share/segment.h"

namespace pergpu::share {
namespace {

class Liveness : public ::testing::Test {
 protected:
  Liveness() : segment_(std::move(*Segment::create("test", 4096))) {
    mapping_ = std::move(*segment_.map(View::Shared));
  }
  Hold take() {
    Result<Hold> hold = Hold::take(segment_.fd(), 0);
    EXPECT_TRUE(hold) << hold.error().message;
    return hold ? std::move(*hold) : Hold();
  }
  Word& word() { return *reinterpret_cast<Word*>(mapping_.data() + 4096 - 8); }
  bool died() { return (word().load() & FUTEX_OWNER_DIED) != 0; }

  Segment segment_;
  Mapping mapping_;
};

TEST(Owner, GoesIntoAWordAndOut) {
  Owner owner = {.pid = 4194303, .start = 77, .state = PlaceState::Left, .epoch = 524287};
  EXPECT_EQ(Owner::unpack(owner.pack()), owner);
  EXPECT_EQ(Owner::unpack(0), Owner{});
  EXPECT_EQ(Owner::unpack(~std::uint64_t{0}).state, PlaceState::Dead) << "no state of its own";
}

TEST(Owner, EpochsComeAfterEachOtherAndAreNeverZero) {
  std::uint32_t epoch = 0;
  for (int i = 0; i < 600'000; ++i) {
    std::uint32_t next = next_epoch(epoch);
    ASSERT_TRUE(next != 0 && is_newer(next, epoch) && !is_newer(epoch, next));
    epoch = next;
  }
  EXPECT_FALSE(is_newer(7, 7));
}

TEST(Owner, TheLivingIsToldFromTheDeadAndFromAnotherOfTheSameNumber) {
  Owner me = this_process();
  EXPECT_FALSE(has_ended(me));
  Owner earlier = me;
  earlier.start = me.start == 1 ? 2 : me.start - 1;
  EXPECT_TRUE(has_ended(earlier)) << "the number was another process's before";
  Shared shared;
  Forked other([&shared] {
    std::uint64_t word = this_process().pack();
    shared[1] = static_cast<std::uint32_t>(word);
    shared[2] = static_cast<std::uint32_t>(word >> 32);
    shared[0] = 1;
    wake(shared[0]);
    return ::pause();
  });
  ASSERT_TRUE(reaches(shared[0], 1));
  Owner its = Owner::unpack(shared[1] | std::uint64_t{shared[2]} << 32);
  EXPECT_FALSE(has_ended(its));
  other.send(SIGKILL);
  siginfo_t info = {};
  ::waitid(P_PID, static_cast<id_t>(other.pid()), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(has_ended(its)) << "a zombie has ended";
  other.wait();
  EXPECT_TRUE(has_ended(its));
}

TEST_F(Liveness, AWaiterIsWokenByADeath) {
  Shared shared;
  Forked other([this, &shared] {
    Hold hold = take();
    shared[0] = 1;
    wake(shared[0]);
    return ::pause();
  });
  ASSERT_TRUE(reaches(shared[0], 1));
  EXPECT_FALSE(hints_at_death(word()));
  std::optional<std::uint32_t> value = announce_waiter(word());
  ASSERT_TRUE(value);
  other.send(SIGKILL);
  std::int64_t begin = os::awake_now_ns();
  while (word().load() == *value && wait(word(), *value, soon()) == Woken::Look) {
  }
  EXPECT_TRUE(died());
  EXPECT_TRUE(hints_at_death(word()));
  EXPECT_LT(os::awake_now_ns() - begin, 5000 * kMs);
  EXPECT_EQ(announce_waiter(word()), std::nullopt);
}

TEST_F(Liveness, ReleasingWakesAndSaysNothingOfDeath) {
  Shared shared;
  Forked other([this, &shared] {
    Hold hold = take();
    shared[0] = 1;
    if (!reaches(shared[1], 1)) return 1;
    hold.release();
    return 0;
  });
  ASSERT_TRUE(reaches(shared[0], 1));
  std::optional<std::uint32_t> value = announce_waiter(word());
  ASSERT_TRUE(value);
  shared[1] = 1;
  while (word().load() == *value && wait(word(), *value, soon()) == Woken::Look) {
  }
  EXPECT_EQ(word().load(), 0U);
  EXPECT_EQ(other.wait(), 0);
  EXPECT_FALSE(died());
}

TEST_F(Liveness, AThreadThatEndsIsOnlyAHintAndAnotherTakesOver) {
  Hold hold;
  std::thread([this, &hold] { hold = take(); }).join();
  EXPECT_TRUE(died());
  EXPECT_FALSE(has_ended(this_process()));
  hold.renew();
  EXPECT_FALSE(hints_at_death(word()));
  hold.renew();
  hold.release();
  EXPECT_EQ(word().load(), 0U);
}

TEST_F(Liveness, AnotherThreadMayRelease) {
  std::atomic<bool> taken = false;
  std::atomic<bool> end = false;
  Hold hold;
  std::jthread other([&] {
    hold = take();
    taken = true;
    taken.notify_all();
    end.wait(false);
  });
  taken.wait(false);
  hold.release();
  EXPECT_EQ(word().load(), 0U);
  Hold next = take();  // the old one's list must not matter to it
  std::uint32_t value = word().load();
  end = true;
  end.notify_all();
  other.join();
  EXPECT_EQ(word().load(), value) << "the end of the first thread marks nothing of the second's";
}

TEST_F(Liveness, AForkedChildHoldsNothing) {
  Hold hold = take();
  Forked child([&hold] {
    if (hold.is_mine()) return 1;
    hold.renew();
    hold.release();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(hold.is_mine());
  EXPECT_FALSE(hints_at_death(word()));
}

TEST_F(Liveness, RobustMutexesOfTheSameThreadStayInOrder) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_t before;
  pthread_mutex_t after;
  pthread_mutex_t last;
  pthread_mutex_init(&before, &attributes);
  pthread_mutex_init(&after, &attributes);
  pthread_mutex_init(&last, &attributes);
  std::thread([&] {
    pthread_mutex_lock(&before);
    Hold first = take();
    Segment other = std::move(*Segment::create("test", 4096));
    Hold second = std::move(*Hold::take(other.fd(), 0));
    pthread_mutex_lock(&after);
    first.release();
    pthread_mutex_unlock(&before);
    second.release();
    pthread_mutex_lock(&last);
  }).join();
  EXPECT_EQ(pthread_mutex_trylock(&before), 0) << "it was unlocked";
  pthread_mutex_unlock(&before);
  for (pthread_mutex_t* held : {&after, &last}) {
    EXPECT_EQ(pthread_mutex_lock(held), EOWNERDEAD);
    pthread_mutex_unlock(held);
  }
}

TEST_F(Liveness, GarbageInTheWordHurtsNobody) {
  for (std::uint32_t garbage : {0U, ~0U, 1U, static_cast<std::uint32_t>(FUTEX_OWNER_DIED),
                                static_cast<std::uint32_t>(FUTEX_WAITERS)}) {
    Hold hold = take();
    word() = garbage;
    hold.renew();
    word() = garbage;
    hold.release();
  }
  std::thread([this] {
    Hold hold = take();
    word() = 12345;
  }).join();
}

}  // namespace
}  // namespace pergpu::share
