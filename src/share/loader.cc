// A thread takes a slot and the next batch that no thread works on, fills it by itself, and marks
// it, as long as fewer than `ahead` are prepared, however many are held.  So batches are begun in
// order, and the one that is waited for is always among those that have a slot: no wait lasts
// forever.  Where there is no memory for another slot, the threads wait until one is given back or
// asked for again.
//
// A seek begins another turn: what was filled in an earlier one is of no use any more.
//
// Rows of a shuffled batch lie anywhere, and a copy waits for the memory: the lines of the rows to
// come are asked for ahead.
#include "share/loader.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "number.h"
#include "os/process/free_memory.h"
#include "share/permutation.h"
#include "share/pinning.h"
#include "share/segment.h"

namespace pergpu::share {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kAhead = 16;       // rows
constexpr std::size_t kMostAhead = 256;  // bytes of a row that are asked for; the rest is a stream
constexpr std::uint64_t kMostArrayBytes = 1ull << 46;
constexpr std::uint64_t kMostBatches = 1ull << 62;  // of all epochs
constexpr std::uint32_t kMostAheadOfOne = 1 << 16;
constexpr std::uint32_t kMostThreads = 1024;

Error wrong(std::string why) { return Error{ErrorKind::Invalid, EINVAL, std::move(why)}; }

std::uint64_t rows_of_shard(const LoaderOptions& options) {
  return options.rows > options.shard ? (options.rows - options.shard - 1) / options.shards + 1 : 0;
}

std::uint64_t batches_of(const LoaderOptions& options) {
  std::uint64_t rows = rows_of_shard(options);
  return options.drop_last ? rows / options.batch : (rows + options.batch - 1) / options.batch;
}

Result<void> check_place(const LoaderOptions& o, std::uint64_t epoch, std::uint64_t number) {
  std::uint64_t batches = batches_of(o);
  if (number > batches) {
    return wrong("an epoch has " + std::to_string(batches) + " batches, so there is no batch " +
                 std::to_string(number));
  }
  if (epoch > kMostBatches / batches) return wrong("invalid epoch " + std::to_string(epoch));
  return {};
}

Result<void> check(const LoaderOptions& o) {
  if (o.fields.empty()) return wrong("a loader needs at least one array");
  if (o.batch == 0) return wrong("a batch needs at least one row");
  if (o.ahead == 0 || o.ahead > kMostAheadOfOne) {
    return wrong("a loader can prepare 1 to " + std::to_string(kMostAheadOfOne) +
                 " batches ahead, not " + std::to_string(o.ahead));
  }
  if (o.threads == 0 || o.threads > kMostThreads) {
    return wrong("a loader can have 1 to " + std::to_string(kMostThreads) + " threads, not " +
                 std::to_string(o.threads));
  }
  if (o.shards == 0 || o.shard >= o.shards) {
    return wrong("shard " + std::to_string(o.shard) + " isn't less than the number of shards, " +
                 std::to_string(o.shards));
  }
  if (o.rows > kMostArrayBytes) return wrong("no array has " + std::to_string(o.rows) + " rows");
  std::uint64_t bytes = 0;
  for (const LoaderField& field : o.fields) {
    if (field.kernel && field.kernel->transform().in_bytes() != field.row_bytes) {
      return wrong("an image has " + std::to_string(field.kernel->transform().in_bytes()) +
                   " bytes, but a row of its array has " + std::to_string(field.row_bytes));
    }
    if (field.row_bytes > kMostArrayBytes || field.out_bytes() > kMostArrayBytes) {
      return wrong("a row of " + std::to_string(field.row_bytes) + " bytes is too long");
    }
    if (field.out_bytes() != 0 && o.batch > kMostArrayBytes / field.out_bytes()) {
      return wrong("a batch of " + std::to_string(o.batch) + " rows of " +
                   std::to_string(field.out_bytes()) + " bytes is too large");
    }
    bytes += field.out_bytes() * o.batch + kPage;
    if (bytes > kMostArrayBytes) return wrong("the arrays of a batch are too large in total");
  }
  std::uint64_t batches = batches_of(o);
  if (batches == 0) {
    return wrong("an epoch of " + std::to_string(rows_of_shard(o)) +
                 " rows is smaller than a batch of " + std::to_string(o.batch));
  }
  return check_place(o, o.epoch, o.number);
}

}  // namespace

struct Loader::Impl {
  enum class State { Gone, Making, Free, Filling, Ready, Held };
  struct Slot {
    State state = State::Gone;
    std::uint32_t rows = 0;
    std::uint64_t sequence = 0;
    Mapping memory = {};
    Pinned pinned = {};  // ends before the memory
  };

  explicit Impl(LoaderOptions o)
      : options(std::move(o)),
        batches(batches_of(options)),
        to_begin(options.epoch * batches + options.number),
        to_deliver(to_begin) {
    for (const LoaderField& field : options.fields) {
      offsets.push_back(slot_bytes);
      slot_bytes = round_up(slot_bytes + field.out_bytes() * options.batch, kAlignment);
    }
    slot_bytes = std::max(round_up(slot_bytes, kPage), kPage);
  }

  const LoaderOptions options;
  const std::uint64_t batches;
  const pid_t pid = ::getpid();
  std::vector<std::size_t> offsets = {};
  std::size_t slot_bytes = 0;

  std::mutex mutex = {};
  std::condition_variable wanted = {};  // there is something to do for a thread
  std::condition_variable filled = {};
  bool leaving = false;
  std::uint64_t turn = 0;
  std::vector<Slot> slots = {};
  std::vector<std::uint32_t> gone = {};  // slots of each state, where threads look for them
  std::vector<std::uint32_t> free = {};
  std::vector<std::uint32_t> ready = {};
  std::uint32_t working = 0;  // slots that are made or filled, in this turn
  std::uint32_t making = 0;
  std::optional<Error> stuck = std::nullopt;  // why there is no other slot
  std::uint64_t to_begin;                     // batches are counted over all epochs
  std::uint64_t to_deliver;
  std::vector<std::thread> threads = {};

  std::uint64_t prepared() const { return ready.size() + working; }

  // REQUIRES of what follows: the mutex is held; where a lock is handed over it may be left for a
  // while.

  std::uint32_t vacant() {
    if (gone.empty()) {
      gone.push_back(static_cast<std::uint32_t>(slots.size()));
      slots.emplace_back();
    }
    std::uint32_t slot = gone.back();
    gone.pop_back();
    return slot;
  }

  /// Its memory is given back, without the lock.
  void retire(std::uint32_t slot, std::unique_lock<std::mutex>& lock) {
    Slot old = std::exchange(slots[slot], Slot());
    gone.push_back(slot);
    lock.unlock();
    { Slot end = std::move(old); }
    lock.lock();
  }

  void put_back(std::uint32_t slot, std::unique_lock<std::mutex>& lock) {
    // One is held most of the time, and comes back.
    if (leaving || free.size() + prepared() > options.ahead) return retire(slot, lock);
    slots[slot].state = State::Free;
    free.push_back(slot);
  }

  /// Memory for a slot that is vacant.  false: there is none.
  bool make(std::uint32_t slot, std::unique_lock<std::mutex>& lock) {
    slots[slot].state = State::Making;
    lock.unlock();
    Result<Mapping> memory = Mapping::own(slot_bytes);
    Result<Pinned> pinned = Pinned();
    if (memory && options.pinned) pinned = Pinned::pin(memory->data(), slot_bytes);
    lock.lock();
    if (memory && pinned) {
      slots[slot].memory = std::move(*memory);
      slots[slot].pinned = std::move(*pinned);
      return true;
    }
    stuck = memory ? std::move(pinned).error() : std::move(memory).error();
    slots[slot].state = State::Gone;
    gone.push_back(slot);
    return false;
  }

  /// A slot that is free, made where there is none.
  bool take_slot(std::uint32_t& slot, std::unique_lock<std::mutex>& lock) {
    if (!free.empty()) {
      slot = free.back();
      free.pop_back();
      return true;
    }
    slot = vacant();
    ++working;
    ++making;
    bool made = make(slot, lock);
    --working;
    --making;
    return made;
  }

  /// `rows` has room for those of a batch.
  void work(std::vector<std::uint64_t>& rows) {
    std::unique_lock lock(mutex);
    while (!leaving) {
      if (stuck || prepared() >= options.ahead) {
        wanted.wait(lock);
        continue;
      }
      std::uint32_t slot = 0;
      if (!take_slot(slot, lock)) {
        filled.notify_all();  // waiters get the reason
        continue;
      }
      slots[slot].state = State::Filling;
      slots[slot].sequence = to_begin++;
      ++working;
      const std::uint64_t sequence = slots[slot].sequence;
      const std::uint64_t begun_in = turn;
      std::byte* into = slots[slot].memory.data();
      lock.unlock();
      fill(into, sequence, rows);
      lock.lock();
      slots[slot].rows = static_cast<std::uint32_t>(rows.size());
      if (turn != begun_in) {
        put_back(slot, lock);
        continue;
      }
      --working;
      slots[slot].state = State::Ready;
      ready.push_back(slot);
      filled.notify_all();
    }
  }

  /// Some are enough.
  Result<void> start() {
    // Signals are for the threads that know what to do with them.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    try {
      while (threads.size() < options.threads) {
        std::vector<std::uint64_t> rows;
        rows.reserve(std::min<std::uint64_t>(options.batch, rows_of_shard(options)));
        threads.emplace_back([this, rows = std::move(rows)]() mutable { work(rows); });
        ::pthread_setname_np(threads.back().native_handle(), "pergpu-loader");
      }
    } catch (const std::system_error& error) {
      failure = error.code().value();
    } catch (const std::bad_alloc&) {
      failure = ENOMEM;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!threads.empty()) return {};
    return Error{failure == ENOMEM ? ErrorKind::Full : ErrorKind::Unavailable, failure,
                 std::string("start a thread of a loader: ") + std::strerror(failure)};
  }

  std::vector<std::uint32_t>::iterator next_ready() {
    return std::find_if(ready.begin(), ready.end(),
                        [this](std::uint32_t slot) { return slots[slot].sequence == to_deliver; });
  }

  /// Whether there is something to say: the next batch, or that none can come.
  bool is_there() { return leaving || is_stuck() || next_ready() != ready.end(); }
  bool is_stuck() const { return stuck && making == 0 && to_begin == to_deliver; }

  void fill(std::byte* into, std::uint64_t sequence, std::vector<std::uint64_t>& rows) const {
    std::uint64_t epoch = sequence / batches;
    std::uint64_t first = sequence % batches * options.batch;
    std::uint64_t end = std::min(first + options.batch, rows_of_shard(options));
    Permutation order(options.rows, options.seed, epoch);
    rows.clear();
    for (std::uint64_t i = first; i < end; ++i) {
      rows.push_back(i * options.shards + options.shard);
    }
    if (options.shuffle) order.all(rows);
    for (std::size_t f = 0; f < options.fields.size(); ++f) {
      gather(options.fields[f], rows, into + offsets[f], mixed(options.seed ^ mixed(epoch)));
    }
  }

  static void gather(const LoaderField& field, const std::vector<std::uint64_t>& rows,
                     std::byte* into, std::uint64_t chance) {
    const std::size_t ahead = std::min(field.row_bytes, kMostAhead);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i + kAhead < rows.size()) {
        const std::byte* later = field.data + rows[i + kAhead] * field.row_bytes;
        for (std::size_t byte = 0; byte < ahead; byte += kAlignment)
          __builtin_prefetch(later + byte);
      }
      const std::byte* from = field.data + rows[i] * field.row_bytes;
      if (field.kernel) {
        field.kernel->apply(from, into, mixed(chance ^ rows[i]));
      } else {
        std::memcpy(into, from, field.row_bytes);
      }
      into += field.out_bytes();
    }
  }
};

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Loader::~Loader() {
  if (impl_->pid == ::getpid()) {
    stop();
  } else {
    (void)impl_.release();  // a thread that is not here may hold its lock
  }
}

Result<std::unique_ptr<Loader>> Loader::open(LoaderOptions options) {
  if (Result<void> good = check(options); !good) return std::move(good).error();
  std::unique_ptr<Loader> loader(new Loader(std::make_unique<Impl>(std::move(options))));
  Impl& impl = *loader->impl_;
  const std::uint64_t wanted = impl.slot_bytes * (std::uint64_t{impl.options.ahead} + 1);
  if (std::uint64_t free = os::free_memory(); wanted > free) {
    return Error{ErrorKind::Full, ENOMEM,
                 std::to_string(impl.options.ahead + 1) + " batches need " +
                     std::to_string(wanted) + " bytes, but only " + std::to_string(free) +
                     " are free"};
  }
  std::unique_lock lock(impl.mutex);
  for (std::uint32_t i = 0; i <= impl.options.ahead; ++i) {
    std::uint32_t slot = impl.vacant();
    if (!impl.make(slot, lock)) {
      Error error = *std::exchange(impl.stuck, std::nullopt);
      lock.unlock();
      return error;
    }
    impl.slots[slot].state = Impl::State::Free;
    impl.free.push_back(slot);
  }
  lock.unlock();
  return loader;
}

Result<bool> Loader::next(Batch& batch, std::chrono::nanoseconds longest) {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  if (impl.leaving) return wrong("the loader was closed");
  if (impl.threads.empty()) {
    if (Result<void> started = impl.start(); !started) return std::move(started).error();
  }
  if (!impl.filled.wait_for(lock, longest, [&] { return impl.is_there(); })) return false;
  if (impl.leaving) return wrong("the loader was closed");
  auto found = impl.next_ready();
  if (found == impl.ready.end()) {
    Error error = *std::exchange(impl.stuck, std::nullopt);
    impl.wanted.notify_one();
    return error;
  }
  std::uint32_t slot = *found;
  impl.ready.erase(found);
  impl.slots[slot].state = Impl::State::Held;
  batch.slot = slot;
  batch.epoch = impl.to_deliver / impl.batches;
  batch.number = impl.to_deliver % impl.batches;
  batch.rows = impl.slots[slot].rows;
  batch.data = impl.slots[slot].memory.data();
  ++impl.to_deliver;
  impl.wanted.notify_one();
  return true;
}

bool Loader::wait(std::chrono::nanoseconds longest) {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->leaving && impl_->threads.empty() && !impl_->start()) return true;  // next() says it
  return impl_->filled.wait_for(lock, longest, [&] { return impl_->is_there(); });
}

void Loader::release(std::uint32_t slot) {
  std::unique_lock lock(impl_->mutex);
  if (slot >= impl_->slots.size() || impl_->slots[slot].state != Impl::State::Held) return;
  impl_->put_back(slot, lock);
  if (std::exchange(impl_->stuck, std::nullopt)) impl_->wanted.notify_all();
}

Result<void> Loader::seek(std::uint64_t epoch, std::uint64_t number) {
  if (Result<void> good = check_place(impl_->options, epoch, number); !good) return good;
  std::unique_lock lock(impl_->mutex);
  ++impl_->turn;
  impl_->to_begin = impl_->to_deliver = epoch * impl_->batches + number;
  impl_->working = impl_->making;
  std::vector<std::uint32_t> useless = std::exchange(impl_->ready, {});
  for (std::uint32_t slot : useless) impl_->put_back(slot, lock);
  impl_->wanted.notify_all();
  return {};
}

void Loader::stop() {
  std::unique_lock lock(impl_->mutex);
  impl_->leaving = true;
  std::vector<std::thread> threads = std::exchange(impl_->threads, {});
  impl_->wanted.notify_all();
  impl_->filled.notify_all();
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  lock.lock();
  for (std::vector<std::uint32_t>* useless : {&impl_->ready, &impl_->free}) {
    for (std::uint32_t slot : std::exchange(*useless, {})) impl_->retire(slot, lock);
  }
}

std::uint64_t Loader::batches() const { return impl_->batches; }
const LoaderOptions& Loader::options() const { return impl_->options; }
std::size_t Loader::slot_bytes() const { return impl_->slot_bytes; }
std::size_t Loader::offset_of(std::size_t field) const { return impl_->offsets[field]; }

}  // namespace pergpu::share
