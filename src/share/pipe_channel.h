// The same slots, handed over by the kernel: their numbers travel through two pipes, filled ones
// one way, free ones back.  Nothing to prove, descriptors to poll, no atomics; but five descriptors
// instead of one, and a process that keeps a copy of a write end hides the other side's death.
//
// It is what the channel is tested against, what is left where shared words do not wake (futexes
// forbidden), and what an event loop can wait for.  Any number of producers and consumers may share
// the ends of one; each item goes to one consumer.  What a dead process held is not taken back, and
// an end cannot be replaced once all copies of it are gone.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "os/fd.h"
#include "result.h"
#include "share/channel.h"
#include "share/segment.h"
#include "share/slot.h"

namespace pergpu::share {

/// As many tokens as half a pipe of the usual size takes.
constexpr std::uint32_t kMostPipeSlots = 1024;

/// All descriptors of one; a process keeps those of its side.
struct PipeEnds {
  os::UniqueFd segment;
  os::UniqueFd ready_read;
  os::UniqueFd ready_write;
  os::UniqueFd free_read;
  os::UniqueFd free_write;

  /// `slots_per_lane` × `consumers` slots, for all producers together.  ErrorKind::Unavailable:
  /// this user has too many pipes, so the kernel gives small ones, which do not take as many
  /// tokens.
  static Result<PipeEnds> create(const ChannelOptions& options);
};

/// What both sides have: the memory, and a pipe to read numbers from and one to write them to.
class PipeEnd {
 public:
  /// Readable when there may be something to acquire or take, and at the other side's end.
  int fd() const { return in_.get(); }
  const Mapping& mapping() const { return mapping_; }
  /// Where the slots begin in it.
  std::uint64_t slots_at() const { return slots_at_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }
  /// Sleeps until the descriptor is readable; 200 ms at most.
  Woken wait(std::int64_t deadline_ns) const;

 protected:
  struct Header;
  struct Token {
    std::uint32_t slot = 0;
    std::uint32_t reserved = 0;
    std::uint64_t bytes = 0;
    std::uint64_t sequence = 0;
  };
  enum class Got { Token, TimedOut, Interrupted, Over, Corrupt };

  PipeEnd() = default;
  PipeEnd(PipeEnd&&) = default;
  PipeEnd& operator=(PipeEnd&&) = default;

  Result<void> open(const os::UniqueFd& segment);
  Got read_token(Token& token, std::int64_t deadline_ns) const;
  Result<void> write_token(const Token& token) const;
  bool is_ours() const;
  Header& header() const;
  std::byte* payload(std::uint32_t slot) const;

  Mapping mapping_;
  std::uint32_t slots_ = 0;
  std::uint64_t slot_bytes_ = 0;
  std::uint64_t stride_ = 0;
  std::uint64_t slots_at_ = 0;
  os::UniqueFd in_;
  os::UniqueFd out_;
  os::UniqueFd other_;  // keeps the pipe we write to from being without a reader: no SIGPIPE
  std::vector<bool> held_;
  pid_t pid_ = 0;
  bool told_ = false;
};

class PipeProducer final : public PipeEnd {
 public:
  static Result<PipeProducer> attach(PipeEnds ends);
  PipeProducer(PipeProducer&&) = default;
  ~PipeProducer();

  Acquired acquire(std::int64_t deadline_ns);
  Result<void> publish(const Slot& slot, std::uint64_t bytes);
  Result<void> abandon(const Slot& slot);
  void close();
  /// Leaves without close(), as the destructor does.
  void detach();

 private:
  PipeProducer() = default;
  std::vector<std::uint32_t> spare_;
};

class PipeConsumer final : public PipeEnd {
 public:
  static Result<PipeConsumer> attach(PipeEnds ends);

  Taken take(std::int64_t deadline_ns);
  Result<void> release(const Item& item);
  /// Takes no more.  What is held and not released is lost.
  void close();

 private:
  PipeConsumer() = default;
};

}  // namespace pergpu::share
