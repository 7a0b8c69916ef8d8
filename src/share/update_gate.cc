// Why a copy that was taken between close() and open() has no half update in it: who updates writes
// its place and then looks at the gate; who copies writes the gate and then looks at the places.
// All four are sequentially consistent, so at least one of the two sees the other, and the one who
// updates steps back.  What was written inside is seen by the copier because it saw the place
// become empty.
//
// A thread that is inside and comes in again (nested updates) must not wait for a copier that waits
// for it: each thread knows which gates it is inside of.
#include "share/update_gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "duration.h"
#include "os/clock.h"
#include "share/liveness.h"

namespace pergpu::share {
namespace {

constexpr std::int64_t kLookAgainNs = 10 * kMillisecond;  // whether a process died
constexpr std::int64_t kStandsStillNs = 2000 * kMillisecond;
constexpr std::int64_t kLongestHoldNs = 500 * kMillisecond;
constexpr std::int64_t kBreakNs = 20 * kMillisecond;  // between two holds

// A place's word: pid 22 bits, start 20, cut 10, inside 12.  Above `inside` is nothing, so that a
// count that runs over changes no pid.
constexpr int kCutShift = 42, kInsideShift = 52, kTicketShift = 42;
constexpr std::uint64_t kWho = (std::uint64_t{1} << kCutShift) - 1;
constexpr std::uint64_t kMostCut = (std::uint64_t{1} << (kInsideShift - kCutShift)) - 1;
constexpr std::uint64_t kOneInside = std::uint64_t{1} << kInsideShift;

std::uint64_t inside_of(std::uint64_t word) { return word >> kInsideShift; }
std::uint64_t cut_of(std::uint64_t word) { return word >> kCutShift & kMostCut; }
/// What is left of a place when its owner is gone.
std::uint64_t emptied(std::uint64_t word, std::uint64_t cut) {
  return std::min(cut_of(word) + cut, kMostCut) << kCutShift;
}

/// pid and start are where Owner has them.
Owner owner_of(std::uint64_t word) { return Owner::unpack(word & kWho); }
bool is_dead(std::uint64_t word) { return (word & kWho) != 0 && has_ended(owner_of(word)); }

/// 0: it can't be determined, for want of descriptors.
std::uint64_t who_we_are() {
  Owner me = this_process();
  return me.start == 0 ? 0 : me.with(PlaceState::Vacant).pack() & kWho;
}

std::atomic<std::uint64_t> serials{0};
std::atomic<std::uint64_t> tickets{0};

/// Of held_: what a process that was forked off has another number of.
unsigned forks_of(std::uint64_t held) { return static_cast<unsigned>(held >> 32); }

/// The gates that this thread is inside of; nearly always none or one.
struct Depth {
  std::uint64_t serial = 0;
  unsigned forks = 0;
  unsigned depth = 0;
};
thread_local std::vector<Depth> depths;

Depth* depth_of(std::uint64_t serial, unsigned forks) {
  for (Depth& one : depths) {
    if (one.serial == serial && one.forks == forks) return &one;
  }
  return nullptr;
}

}  // namespace

UpdateGate::UpdateGate(GateWords* words, std::span<UpdatePlace> places)
    : words_(words), places_(places), serial_(serials.fetch_add(1)) {
  count_forks();
}

UpdateGate::~UpdateGate() {
  std::uint64_t held = held_.load();
  if (!has_place(held)) return;
  std::uint64_t seen = place(held).load();
  while (!place(held).compare_exchange_weak(seen, emptied(seen, 0))) {
  }
  tell_copier();
}

// ---- places ----

bool UpdateGate::has_place(std::uint64_t held) const {
  return held != 0 && forks_of(held) == forks_so_far.load(std::memory_order_relaxed);
}

std::atomic<std::uint64_t>& UpdateGate::place(std::uint64_t held) const {
  return places_[static_cast<std::uint32_t>(held) - 1].word;
}

Result<void> UpdateGate::attach() {
  std::uint64_t held = held_.load();
  if (has_place(held)) return {};
  std::uint64_t me = who_we_are();
  if (me == 0) {
    return Error{ErrorKind::Unavailable, EMFILE,
                 "parameters: no free descriptor to identify this process"};
  }
  for (bool also_dead : {false, true}) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      std::atomic<std::uint64_t>& word = places_[i].word;
      std::uint64_t seen = word.load();
      bool free = (seen & kWho) == 0 || (also_dead && is_dead(seen));
      if (!free || !word.compare_exchange_strong(seen, me | emptied(seen, inside_of(seen))))
        continue;
      std::uint64_t now = std::uint64_t{forks_so_far.load()} << 32 | (i + 1);
      if (!held_.compare_exchange_strong(held, now)) {
        word.store(emptied(word.load(), 0));  // another thread of this process was faster
      }
      return {};
    }
  }
  return Error{ErrorKind::Full, ENOSPC,
               "parameters: all " + std::to_string(places_.size()) +
                   " places are taken by running processes"};
}

/// The pid of one that lives and is inside; 0: none.
std::uint64_t UpdateGate::bury_the_dead() {
  std::uint64_t inside = 0;
  for (UpdatePlace& one : places_) {
    std::uint64_t seen = one.word.load();
    while (inside_of(seen) != 0) {
      if (!is_dead(seen)) {
        inside = owner_of(seen).pid;
        break;
      }
      if (one.word.compare_exchange_strong(seen, emptied(seen, inside_of(seen)))) break;
    }
  }
  return inside;
}

std::uint64_t UpdateGate::cut_updates() {
  bury_the_dead();
  std::uint64_t cut = 0;
  for (const UpdatePlace& one : places_) cut += cut_of(one.word.load());
  return cut;
}

std::vector<pid_t> UpdateGate::users() const {
  std::vector<pid_t> pids;
  for (const UpdatePlace& one : places_) {
    std::uint64_t seen = one.word.load();
    if ((seen & kWho) != 0 && !is_dead(seen)) {
      pids.push_back(static_cast<pid_t>(owner_of(seen).pid));
    }
  }
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

// ---- updates ----

bool UpdateGate::try_enter() {
  std::uint64_t held = held_.load(std::memory_order_acquire);
  if (!has_place(held)) return false;
  if (Depth* depth = depth_of(serial_, forks_of(held))) {
    ++depth->depth;
    return true;
  }
  place(held).fetch_add(kOneInside);
  if (words_->closed_by.load() != 0) {
    place(held).fetch_sub(kOneInside);
    tell_copier();
    return false;
  }
  depths.push_back({.serial = serial_, .forks = forks_of(held), .depth = 1});
  return true;
}

Result<Outcome> UpdateGate::enter(std::int64_t deadline_ns) {
  while (true) {
    if (Result<void> attached = attach(); !attached) return std::move(attached).error();
    if (try_enter()) return Outcome::Ready;
    if (std::uint64_t closed_by = words_->closed_by.load(); closed_by != 0) {
      Outcome outcome = wait_until_open(closed_by, deadline_ns);
      if (outcome != Outcome::Ready) return outcome;
    }
  }
}

bool UpdateGate::leave() {
  Depth* depth = depth_of(serial_, forks_so_far.load(std::memory_order_relaxed));
  if (depth == nullptr) {
    // A process that was forked off inside an update of its parent has nothing to give back.
    return std::any_of(depths.begin(), depths.end(),
                       [this](const Depth& one) { return one.serial == serial_; });
  }
  if (--depth->depth > 0) return true;
  *depth = depths.back();
  depths.pop_back();
  place(held_.load(std::memory_order_relaxed)).fetch_sub(kOneInside);
  tell_copier();
  return true;
}

bool UpdateGate::is_inside() const {
  return depth_of(serial_, forks_so_far.load(std::memory_order_relaxed)) != nullptr;
}

void UpdateGate::tell_copier() {
  if (words_->closed_by.load() == 0) return;
  words_->left.fetch_add(1);
  wake(words_->left);
}

// ---- the gate ----

Result<UpdateGate::Closing> UpdateGate::close(std::int64_t deadline_ns) {
  if (Result<void> attached = attach(); !attached) return std::move(attached).error();
  std::uint64_t me = place(held_.load()).load() & kWho;
  mine_ = me | (tickets.fetch_add(1) + 1) << kTicketShift;
  while (true) {
    std::uint64_t found = 0;
    if (!words_->closed_by.compare_exchange_strong(found, mine_)) {
      Outcome outcome = wait_until_open(found, deadline_ns);
      if (outcome == Outcome::Ready) continue;
      return Closing{.outcome = outcome, .pid = owner_of(found).pid};
    }
    std::int64_t hold = std::min(deadline_ns, os::awake_now_ns() + kLongestHoldNs);
    while (true) {
      std::uint32_t left = words_->left.load();
      auto inside = static_cast<std::uint32_t>(bury_the_dead());
      if (inside == 0) return Closing{.outcome = Outcome::Ready};
      std::int64_t now = os::awake_now_ns();
      bool interrupted =
          now < hold &&
          wait(words_->left, left, std::min(hold, now + kLookAgainNs)) == Woken::Interrupted;
      beat();
      if (now < hold && !interrupted) continue;
      open();
      if (interrupted) return Closing{.outcome = Outcome::Interrupted};
      if (now >= deadline_ns) return Closing{.outcome = Outcome::TimedOut, .pid = inside};
      break;
    }
    sleep_until(os::awake_now_ns() + kBreakNs);
  }
}

bool UpdateGate::open() {
  std::uint64_t mine = mine_;
  bool closed_until_now = words_->closed_by.compare_exchange_strong(mine, 0);
  if (closed_until_now) tell_waiting();
  return closed_until_now;
}

void UpdateGate::tell_waiting() {
  words_->opened.fetch_add(1);
  wake(words_->opened);
}

/// Ready: it is worth another try.
Outcome UpdateGate::wait_until_open(std::uint64_t closed_by, std::int64_t deadline_ns) {
  std::uint32_t beats = words_->beats.load();
  std::int64_t patience = os::awake_now_ns() + kStandsStillNs;
  while (true) {
    std::uint32_t opened = words_->opened.load();
    if (words_->closed_by.load() != closed_by) return Outcome::Ready;
    std::int64_t now = os::awake_now_ns();
    if (std::uint32_t beats_now = words_->beats.load(); beats_now != beats) {
      beats = beats_now;
      patience = now + kStandsStillNs;
    }
    if (now >= patience || has_ended(owner_of(closed_by))) {
      if (words_->closed_by.compare_exchange_strong(closed_by, 0)) tell_waiting();
      return Outcome::Ready;
    }
    if (now >= deadline_ns) return Outcome::TimedOut;
    if (wait(words_->opened, opened, std::min(deadline_ns, now + kLookAgainNs)) ==
        Woken::Interrupted) {
      return Outcome::Interrupted;
    }
  }
}

}  // namespace pergpu::share
