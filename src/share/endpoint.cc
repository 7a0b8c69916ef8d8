// How an end of a channel sleeps: its own flag and the liveness words of all ends that it waits
// for, in one wait.  No wait is longer than kLongestWaitNs, and so often processes are asked for at
// whose end nothing hints: a hint that got lost costs time only.
#include <linux/futex.h>

#include <algorithm>

#include "os/clock.h"
#include "share/channel.h"

namespace pergpu::share {
namespace {

constexpr std::int64_t kLongestWaitNs = 150'000'000;
constexpr std::int64_t kFirstSoonNs = 500'000;
constexpr std::int64_t kLastSoonNs = 50'000'000;

}  // namespace

bool Endpoint::is_ours() const {
  return hold_.is_mine() && place_.owner.load(std::memory_order_relaxed) == mine_.pack();
}

void Endpoint::leave(PlaceState state) {
  std::uint64_t mine = mine_.pack();
  std::uint64_t left = mine_.with(state).pack();
  if (state == PlaceState::Left) place_.previous.store(left);
  place_.owner.compare_exchange_strong(mine, left);
}

void Endpoint::start_watching() {
  hold_.renew();
  watched_.clear();
  watched_.push_back({.word = &place_.sleeping, .value = 1});
}

void Endpoint::watch(Word& live, bool is_attached) {
  if (watched_.size() == kMostWatched) return;
  if (std::optional<std::uint32_t> value = announce_waiter(live)) {
    watched_.push_back({.word = &live, .value = *value});
  } else if (is_attached) {
    soon_ = true;
  }
}

void Endpoint::raise_flag() { place_.sleeping.store(1, std::memory_order_seq_cst); }

void Endpoint::lower_flag() {
  place_.sleeping.store(0, std::memory_order_relaxed);
  soon_ = false;
}

Woken Endpoint::doze(std::int64_t deadline_ns) {
  backoff_ns_ = soon_ ? std::clamp(2 * backoff_ns_, kFirstSoonNs, kLastSoonNs) : 0;
  std::int64_t now = os::awake_now_ns();
  if (thorough_at_ns_ == 0) thorough_at_ns_ = now + kLongestWaitNs;
  std::int64_t until = now + (soon_ ? backoff_ns_ : kLongestWaitNs);
  Woken woken = wait_any(watched_, std::min(until, deadline_ns));
  lower_flag();
  now = os::awake_now_ns();
  thorough_ = now >= thorough_at_ns_;
  if (thorough_) thorough_at_ns_ = now + kLongestWaitNs;
  if (woken == Woken::TimedOut && until < deadline_ns) woken = Woken::Look;
  // The kernel wakes one of those who wait for the dead one.
  for (std::size_t i = 1; i < watched_.size(); ++i) {
    if ((watched_[i].word->load() & FUTEX_OWNER_DIED) != 0) wake(*watched_[i].word);
  }
  return woken;
}

}  // namespace pergpu::share
