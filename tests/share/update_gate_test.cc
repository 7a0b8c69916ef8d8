// The gate: many are inside at once, nobody while it is closed, and neither the dead nor the
// stopped keep anybody waiting.
#include "share/update_gate.h"

#include <array>
#include <thread>

#include "share/rig.h"

namespace pergpu::share {
namespace {

/// In memory that forked processes see, too.
class UpdateGates : public testing::Test {
 protected:
  static constexpr std::size_t kPlaces = 4;
  struct Memory {
    GateWords words;
    std::array<UpdatePlace, kPlaces> places;
    std::array<Word, 8> told;
  };
  UpdateGates()
      : memory_(*static_cast<Memory*>(::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE,
                                             MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~UpdateGates() override { ::munmap(&memory_, sizeof(Memory)); }

  std::unique_ptr<UpdateGate> gate() {
    return std::make_unique<UpdateGate>(&memory_.words, memory_.places);
  }
  static bool enters(UpdateGate& gate, std::int64_t deadline = soon()) {
    Result<Outcome> outcome = gate.enter(deadline);
    return outcome && *outcome == Outcome::Ready;
  }
  static Outcome close(UpdateGate& gate, std::int64_t deadline = soon()) {
    Result<UpdateGate::Closing> closing = gate.close(deadline);
    return closing ? closing->outcome : Outcome::Corrupt;
  }
  void tell(std::size_t what) {
    memory_.told[what] = 1;
    wake(memory_.told[what]);
  }
  bool told(std::size_t what) { return reaches(memory_.told[what], 1); }
  /// A process that is inside an update until it is killed.
  Forked somebody_inside() {
    Forked process([this] {
      auto own = gate();
      if (!enters(*own)) return 1;
      tell(0);
      ::pause();
      return 0;
    });
    EXPECT_TRUE(told(0));
    return process;
  }
  /// One that has closed the gate, and stays like this.
  Forked somebody_copying() {
    Forked process([this] {
      auto own = gate();
      if (close(*own) != Outcome::Ready) return 1;
      tell(1);
      reaches(memory_.told[2], 1);
      return own->open() ? 2 : 3;
    });
    EXPECT_TRUE(told(1));
    return process;
  }

  Memory& memory_;
};

TEST_F(UpdateGates, ManyAreInsideAtOnceAndNobodyWhileItIsClosed) {
  auto one = gate(), other = gate();
  ASSERT_TRUE(enters(*one));
  ASSERT_TRUE(enters(*other));
  EXPECT_TRUE(one->leave());
  EXPECT_TRUE(other->leave());
  ASSERT_EQ(close(*one), Outcome::Ready);
  EXPECT_FALSE(other->try_enter());
  Result<Outcome> late = other->enter(in_ms(5));
  ASSERT_TRUE(late);
  EXPECT_EQ(*late, Outcome::TimedOut);
  EXPECT_EQ(close(*other, in_ms(5)), Outcome::TimedOut);
  EXPECT_TRUE(one->open());
  EXPECT_TRUE(enters(*other));
  EXPECT_TRUE(other->leave());
}

TEST_F(UpdateGates, ClosingWaitsForWhoIsInsideAndOpeningWakesWhoWaits) {
  auto copier = gate(), writer = gate();
  ASSERT_TRUE(enters(*writer));
  std::atomic<bool> left = false;
  std::thread closing([&] {
    EXPECT_EQ(close(*copier), Outcome::Ready);
    EXPECT_TRUE(left);
    memory_.told[3] = 1;
  });
  while (memory_.words.closed_by.load() == 0) std::this_thread::yield();
  left = true;
  EXPECT_TRUE(writer->leave());
  closing.join();
  std::thread entering([&] {
    EXPECT_TRUE(enters(*writer));
    EXPECT_TRUE(writer->leave());
  });
  EXPECT_TRUE(copier->open());
  entering.join();
}

TEST_F(UpdateGates, AThreadThatIsInsideGetsInOnceMore) {
  auto copier = gate(), writer = gate();
  ASSERT_TRUE(enters(*writer));
  std::thread closing([&] { EXPECT_EQ(close(*copier), Outcome::Ready); });
  while (memory_.words.closed_by.load() == 0) std::this_thread::yield();
  EXPECT_TRUE(writer->try_enter()) << "it would wait for the copier, which waits for it";
  EXPECT_TRUE(writer->leave());
  EXPECT_TRUE(writer->is_inside());
  EXPECT_TRUE(writer->leave());
  EXPECT_FALSE(writer->leave());
  closing.join();
}

TEST_F(UpdateGates, WhoDiesInsideIsWaitedForByNobodyAndCounted) {
  auto copier = gate();
  Forked dying = somebody_inside();
  EXPECT_EQ(close(*copier, in_ms(5)), Outcome::TimedOut);
  EXPECT_EQ(copier->cut_updates(), 0U);
  dying.kill();
  EXPECT_EQ(close(*copier), Outcome::Ready);
  EXPECT_TRUE(copier->open());
  EXPECT_EQ(copier->cut_updates(), 1U);
}

TEST_F(UpdateGates, ItsPlaceIsTakenAgainAndTheCountStays) {
  auto survivor = gate();
  ASSERT_TRUE(survivor->attach());
  for (std::uint64_t i = 1; i <= 3 * kPlaces; ++i) {
    Forked dying = somebody_inside();
    dying.kill();
    memory_.told[0] = 0;
    // The next one takes a place before anybody has looked for the dead.
    ASSERT_LE(survivor->users().size(), 1U);
  }
  EXPECT_EQ(survivor->cut_updates(), 3 * kPlaces);
}

TEST_F(UpdateGates, WhereAllPlacesAreTakenIsSaid) {
  std::vector<std::unique_ptr<UpdateGate>> gates;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    gates.push_back(gate());
    ASSERT_TRUE(gates.back()->attach());
  }
  auto another = gate();
  Result<Outcome> entered = another->enter(soon());
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().kind, ErrorKind::Full);
  gates.pop_back();
  EXPECT_TRUE(enters(*another));
  EXPECT_TRUE(another->leave());
}

TEST_F(UpdateGates, WhoDiesWhileCopyingKeepsNobodyOut) {
  auto writer = gate();
  Forked copier = somebody_copying();
  EXPECT_FALSE(writer->try_enter() || writer->try_enter());
  copier.kill();
  std::atomic<bool> in = false;
  std::thread beating([&] {  // as if it were at it still: it is the death that counts
    while (!in) memory_.words.beats.fetch_add(1);
  });
  EXPECT_TRUE(enters(*writer));
  in = true;
  beating.join();
  EXPECT_TRUE(writer->leave());
}

TEST_F(UpdateGates, WhoIsStoppedWhileCopyingFindsItsGateGone) {
  auto writer = gate();
  Forked copier = somebody_copying();
  copier.send(SIGSTOP);
  EXPECT_TRUE(enters(*writer));
  EXPECT_TRUE(writer->leave());
  tell(2);
  copier.send(SIGCONT);
  EXPECT_EQ(copier.wait(), 3) << "what it copied is worth nothing, and it has to know";
}

TEST_F(UpdateGates, WhoIsStoppedInsideKeepsTheOthersOutForHalfASecondAtMost) {
  auto copier = gate(), writer = gate();
  Forked stopped = somebody_inside();
  stopped.send(SIGSTOP);
  std::atomic<bool> done = false;
  std::thread closing([&] {
    Result<UpdateGate::Closing> closed = copier->close(in_ms(1500));
    EXPECT_EQ(closed->outcome, Outcome::TimedOut);
    EXPECT_EQ(closed->pid, static_cast<std::uint32_t>(stopped.pid()));
    done = true;
  });
  while (memory_.words.closed_by.load() == 0) std::this_thread::yield();
  EXPECT_TRUE(enters(*writer));
  EXPECT_FALSE(done) << "it went in between two tries of the copier";
  EXPECT_TRUE(writer->leave());
  closing.join();
  EXPECT_EQ(memory_.words.closed_by.load(), 0U);
}

TEST_F(UpdateGates, AForkedProcessHasAPlaceOfItsOwn) {
  auto parents = gate();
  ASSERT_TRUE(enters(*parents));
  Forked child([&] {
    bool out = parents->leave();  // of its parent's update, with no effect on it
    bool in = enters(*parents);
    std::vector<pid_t> users = parents->users();
    tell(0);
    ::pause();
    return out && in && users.size() == 2 ? 0 : 1;
  });
  ASSERT_TRUE(told(0));
  EXPECT_EQ(parents->users().size(), 2U);
  EXPECT_TRUE(parents->leave());
  EXPECT_EQ(close(*parents, in_ms(5)), Outcome::TimedOut) << "the child is inside";
  child.kill();
  EXPECT_EQ(close(*parents), Outcome::Ready);
  EXPECT_TRUE(parents->open());
  EXPECT_EQ(parents->cut_updates(), 1U);
  EXPECT_EQ(parents->users(), std::vector<pid_t>{::getpid()});
}

TEST_F(UpdateGates, ASignalInterruptsAWaitAndNothingElse) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  struct sigaction before = {};
  ::sigaction(SIGUSR1, &action, &before);
  auto writer = gate();
  Forked copier = somebody_copying();
  std::atomic<bool> back = false;
  std::thread entering([&] {
    Result<Outcome> outcome = writer->enter(soon());
    back = true;
    EXPECT_TRUE(outcome && *outcome == Outcome::Interrupted);
  });
  while (!back) {
    ::pthread_kill(entering.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  entering.join();
  EXPECT_FALSE(writer->is_inside());
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace pergpu::share
