// A thread takes the next batch that nobody works on and a free slot, fills it by itself, and marks
// it.  So batches are begun in order, and the one that is waited for is always among those that
// have a slot: whoever waits while all slots are held is told so instead of waiting for ever.
//
// Rows of a shuffled batch lie anywhere, and a copy waits for the memory: the lines of the rows to
// come are asked for ahead.
#include "share/loader.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "share/permutation.h"

namespace pergpu::share {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kAhead = 4;         // rows
constexpr std::size_t kMostAhead = 1024;  // bytes of a row that are asked for
constexpr std::uint64_t kMostBytes = 1ull << 46;

Error wrong(std::string why) { return Error{ErrorKind::Invalid, EINVAL, std::move(why)}; }

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

std::uint64_t rows_of_shard(const LoaderOptions& options) {
  return options.rows > options.shard ? (options.rows - options.shard - 1) / options.shards + 1 : 0;
}

std::uint64_t batches_of(const LoaderOptions& options) {
  std::uint64_t rows = rows_of_shard(options);
  return options.drop_last ? rows / options.batch : (rows + options.batch - 1) / options.batch;
}

Result<void> check(const LoaderOptions& o) {
  if (o.fields.empty()) return wrong("a loader needs an array");
  if (o.batch == 0 || o.slots == 0 || o.threads == 0 || o.threads > 1024) {
    return wrong(
        "a loader has at least one row a batch, one slot and one thread, at most 1024 of these");
  }
  if (o.shards == 0 || o.shard >= o.shards) {
    return wrong("shard " + std::to_string(o.shard) + " is none of " + std::to_string(o.shards));
  }
  if (o.rows > kMostBytes) return wrong("no array has " + std::to_string(o.rows) + " rows");
  std::uint64_t bytes = 0;
  for (const LoaderField& field : o.fields) {
    if (field.kernel && field.kernel->transform().in_bytes() != field.row_bytes) {
      return wrong("an image has " + std::to_string(field.kernel->transform().in_bytes()) +
                   " bytes, a row of its array " + std::to_string(field.row_bytes));
    }
    if (field.row_bytes > kMostBytes || field.out_bytes() > kMostBytes) {
      return wrong("a row of " + std::to_string(field.row_bytes) + " bytes is too long");
    }
    if (field.out_bytes() != 0 && o.batch > kMostBytes / field.out_bytes()) {
      return wrong("a batch of " + std::to_string(o.batch) + " rows of " +
                   std::to_string(field.out_bytes()) + " bytes is too large");
    }
    bytes += field.out_bytes() * o.batch + kPage;
    if (bytes > kMostBytes / o.slots) return wrong("the slots are too large together");
  }
  std::uint64_t batches = batches_of(o);
  if (batches == 0) {
    return wrong("an epoch of " + std::to_string(rows_of_shard(o)) + " rows has no batch of " +
                 std::to_string(o.batch));
  }
  if (o.number > batches) {
    return wrong("an epoch has " + std::to_string(batches) + " batches, there is no number " +
                 std::to_string(o.number));
  }
  return {};
}

}  // namespace

struct Loader::Impl {
  enum class State { Free, Filling, Ready, Held };
  struct Slot {
    State state = State::Free;
    std::uint64_t sequence = 0;
    std::uint32_t rows = 0;
  };

  explicit Impl(LoaderOptions o, Segment segment, Mapping view)
      : options(std::move(o)),
        batches(batches_of(options)),
        memory(std::move(segment)),
        mapping(std::move(view)),
        slots(options.slots),
        to_begin(options.epoch * batches + options.number),
        to_deliver(to_begin) {}

  LoaderOptions options;
  std::uint64_t batches;
  std::vector<std::size_t> offsets = {};
  std::size_t slot_bytes = 0;
  Segment memory;
  Mapping mapping;

  std::mutex mutex = {};
  std::condition_variable freed = {};
  std::condition_variable filled = {};
  bool leaving = false;
  std::vector<Slot> slots;
  std::uint64_t to_begin;  // batches are counted over all epochs
  std::uint64_t to_deliver;
  std::vector<std::thread> threads = {};

  std::byte* at(std::uint32_t slot, std::size_t field) const {
    return mapping.data() + slot * slot_bytes + offsets[field];
  }

  void work() {
    std::vector<std::uint64_t> rows;
    std::unique_lock lock(mutex);
    while (true) {
      auto free = std::find_if(slots.begin(), slots.end(),
                               [](const Slot& slot) { return slot.state == State::Free; });
      if (leaving) return;
      if (free == slots.end()) {
        freed.wait(lock);
        continue;
      }
      free->state = State::Filling;
      free->sequence = to_begin++;
      auto slot = static_cast<std::uint32_t>(free - slots.begin());
      std::uint64_t sequence = free->sequence;
      lock.unlock();
      fill(slot, sequence, rows);
      lock.lock();
      slots[slot].rows = static_cast<std::uint32_t>(rows.size());
      slots[slot].state = State::Ready;
      filled.notify_all();
    }
  }

  void fill(std::uint32_t slot, std::uint64_t sequence, std::vector<std::uint64_t>& rows) const {
    std::uint64_t epoch = sequence / batches;
    std::uint64_t first = sequence % batches * options.batch;
    std::uint64_t end = std::min(first + options.batch, rows_of_shard(options));
    Permutation order(options.rows, options.seed, epoch);
    rows.clear();
    for (std::uint64_t i = first; i < end; ++i) {
      std::uint64_t place = i * options.shards + options.shard;
      rows.push_back(options.shuffle ? order(place) : place);
    }
    for (std::size_t f = 0; f < options.fields.size(); ++f) {
      gather(options.fields[f], rows, at(slot, f), mixed(options.seed ^ mixed(epoch)));
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
  {
    std::lock_guard lock(impl_->mutex);
    impl_->leaving = true;
  }
  impl_->freed.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

Result<std::unique_ptr<Loader>> Loader::open(LoaderOptions options) {
  if (Result<void> good = check(options); !good) return std::move(good).error();
  std::vector<std::size_t> offsets;
  std::size_t size = 0;
  for (const LoaderField& field : options.fields) {
    offsets.push_back(size);
    size = round_up(size + field.out_bytes() * options.batch, kAlignment);
  }
  size = std::max(round_up(size, kPage), kPage);
  Result<Segment> memory = Segment::create("loader", std::uint64_t{size} * options.slots);
  if (!memory) return std::move(memory).error();
  Result<Mapping> mapping = memory->map(View::Shared);
  if (!mapping) return std::move(mapping).error();
  auto impl = std::make_unique<Impl>(std::move(options), std::move(*memory), std::move(*mapping));
  impl->offsets = std::move(offsets);
  impl->slot_bytes = size;
  std::unique_ptr<Loader> loader(new Loader(std::move(impl)));
  // Signals are for the threads that know what to do with them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (std::uint32_t i = 0; i < loader->impl_->options.threads; ++i) {
    loader->impl_->threads.emplace_back([raw = loader->impl_.get()] { raw->work(); });
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return loader;
}

Loader::Wait Loader::next(Batch& batch, std::chrono::nanoseconds longest) {
  std::unique_lock lock(impl_->mutex);
  auto found = impl_->slots.end();
  auto is_there = [&] {
    found = std::find_if(impl_->slots.begin(), impl_->slots.end(), [&](const Impl::Slot& slot) {
      return slot.state == Impl::State::Ready && slot.sequence == impl_->to_deliver;
    });
    return found != impl_->slots.end();
  };
  if (std::all_of(impl_->slots.begin(), impl_->slots.end(),
                  [](const Impl::Slot& slot) { return slot.state == Impl::State::Held; })) {
    return Wait::NoSlot;
  }
  if (!impl_->filled.wait_for(lock, longest, is_there)) return Wait::TimedOut;
  found->state = Impl::State::Held;
  batch.slot = static_cast<std::uint32_t>(found - impl_->slots.begin());
  batch.epoch = impl_->to_deliver / impl_->batches;
  batch.number = impl_->to_deliver % impl_->batches;
  batch.rows = found->rows;
  ++impl_->to_deliver;
  return Wait::Ready;
}

void Loader::release(std::uint32_t slot) {
  std::lock_guard lock(impl_->mutex);
  if (slot >= impl_->slots.size() || impl_->slots[slot].state != Impl::State::Held) return;
  impl_->slots[slot].state = Impl::State::Free;
  impl_->freed.notify_one();
}

std::uint64_t Loader::batches() const { return impl_->batches; }
const LoaderOptions& Loader::options() const { return impl_->options; }
const Segment& Loader::memory() const { return impl_->memory; }
std::size_t Loader::slot_bytes() const { return impl_->slot_bytes; }
std::size_t Loader::offset_of(std::size_t field) const { return impl_->offsets[field]; }
const std::byte* Loader::at(std::uint32_t slot, std::size_t field) const {
  return impl_->at(slot, field);
}

}  // namespace pergpu::share
