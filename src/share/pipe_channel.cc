// A token is smaller than PIPE_BUF and all tokens have one size, so each is read and written whole,
// by however many processes.  Tokens of all slots fit into a pipe, which is looked at when it is
// made (pipe(7): who has many pipes gets small ones): a write never waits.
//
// The end of the other side is the end of file of its pipe; the header's counters distinguish
// closing and leaving from dying.
#include "share/pipe_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "os/clock.h"

namespace pergpu::share {
namespace {

constexpr std::uint64_t kPipeMagic = 0x65706970'75677065;  // "epgupipe"

constexpr std::int64_t kLongestPipeWaitNs = 200'000'000;
constexpr const char* kForked = "this end is closed, or was inherited by fork()";

Error invalid_pipe_channel(std::string message) {
  return Error{ErrorKind::Invalid, EINVAL, "channel over pipes: " + std::move(message)};
}

/// For the tokens of `slots` slots, each of `token` bytes.
Result<void> make_pipe(os::UniqueFd& read_end, os::UniqueFd& write_end, std::uint32_t slots,
                       std::size_t token) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return os_error("make a pipe");
  read_end.reset(fds[0]);
  write_end.reset(fds[1]);
  // No token lies across two pages, and the first page stays until its last token was read.
  std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t needed = ((slots - 1) / (page / token) + 2) * page;
  int size = ::fcntl(write_end.get(), F_GETPIPE_SZ);
  if (size < 0 || static_cast<std::size_t>(size) >= needed) return {};  // or it may not be asked
  if (::fcntl(write_end.get(), F_SETPIPE_SZ, static_cast<int>(needed)) >= 0) return {};
  return Error{ErrorKind::Unavailable, errno,
               "channel over pipes: a pipe has " + std::to_string(size) + " bytes, " +
                   std::to_string(slots) + " slots need " + std::to_string(needed) +
                   ": use fewer slots, or close pipes; you have more than "
                   "/proc/sys/fs/pipe-user-pages-soft allows"};
}

}  // namespace

struct PipeEnd::Header {
  std::uint64_t magic;
  std::uint32_t slots;
  std::uint32_t page_aligned;
  std::uint64_t slot_bytes;
  alignas(64) std::atomic<std::uint64_t> sequence;
  Word attached;  // producers that ever were
  Word closed;
  Word left;
  Word producer;  // pid of the last one
  Word consumer;
};

Result<PipeEnds> PipeEnds::create(const ChannelOptions& options) {
  // The same limits, and the same words about them.
  Result<Geometry> geometry =
      Geometry::plan(options.producers, options.consumers, options.slots_per_lane,
                     options.slot_bytes, options.page_aligned);
  if (!geometry) return std::move(geometry).error();
  if (geometry->slots > kMostPipeSlots) {
    return invalid_pipe_channel(std::to_string(geometry->slots) + " slots, at most " +
                                std::to_string(kMostPipeSlots));
  }
  std::uint64_t at = geometry->page_bytes;
  Result<Segment> segment =
      Segment::create(options.name, at + geometry->slots * geometry->slot_stride);
  if (!segment) return std::move(segment).error();
  PipeEnds ends;
  struct Maker : PipeEnd {
    static Result<void> make(os::UniqueFd& read_end, os::UniqueFd& write_end, std::uint32_t slots) {
      return make_pipe(read_end, write_end, slots, sizeof(Token));
    }
    static Result<void> fill(const Segment& segment, const Geometry& geometry,
                             const PipeEnds& ends) {
      Result<Mapping> mapping = segment.map(View::Shared);
      if (!mapping) return std::move(mapping).error();
      auto* header = reinterpret_cast<Header*>(mapping->data());
      header->slots = geometry.slots;
      header->page_aligned = geometry.page_aligned ? 1 : 0;
      header->slot_bytes = geometry.slot_bytes;
      header->magic = kPipeMagic;
      for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
        Token token = {.slot = slot};
        if (::write(ends.free_write.get(), &token, sizeof(token)) != sizeof(token)) {
          return os_error("fill the pipe of free slots");
        }
      }
      return {};
    }
  };
  if (Result<void> made = Maker::make(ends.ready_read, ends.ready_write, geometry->slots); !made) {
    return std::move(made).error();
  }
  if (Result<void> made = Maker::make(ends.free_read, ends.free_write, geometry->slots); !made) {
    return std::move(made).error();
  }
  if (Result<void> filled = Maker::fill(*segment, *geometry, ends); !filled) {
    return std::move(filled).error();
  }
  ends.segment.reset(::fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0));
  if (!ends.segment) return os_error("duplicate the descriptor of a segment");
  return ends;
}

// ---- both sides ----

Result<void> PipeEnd::open(const os::UniqueFd& segment) {
  Result<Segment> memory = Segment::adopt(os::UniqueFd(::fcntl(segment.get(), F_DUPFD_CLOEXEC, 0)));
  if (!memory) return std::move(memory).error();
  Result<Mapping> mapping = memory->map(View::Shared);
  if (!mapping) return std::move(mapping).error();
  mapping_ = std::move(*mapping);
  Error corrupt{ErrorKind::Corrupt, 0, "the segment isn't a channel over pipes"};
  if (mapping_.size() < sizeof(Header) || header().magic != kPipeMagic) return corrupt;
  slots_ = header().slots;
  Result<Geometry> geometry =
      Geometry::plan(1, 1, slots_, header().slot_bytes, header().page_aligned != 0);
  if (!geometry || slots_ > kMostPipeSlots) return corrupt;
  slot_bytes_ = geometry->slot_bytes;
  stride_ = geometry->slot_stride;
  slots_at_ = geometry->page_bytes;
  if (slots_at_ + slots_ * stride_ > mapping_.size()) return corrupt;
  held_.resize(slots_);
  pid_ = ::getpid();
  return {};
}

PipeEnd::Header& PipeEnd::header() const { return *reinterpret_cast<Header*>(mapping_.data()); }

std::byte* PipeEnd::payload(std::uint32_t slot) const {
  return mapping_.data() + slots_at_ + slot * stride_;
}

bool PipeEnd::is_ours() const { return pid_ == ::getpid() && out_; }

PipeEnd::Got PipeEnd::read_token(Token& token, std::int64_t deadline_ns) const {
  while (true) {
    ssize_t got = ::read(in_.get(), &token, sizeof(token));
    if (got == 0) return Got::Over;
    if (got > 0) {
      bool fits = got == sizeof(token) && token.slot < slots_ && token.bytes <= slot_bytes_;
      return fits && !held_[token.slot] ? Got::Token : Got::Corrupt;
    }
    if (errno != EAGAIN && errno != EINTR) return Got::Corrupt;
    if (deadline_ns <= 0 || os::awake_now_ns() >= deadline_ns) return Got::TimedOut;
    if (wait(deadline_ns) == Woken::Interrupted) return Got::Interrupted;
  }
}

Woken PipeEnd::wait(std::int64_t deadline_ns) const {
  std::int64_t left =
      std::clamp(deadline_ns - os::awake_now_ns(), std::int64_t{0}, kLongestPipeWaitNs);
  timespec time = {.tv_sec = 0, .tv_nsec = left};
  pollfd waiting = {.fd = in_.get(), .events = POLLIN, .revents = 0};
  int ready = ::ppoll(&waiting, 1, &time, nullptr);
  return ready < 0 && errno == EINTR ? Woken::Interrupted : Woken::Look;
}

Result<void> PipeEnd::write_token(const Token& token) const {
  if (::write(out_.get(), &token, sizeof(token)) != sizeof(token)) {
    return os_error("channel over pipes: write a slot's number");
  }
  return {};
}

// ---- producers ----

Result<PipeProducer> PipeProducer::attach(PipeEnds ends) {
  PipeProducer producer;
  if (Result<void> opened = producer.open(ends.segment); !opened) return std::move(opened).error();
  producer.in_ = std::move(ends.free_read);
  producer.out_ = std::move(ends.ready_write);
  producer.other_ = std::move(ends.ready_read);
  producer.spare_.reserve(producer.slots_);
  producer.header().producer = static_cast<std::uint32_t>(::getpid());
  ++producer.header().attached;
  return producer;
}

PipeProducer::~PipeProducer() { detach(); }

void PipeProducer::detach() {
  if (!is_ours()) return;
  ++header().left;
  out_.reset();
}

Acquired PipeProducer::acquire(std::int64_t deadline_ns) {
  Acquired result;
  if (!is_ours()) {
    bool closed = pid_ == ::getpid();
    result.outcome = closed ? Outcome::Ended : Outcome::Stale;
    result.why = kForked;
    return result;
  }
  Token token;
  Got got = Got::Token;
  if (spare_.empty()) {
    got = read_token(token, deadline_ns);
  } else {
    token.slot = spare_.back();
    spare_.pop_back();
  }
  switch (got) {
    case Got::Token:
      held_[token.slot] = true;
      result.outcome = Outcome::Ready;
      result.slot = {.data = payload(token.slot),
                     .size = static_cast<std::size_t>(slot_bytes_),
                     .index = token.slot};
      break;
    case Got::TimedOut:
      result.outcome = Outcome::TimedOut;
      break;
    case Got::Interrupted:
      result.outcome = Outcome::Interrupted;
      break;
    case Got::Over:
      // No consumer is left and none can come: there will be no free slot any more.
      result.outcome = std::exchange(told_, true) ? Outcome::Ended : Outcome::PeerDied;
      result.peer.pid = header().consumer;
      break;
    case Got::Corrupt:
      result.outcome = Outcome::Corrupt;
      result.why = "a pipe delivered invalid data from a consumer";
      break;
  }
  return result;
}

Result<void> PipeProducer::publish(const Slot& slot, std::uint64_t bytes) {
  if (!is_ours())
    return invalid_pipe_channel("this producer is closed, or was inherited by fork()");
  if (slot.index >= slots_ || !held_[slot.index])
    return invalid_pipe_channel("the slot isn't held");
  if (bytes > slot_bytes_)
    return invalid_pipe_channel(std::to_string(bytes) + " bytes are too many");
  Result<void> sent =
      write_token({.slot = slot.index, .bytes = bytes, .sequence = ++header().sequence});
  if (sent) held_[slot.index] = false;
  return sent;
}

Result<void> PipeProducer::abandon(const Slot& slot) {
  if (slot.index >= slots_ || !held_[slot.index])
    return invalid_pipe_channel("the slot isn't held");
  held_[slot.index] = false;
  spare_.push_back(slot.index);
  return {};
}

void PipeProducer::close() {
  if (!is_ours()) return;
  ++header().closed;
  out_.reset();
}

// ---- consumers ----

Result<PipeConsumer> PipeConsumer::attach(PipeEnds ends) {
  PipeConsumer consumer;
  if (Result<void> opened = consumer.open(ends.segment); !opened) return std::move(opened).error();
  consumer.in_ = std::move(ends.ready_read);
  consumer.out_ = std::move(ends.free_write);
  consumer.other_ = std::move(ends.free_read);
  consumer.header().consumer = static_cast<std::uint32_t>(::getpid());
  return consumer;
}

Taken PipeConsumer::take(std::int64_t deadline_ns) {
  Taken result;
  if (!is_ours()) {
    result.outcome = Outcome::Stale;
    result.why = kForked;
    return result;
  }
  Token token;
  switch (read_token(token, deadline_ns)) {
    case Got::Token:
      held_[token.slot] = true;
      result.outcome = Outcome::Ready;
      result.item = {.data = payload(token.slot),
                     .bytes = static_cast<std::size_t>(token.bytes),
                     .sequence = token.sequence,
                     .slot = token.slot};
      break;
    case Got::TimedOut:
      result.outcome = Outcome::TimedOut;
      break;
    case Got::Interrupted:
      result.outcome = Outcome::Interrupted;
      break;
    case Got::Over: {
      std::uint32_t attached = header().attached;
      bool closed = attached != 0 && header().closed >= attached;
      bool left = attached != 0 && header().closed + header().left >= attached;
      if (closed || std::exchange(told_, true)) {
        result.outcome = Outcome::Ended;
      } else {
        result.outcome = left ? Outcome::PeerLeft : Outcome::PeerDied;
      }
      result.peer = {.pid = header().producer, .last_sequence = header().sequence};
      break;
    }
    case Got::Corrupt:
      result.outcome = Outcome::Corrupt;
      result.why = "a pipe delivered invalid data from a producer";
      break;
  }
  return result;
}

void PipeConsumer::close() {
  if (pid_ != ::getpid()) return;
  in_.reset();
  out_.reset();
}

Result<void> PipeConsumer::release(const Item& item) {
  if (!is_ours())
    return invalid_pipe_channel("this consumer is closed, or was inherited by fork()");
  if (item.slot >= slots_ || !held_[item.slot]) return invalid_pipe_channel("the slot isn't held");
  Result<void> given = write_token({.slot = item.slot});
  if (given) held_[item.slot] = false;
  return given;
}

}  // namespace pergpu::share
