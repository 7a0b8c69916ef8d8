// glibc has no wrappers for these calls.  The structures are the kernel's; they are spelled out
// here because headers older than 5.16 do not have them.  Never FUTEX_PRIVATE: the other side is
// another process.
#include "share/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "os/clock.h"
#include "os/kernel.h"
#include "os/system_calls.h"

namespace pergpu::share {
namespace {

constexpr std::uint32_t k32Bits = 2;
constexpr std::int64_t kWatchedLookNs = 20'000'000;

struct WaitvEntry {
  std::uint64_t value = 0;
  std::uint64_t address = 0;
  std::uint32_t flags = k32Bits;
  std::uint32_t reserved = 0;
};

timespec as_timespec(std::int64_t ns) {
  ns = std::max<std::int64_t>(ns, 0);
  return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
}

Woken outcome_of(long result) {
  if (result >= 0) return Woken::Look;
  if (errno == ETIMEDOUT) return Woken::TimedOut;
  return errno == EINTR ? Woken::Interrupted : Woken::Look;
}

}  // namespace

Woken wait(const Word& word, std::uint32_t value, std::int64_t deadline_ns) {
  timespec at = as_timespec(deadline_ns);
  return outcome_of(::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, value,
                              deadline_ns == kForever ? nullptr : &at, nullptr,
                              FUTEX_BITSET_MATCH_ANY));
}

Woken sleep_until(std::int64_t deadline_ns) {
  static const Word nobody{0};  // changes it
  return wait(nobody, 0, deadline_ns);
}

bool watches_many() { return os::kernel_has(os::KernelCall::FutexWaitv); }

Woken wait_any(std::span<const Watched> words, std::int64_t deadline_ns) {
  if (words.size() == 1) return wait(*words[0].word, words[0].value, deadline_ns);
  if (!watches_many()) {
    std::int64_t soon = os::awake_now_ns() + kWatchedLookNs;
    Woken woken = wait(*words[0].word, words[0].value, std::min(soon, deadline_ns));
    return woken == Woken::TimedOut && soon < deadline_ns ? Woken::Look : woken;
  }
  std::array<WaitvEntry, kMostWatched> entries;
  std::size_t count = std::min(words.size(), entries.size());
  for (std::size_t i = 0; i < count; ++i) {
    entries[i].value = words[i].value;
    entries[i].address = reinterpret_cast<std::uintptr_t>(words[i].word);
  }
  timespec at = as_timespec(deadline_ns);
  return outcome_of(::syscall(os::call::kFutexWaitv, entries.data(), count, 0,
                              deadline_ns == kForever ? nullptr : &at, CLOCK_MONOTONIC));
}

void wake(const Word& word, int waiters) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, waiters, nullptr, nullptr, 0);
}

}  // namespace pergpu::share
