// What the tests of channels have in common: other processes that are certainly gone at the end,
// deadlines, and items whose content says whether they are whole.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "os/clock.h"
#include "share/channel.h"

namespace pergpu::share {

constexpr std::int64_t kMs = 1'000'000;
/// A deadline of os::awake_now_ns().  Ten seconds are never waited for when all is well.
inline std::int64_t in_ms(std::int64_t ms) { return os::awake_now_ns() + ms * kMs; }
inline std::int64_t soon() { return in_ms(10'000); }

/// A forked process; killed and reaped at the end of its life, with whatever it does.
class Forked {
 public:
  /// Exits with what `body` returns, without running anything of this process's.
  explicit Forked(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) {
      ::alarm(60);
      ::_exit(body());
    }
  }
  Forked(Forked&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Forked& operator=(Forked&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Forked() {
    if (pid_ > 0) kill();
  }

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  void kill() {
    send(SIGKILL);
    wait();
  }
  /// The exit status; -signal when it was killed.
  int wait() {
    siginfo_t info = {};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
    }
    pid_ = -1;
    return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
  }

 private:
  pid_t pid_ = -1;
};

/// Words that forked processes see, too.
class Shared {
 public:
  Shared()
      : words_(static_cast<Word*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(words_, 4096); }
  Word& operator[](std::size_t i) const { return words_[i]; }

 private:
  Word* words_;
};

/// Until a word has at least this value; false: not within ten seconds.
inline bool reaches(Word& word, std::uint32_t value) {
  std::int64_t deadline = soon();
  while (word.load() < value) {
    if (os::awake_now_ns() > deadline) return false;
    pergpu::share::wait(word, word.load(), in_ms(1));
  }
  return true;
}

inline Channel make_channel(ChannelOptions options) {
  if (options.slot_bytes == 0) options.slot_bytes = 256;
  Result<Channel> channel = Channel::create(options);
  EXPECT_TRUE(channel) << channel.error().message;
  return std::move(*channel);
}

inline std::unique_ptr<Producer> producer_of(const Channel& channel) {
  Result<std::unique_ptr<Producer>> producer = channel.attach_producer();
  EXPECT_TRUE(producer) << producer.error().message;
  return producer ? std::move(*producer) : nullptr;
}

inline std::unique_ptr<Consumer> consumer_of(const Channel& channel) {
  Result<std::unique_ptr<Consumer>> consumer = channel.attach_consumer();
  EXPECT_TRUE(consumer) << consumer.error().message;
  return consumer ? std::move(*consumer) : nullptr;
}

/// Every eight bytes of an item follow from its number: a torn one shows.
inline void fill(std::byte* data, std::size_t bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t value = number * 0x9E3779B97F4A7C15 + at;
    std::memcpy(data + at, &value, 8);
  }
}

inline bool is_whole(const std::byte* data, std::size_t bytes, std::uint64_t number) {
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t value = 0;
    std::memcpy(&value, data + at, 8);
    if (value != number * 0x9E3779B97F4A7C15 + at) return false;
  }
  return true;
}

/// The size of item `number`: anything up to `most`, in steps of eight, never 0.
inline std::size_t size_of(std::uint64_t number, std::size_t most) {
  return 8 + 8 * (number * 2654435761U % (most / 8));
}

/// Publishes one item whose content follows from `number`; what came instead of a slot.
template <typename AnyProducer>
Outcome send(AnyProducer& producer, std::uint64_t number, std::int64_t deadline) {
  Acquired got = producer.acquire(deadline);
  if (got.outcome != Outcome::Ready) return got.outcome;
  std::size_t bytes = size_of(number, got.slot.size);
  fill(got.slot.data, bytes, number);
  return producer.publish(got.slot, bytes) ? Outcome::Ready : Outcome::Stale;
}

/// Whether the slots of a channel are each in one place: rings, hands, or spare.  For moments at
/// which nobody moves.  `held`: how many the consumers hold; `spare`: how many the producer has.
inline std::string misplaced(const Channel& channel) {
  const Layout& layout = channel.core().layout;
  const Geometry& g = layout.geometry();
  for (std::uint32_t p = 0; p < g.producers; ++p) {
    std::vector<int> seen(g.slots);
    for (std::uint32_t c = 0; c < g.consumers; ++c) {
      for (const Ring& ring : {layout.ready(p, c), layout.free(p, c)}) {
        std::uint32_t head = ring.words->head.load();
        std::uint32_t tail = ring.words->tail.load();
        if (tail - head > g.slots) return "a ring holds more than there is";
        for (; head != tail; ++head) ++seen.at(ring.entries[head & ring.mask].load());
      }
    }
    for (std::uint32_t slot = 0; slot < g.slots; ++slot) {
      if (seen[slot] > 1) return "slot " + std::to_string(slot) + " is in two rings";
    }
  }
  return "";
}

}  // namespace pergpu::share
