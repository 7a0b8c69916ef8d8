// Waiting for words of shared memory, between processes.
//
// A wait returns early for no reason now and then: the caller looks again.  Deadlines are absolute,
// in os::awake_now_ns().
#pragma once

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace pergpu::share {

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
/// How many words one wait can watch: the kernel's limit.
constexpr std::size_t kMostWatched = 128;

/// Watched as long as it has this value.
struct Watched {
  const Word* word = nullptr;
  std::uint32_t value = 0;
};

enum class Woken {
  Look,  // a process woke us, a word has another value, or nothing in particular
  TimedOut,
  Interrupted,  // by a signal: the caller's caller may have something to do about it (Ctrl-C)
};

Woken wait(const Word& word, std::uint32_t value, std::int64_t deadline_ns);

/// Nothing but a signal ends it earlier.
Woken sleep_until(std::int64_t deadline_ns);

/// Until one of the words changes.  Where the kernel cannot watch many (before 5.16, or forbidden
/// by a sandbox), the first word is watched, and Look returned at least every 20 ms. REQUIRES: 1 to
/// kMostWatched words.
Woken wait_any(std::span<const Watched> words, std::int64_t deadline_ns);

void wake(const Word& word, int waiters = INT_MAX);

/// Whether wait_any() watches all the words.
bool watches_many();

}  // namespace pergpu::share
