// libpergpu_share for C++20: owners for the handles of pergpu_share.h, and nothing else; what
// things do, and who may call what when, is said there.  Header only, on top of the C interface, so
// that a program and the library may be built by different compilers.
//
//   pergpu_share::Channel channel({.slot_bytes = 1 << 20});
//   pergpu_share::Producer producer = channel.producer();
//   pergpu_share::Acquired got = producer.acquire();
//   if (got) got.slot.publish(write_into(got.slot.bytes()));
//
// What fails throws pergpu_share::Error.  How a wait ended is an Outcome, and never thrown. Objects
// that were moved from may be assigned to and destroyed, no more.
#pragma once

#include <pergpu_share.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace pergpu_share {

class Error : public std::runtime_error {
 public:
  explicit Error(const pergpu_share_error& error)
      : std::runtime_error(error.message),
        code_(static_cast<pergpu_share_code>(error.code)),
        os_errno_(error.os_errno) {}

  pergpu_share_code code() const noexcept { return code_; }
  int os_errno() const noexcept { return os_errno_; }

 private:
  pergpu_share_code code_;
  int os_errno_;
};

enum class Pages : std::uint32_t {
  Normal = PERGPU_SHARE_PAGES_NORMAL,
  Huge = PERGPU_SHARE_PAGES_HUGE,
};
enum class View : std::uint32_t {
  Private = PERGPU_SHARE_VIEW_PRIVATE,
  ReadOnly = PERGPU_SHARE_VIEW_READ_ONLY,
  Shared = PERGPU_SHARE_VIEW_SHARED,
};
enum class Side : std::uint32_t {
  Producers = PERGPU_SHARE_PRODUCERS,
  Consumers = PERGPU_SHARE_CONSUMERS,
};
enum class Outcome : std::int32_t {
  Ready = PERGPU_SHARE_READY,
  TimedOut = PERGPU_SHARE_TIMED_OUT,
  Interrupted = PERGPU_SHARE_INTERRUPTED,
  Ended = PERGPU_SHARE_ENDED,
  PeerDied = PERGPU_SHARE_PEER_DIED,
  PeerLeft = PERGPU_SHARE_PEER_LEFT,
  BadMemory = PERGPU_SHARE_BAD_MEMORY,
  Stale = PERGPU_SHARE_STALE
};
inline const char* name_of(Outcome outcome) {
  return pergpu_share_outcome_name(static_cast<std::int32_t>(outcome));
}

/// How long a wait may take; zero: not at all.
using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout kForever = Timeout::max();

namespace detail {

/// Calls a function of the C interface, whose last argument is the error.
template <typename Function, typename... Arguments>
void call(Function function, Arguments... arguments) {
  pergpu_share_error error = {};
  if (function(arguments..., &error) != PERGPU_SHARE_OK) throw Error(error);
}

/// A struct that begins with struct_size.
template <typename T>
T sized() {
  T value = {};
  value.struct_size = sizeof(T);
  return value;
}

template <typename T, void (*kFree)(T*)>
struct Free {
  void operator()(T* handle) const noexcept { kFree(handle); }
};
template <typename T, void (*kFree)(T*)>
using Handle = std::unique_ptr<T, Free<T, kFree>>;

inline std::int64_t deadline(Timeout timeout) { return pergpu_share_deadline(timeout.count()); }

}  // namespace detail

/// A part of memory, or of a file, in this process.
class Mapping {
 public:
  /// Of an ordinary file; `fd` stays the caller's.
  static Mapping of_file(int fd, std::uint64_t offset, std::uint64_t size, View view) {
    pergpu_share_mapping* mapping = nullptr;
    detail::call(pergpu_share_file_map, fd, offset, size, static_cast<std::uint32_t>(view),
                 &mapping);
    return Mapping(mapping);
  }

  std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(pergpu_share_mapping_data(handle_.get())),
            static_cast<std::size_t>(pergpu_share_mapping_size(handle_.get()))};
  }

 private:
  friend class Memory;
  explicit Mapping(pergpu_share_mapping* mapping) : handle_(mapping) {}
  detail::Handle<pergpu_share_mapping, pergpu_share_mapping_free> handle_;
};

class Memory {
 public:
  /// Zeroed, all of it reserved.
  Memory(const std::string& name, std::uint64_t size, Pages pages = Pages::Normal) {
    pergpu_share_memory* memory = nullptr;
    detail::call(pergpu_share_memory_create, name.c_str(), size, static_cast<std::uint32_t>(pages),
                 &memory);
    handle_.reset(memory);
  }
  /// What another process made.  `fd` is its own to close, unless this throws.
  static Memory adopt(int fd) {
    pergpu_share_memory* memory = nullptr;
    detail::call(pergpu_share_memory_adopt, fd, &memory);
    return Memory(memory);
  }

  /// The memory's own, for a child or a socket.
  int fd() const { return describe().fd; }
  std::uint64_t size() const { return describe().size; }
  /// Nobody, of whichever process, can change the content.
  bool sealed() const { return describe().sealed != 0; }
  Pages pages() const { return static_cast<Pages>(describe().pages); }

  void seal() { detail::call(pergpu_share_memory_seal, handle_.get()); }
  Mapping map(View view) const {
    pergpu_share_mapping* mapping = nullptr;
    detail::call(pergpu_share_memory_map, handle_.get(), static_cast<std::uint32_t>(view),
                 &mapping);
    return Mapping(mapping);
  }

 private:
  explicit Memory(pergpu_share_memory* memory) : handle_(memory) {}
  pergpu_share_memory_info describe() const {
    auto info = detail::sized<pergpu_share_memory_info>();
    detail::call(pergpu_share_memory_describe, handle_.get(), &info);
    return info;
  }

  detail::Handle<pergpu_share_memory, pergpu_share_memory_free> handle_;
};

using Peer = pergpu_share_peer;

/// To be filled; abandoned at the end of its life, unless it was published.  Its producer lives
/// longer.
class Slot {
 public:
  Slot() = default;
  Slot(Slot&& other) noexcept
      : producer_(std::exchange(other.producer_, nullptr)), slot_(other.slot_) {}
  Slot& operator=(Slot&& other) noexcept {
    std::swap(producer_, other.producer_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~Slot() {
    if (producer_ != nullptr) pergpu_share_producer_abandon(producer_, &slot_, nullptr);
  }

  std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(slot_.data), static_cast<std::size_t>(slot_.size)};
  }
  /// The first `bytes` of it.  If this throws it is still to be published.
  void publish(std::uint64_t bytes) {
    detail::call(pergpu_share_producer_publish, producer_, &slot_, bytes);
    producer_ = nullptr;
  }

 private:
  friend class Producer;
  Slot(pergpu_share_producer* producer, const pergpu_share_slot& slot)
      : producer_(producer), slot_(slot) {}

  pergpu_share_producer* producer_ = nullptr;
  pergpu_share_slot slot_ = {};
};

/// To be read; released at the end of its life.  Its consumer lives longer.
class Item {
 public:
  Item() = default;
  Item(Item&& other) noexcept
      : consumer_(std::exchange(other.consumer_, nullptr)), item_(other.item_) {}
  Item& operator=(Item&& other) noexcept {
    std::swap(consumer_, other.consumer_);
    std::swap(item_, other.item_);
    return *this;
  }
  ~Item() {
    if (consumer_ != nullptr) pergpu_share_consumer_release(consumer_, &item_, nullptr);
  }

  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(item_.data), static_cast<std::size_t>(item_.bytes)};
  }
  std::uint64_t sequence() const noexcept { return item_.sequence; }
  std::uint32_t producer() const noexcept { return item_.producer; }

 private:
  friend class Consumer;
  Item(pergpu_share_consumer* consumer, const pergpu_share_item& item)
      : consumer_(consumer), item_(item) {}

  pergpu_share_consumer* consumer_ = nullptr;
  pergpu_share_item item_ = {};
};

struct Acquired {
  Outcome outcome = Outcome::TimedOut;
  Slot slot = {};  // Ready
  Peer peer = {};  // PeerDied, PeerLeft
  const char* why = "";
  explicit operator bool() const noexcept { return outcome == Outcome::Ready; }
};

struct Taken {
  Outcome outcome = Outcome::TimedOut;
  Item item = {};
  Peer peer = {};
  const char* why = "";
  explicit operator bool() const noexcept { return outcome == Outcome::Ready; }
};

class Producer {
 public:
  std::uint32_t index() const {
    std::uint32_t index = 0;
    detail::call(pergpu_share_producer_index, handle_.get(), &index);
    return index;
  }
  Acquired acquire(Timeout timeout = kForever) {
    auto got = detail::sized<pergpu_share_acquired>();
    detail::call(pergpu_share_producer_acquire, handle_.get(), detail::deadline(timeout), &got);
    Acquired acquired;
    acquired.outcome = static_cast<Outcome>(got.outcome);
    if (acquired) acquired.slot = Slot(handle_.get(), got.slot);
    acquired.peer = got.peer;
    acquired.why = got.why;
    return acquired;
  }
  /// Nothing more will come from here.
  void close() { detail::call(pergpu_share_producer_close, handle_.get()); }

 private:
  friend class Channel;
  explicit Producer(pergpu_share_producer* producer) : handle_(producer) {}
  detail::Handle<pergpu_share_producer, pergpu_share_producer_free> handle_;
};

class Consumer {
 public:
  std::uint32_t index() const {
    std::uint32_t index = 0;
    detail::call(pergpu_share_consumer_index, handle_.get(), &index);
    return index;
  }
  Taken take(Timeout timeout = kForever) {
    auto got = detail::sized<pergpu_share_taken>();
    detail::call(pergpu_share_consumer_take, handle_.get(), detail::deadline(timeout), &got);
    Taken taken;
    taken.outcome = static_cast<Outcome>(got.outcome);
    if (taken) taken.item = Item(handle_.get(), got.item);
    taken.peer = got.peer;
    taken.why = got.why;
    return taken;
  }

 private:
  friend class Channel;
  explicit Consumer(pergpu_share_consumer* consumer) : handle_(consumer) {}
  detail::Handle<pergpu_share_consumer, pergpu_share_consumer_free> handle_;
};

struct ChannelOptions {
  std::string name = "channel";
  std::uint32_t producers = 1;
  std::uint32_t consumers = 1;
  std::uint32_t slots_per_lane = 4;
  std::uint64_t slot_bytes = 0;
  bool page_aligned = false;
};

class Channel {
 public:
  explicit Channel(const ChannelOptions& options) {
    auto wanted = detail::sized<pergpu_share_channel_options>();
    wanted.name = options.name.c_str();
    wanted.producers = options.producers;
    wanted.consumers = options.consumers;
    wanted.slots_per_lane = options.slots_per_lane;
    wanted.slot_bytes = options.slot_bytes;
    wanted.page_aligned = options.page_aligned ? 1 : 0;
    pergpu_share_channel* channel = nullptr;
    detail::call(pergpu_share_channel_create, &wanted, &channel);
    handle_.reset(channel);
  }
  /// One that another process made.  `fd` is its own to close, unless this throws.
  static Channel adopt(int fd) {
    pergpu_share_channel* channel = nullptr;
    detail::call(pergpu_share_channel_adopt, fd, &channel);
    return Channel(channel);
  }

  pergpu_share_channel_info describe() const {
    auto info = detail::sized<pergpu_share_channel_info>();
    detail::call(pergpu_share_channel_describe, handle_.get(), &info);
    return info;
  }
  pergpu_share_place_info place(Side side, std::uint32_t index) const {
    auto info = detail::sized<pergpu_share_place_info>();
    detail::call(pergpu_share_channel_place, handle_.get(), static_cast<std::uint32_t>(side), index,
                 &info);
    return info;
  }
  /// The channel's own, for a child or a socket.
  int fd() const { return describe().fd; }

  Producer producer() const {
    pergpu_share_producer* producer = nullptr;
    detail::call(pergpu_share_producer_attach, handle_.get(), &producer);
    return Producer(producer);
  }
  Consumer consumer() const {
    pergpu_share_consumer* consumer = nullptr;
    detail::call(pergpu_share_consumer_attach, handle_.get(), &consumer);
    return Consumer(consumer);
  }
  /// No producer will come any more.
  void complete() const { detail::call(pergpu_share_channel_complete, handle_.get()); }

 private:
  explicit Channel(pergpu_share_channel* channel) : handle_(channel) {}
  detail::Handle<pergpu_share_channel, pergpu_share_channel_free> handle_;
};

using LoaderInfo = pergpu_share_loader_info;

/// Released at the end of its life.  Its loader lives longer.
class Batch {
 public:
  Batch() = default;
  Batch(Batch&& other) noexcept
      : loader_(std::exchange(other.loader_, nullptr)), batch_(other.batch_) {}
  Batch& operator=(Batch&& other) noexcept {
    std::swap(loader_, other.loader_);
    std::swap(batch_, other.batch_);
    return *this;
  }
  ~Batch() {
    if (loader_ != nullptr) pergpu_share_loader_release(loader_, batch_.slot, nullptr);
  }

  Outcome outcome() const noexcept { return static_cast<Outcome>(batch_.outcome); }
  explicit operator bool() const noexcept { return outcome() == Outcome::Ready; }
  std::uint32_t rows() const noexcept { return batch_.rows; }
  std::uint64_t epoch() const noexcept { return batch_.epoch; }
  std::uint64_t number() const noexcept { return batch_.number; }
  /// The rows of one of the arrays, one after the other.
  std::span<std::byte> field(std::uint32_t field) const {
    void* data = nullptr;
    std::uint64_t row_bytes = 0;
    detail::call(pergpu_share_loader_data, loader_, batch_.slot, field, &data, &row_bytes);
    return {static_cast<std::byte*>(data), static_cast<std::size_t>(row_bytes * batch_.rows)};
  }

 private:
  friend class Loader;
  pergpu_share_loader* loader_ = nullptr;
  pergpu_share_batch batch_ = detail::sized<pergpu_share_batch>();
};

class Loader {
 public:
  /// struct_size, fields and field_count of `options` are set here; the arrays outlive the loader.
  Loader(pergpu_share_loader_options options, std::span<const pergpu_share_field> fields) {
    options.struct_size = sizeof(options);
    options.fields = fields.data();
    options.field_count = static_cast<std::uint32_t>(fields.size());
    pergpu_share_loader* loader = nullptr;
    detail::call(pergpu_share_loader_open, &options, &loader);
    handle_.reset(loader);
  }

  LoaderInfo describe() const {
    auto info = detail::sized<LoaderInfo>();
    detail::call(pergpu_share_loader_describe, handle_.get(), &info);
    return info;
  }
  Batch next(Timeout timeout = kForever) {
    Batch batch;
    detail::call(pergpu_share_loader_next, handle_.get(), detail::deadline(timeout), &batch.batch_);
    if (batch) batch.loader_ = handle_.get();
    return batch;
  }

 private:
  detail::Handle<pergpu_share_loader, pergpu_share_loader_free> handle_;
};

}  // namespace pergpu_share
