// The header is written by the maker of the memory, its magic last: a process that finds the magic
// finds all of it.  Counters get their names one at a time, under a word with the owner in it; who
// dies there is found dead by the next one, and the place that it was about to name has no name
// still.
#include "share/parameters.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "os/clock.h"
#include "share/liveness.h"

namespace pergpu::share {

struct alignas(64) CounterPlace {
  std::atomic<std::int64_t> value;
  Word named;  // the length of the name, which does not change any more; 0: none yet
  std::array<char, Parameters::kLongestName + 1> name;
};
static_assert(sizeof(CounterPlace) == 64);

struct ParametersHeader {
  std::atomic<std::uint64_t> magic;
  std::uint64_t version;
  std::uint64_t head_bytes;  // behind this
  std::uint64_t data_offset;
  std::uint64_t data_bytes;
  std::atomic<std::uint64_t> naming;  // the Owner that names a counter; 0: none
  GateWords gate;
  std::array<CounterPlace, Parameters::kMostCounters> counters;
  std::array<UpdatePlace, Parameters::kMostProcesses> places;
};

namespace {

constexpr std::uint64_t kMagic = 0x314D415241504750;  // "PGPARAM1"
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kDataAlignment = 4096;
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;  // between two beats of a copy
constexpr std::int64_t kParametersPatienceNs = 2'000'000'000;
constexpr std::int64_t kParametersPauseNs = 1'000'000;

Error invalid_parameters(const std::string& why) {
  return Error{ErrorKind::Invalid, EINVAL, "parameters: " + why};
}

std::uint64_t data_offset_for(std::uint64_t head_bytes) {
  return (sizeof(ParametersHeader) + head_bytes + kDataAlignment - 1) / kDataAlignment *
         kDataAlignment;
}

bool is_aligned(std::span<std::byte> memory) {
  return reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(ParametersHeader) == 0;
}

/// Others may be writing: words are read whole.  `bytes` is a multiple of 8.
void copy_words(std::byte* into, std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    auto* word = reinterpret_cast<std::uint64_t*>(from + at);
    std::uint64_t value = std::atomic_ref(*word).load(std::memory_order_relaxed);
    std::memcpy(into + at, &value, 8);
  }
}

/// So that the kernel finds no page while updates wait.
void touch(std::span<std::byte> memory) {
  for (std::size_t at = 0; at < memory.size(); at += 4096) {
    *const_cast<volatile std::byte*>(memory.data() + at) = std::byte{0};
  }
}

}  // namespace

// ---- the memory ----

std::uint64_t Parameters::size_for(std::uint64_t head_bytes, std::uint64_t data_bytes) {
  return data_offset_for(head_bytes) + data_bytes;
}

Parameters::Parameters(ParametersHeader* header, std::span<std::byte> memory,
                       std::span<std::byte> data)
    : header_(header), memory_(memory), data_(data), gate_(&header->gate, header->places) {}

Result<std::unique_ptr<Parameters>> Parameters::lay_out(std::span<std::byte> memory,
                                                        std::string_view head,
                                                        std::uint64_t data_bytes) {
  if (!is_aligned(memory)) return invalid_parameters("the memory isn't aligned to 64 bytes");
  if (data_bytes % 8 != 0) return invalid_parameters("the data's size isn't a multiple of 8");
  std::uint64_t offset = data_offset_for(head.size());
  if (offset > memory.size() || data_bytes > memory.size() - offset) {
    return invalid_parameters(std::to_string(memory.size()) + " bytes are too few for " +
                              std::to_string(data_bytes) + " of data from " +
                              std::to_string(offset) + " on");
  }
  // Zeroes are what each of its parts begins with.
  auto* header = reinterpret_cast<ParametersHeader*>(memory.data());
  header->version = kVersion;
  header->head_bytes = head.size();
  header->data_offset = offset;
  header->data_bytes = data_bytes;
  std::memcpy(memory.data() + sizeof(ParametersHeader), head.data(), head.size());
  return std::unique_ptr<Parameters>(
      new Parameters(header, memory, memory.subspan(offset, data_bytes)));
}

void Parameters::complete() { header_->magic.store(kMagic, std::memory_order_release); }

Result<std::unique_ptr<Parameters>> Parameters::open(std::span<std::byte> memory) {
  auto* header = reinterpret_cast<ParametersHeader*>(memory.data());
  if (!is_aligned(memory) || memory.size() < sizeof(ParametersHeader) ||
      header->magic.load(std::memory_order_acquire) != kMagic) {
    return invalid_parameters("wrong magic number");
  }
  if (header->version != kVersion) {
    return invalid_parameters("version " + std::to_string(header->version) +
                              " was created by another pergpu; expected " +
                              std::to_string(kVersion));
  }
  // Read once: every process with the memory can change them after they were checked.
  std::uint64_t head_bytes = std::atomic_ref(header->head_bytes).load(std::memory_order_relaxed);
  std::uint64_t offset = std::atomic_ref(header->data_offset).load(std::memory_order_relaxed);
  std::uint64_t data_bytes = std::atomic_ref(header->data_bytes).load(std::memory_order_relaxed);
  bool fits = head_bytes <= memory.size() && offset <= memory.size() &&
              offset == data_offset_for(head_bytes) && data_bytes <= memory.size() - offset &&
              data_bytes % 8 == 0;
  if (!fits) return invalid_parameters("the header is damaged");
  return std::unique_ptr<Parameters>(
      new Parameters(header, memory, memory.subspan(offset, data_bytes)));
}

std::string_view Parameters::head() const {
  std::size_t size = static_cast<std::size_t>(data_offset()) - sizeof(ParametersHeader);
  return {reinterpret_cast<const char*>(memory_.data()) + sizeof(ParametersHeader),
          std::min(size, static_cast<std::size_t>(header_->head_bytes))};
}

std::uint64_t Parameters::data_offset() const {
  return static_cast<std::uint64_t>(data_.data() - memory_.data());
}

// ---- counters ----

namespace {

Error no_descriptor() {
  return Error{ErrorKind::Unavailable, EMFILE,
               "parameters: no free descriptor to identify this process"};
}

/// One at a time names counters.
class Naming {
 public:
  static Result<Naming> begin(std::atomic<std::uint64_t>* word) {
    Owner me = this_process();
    if (me.start == 0) return no_descriptor();
    me.epoch = entries_.fetch_add(1);  // distinguishes threads
    std::int64_t patience = os::awake_now_ns() + kParametersPatienceNs;
    while (true) {
      std::uint64_t found = word->load(), mine = me.pack();
      if ((found == 0 || has_ended(Owner::unpack(found))) &&
          word->compare_exchange_strong(found, mine)) {
        return Naming(word, mine);
      }
      std::int64_t now = os::awake_now_ns();
      if (now >= patience) {
        return Error{ErrorKind::Busy, EBUSY,
                     "parameters: process " + std::to_string(Owner::unpack(found).pid) +
                         " has been creating a counter for 2 s; check whether it is stopped"};
      }
      sleep_until(now + kParametersPauseNs);
    }
  }
  Naming(Naming&& other) noexcept
      : word_(std::exchange(other.word_, nullptr)), mine_(other.mine_) {}
  Naming& operator=(Naming&&) = delete;
  ~Naming() {
    if (word_ != nullptr) word_->compare_exchange_strong(mine_, 0);
  }

 private:
  Naming(std::atomic<std::uint64_t>* word, std::uint64_t mine) : word_(word), mine_(mine) {}

  static inline std::atomic<std::uint32_t> entries_{0};
  std::atomic<std::uint64_t>* word_;
  std::uint64_t mine_;
};

/// "": it has none yet.
std::string_view name_of(const CounterPlace& counter) {
  std::size_t size = counter.named.load(std::memory_order_acquire);
  return {counter.name.data(), std::min(size, Parameters::kLongestName)};
}

}  // namespace

Result<std::size_t> Parameters::counter(std::string_view name) {
  auto known = [&] {
    std::size_t i = 0;
    while (i < kMostCounters && !name_of(header_->counters[i]).empty() &&
           name_of(header_->counters[i]) != name) {
      ++i;
    }
    return i;
  };
  if (name.empty() || name.size() > kLongestName) {
    return invalid_parameters("a counter's name must have 1 to " + std::to_string(kLongestName) +
                              " bytes, not " + std::to_string(name.size()));
  }
  std::size_t at = known();
  if (at < kMostCounters && !name_of(header_->counters[at]).empty()) return at;
  Result<Naming> naming = Naming::begin(&header_->naming);
  if (!naming) return std::move(naming).error();
  at = known();  // another process's, meanwhile
  if (at == kMostCounters) {
    return Error{
        ErrorKind::Full, ENOSPC,
        "parameters: there are " + std::to_string(kMostCounters) + " counters, the maximum"};
  }
  CounterPlace& place = header_->counters[at];
  if (name_of(place).empty()) {
    std::memcpy(place.name.data(), name.data(), name.size());
    place.named.store(static_cast<std::uint32_t>(name.size()), std::memory_order_release);
  }
  return at;
}

std::int64_t Parameters::count(std::size_t counter, std::int64_t by) {
  auto added = static_cast<std::uint64_t>(by);
  auto before = static_cast<std::uint64_t>(header_->counters.at(counter).value.fetch_add(by));
  return static_cast<std::int64_t>(before + added);
}

std::vector<Parameters::Counter> Parameters::counters() const {
  std::vector<Counter> all;
  for (const CounterPlace& counter : header_->counters) {
    if (name_of(counter).empty()) break;
    all.push_back({.name = std::string(name_of(counter)), .value = counter.value.load()});
  }
  return all;
}

// ---- snapshots ----

void Parameters::copy(std::span<std::byte> into) {
  for (std::size_t at = 0; at < into.size(); at += kPieceBytes) {
    std::size_t size = std::min<std::size_t>(into.size() - at, kPieceBytes);
    copy_words(into.data() + at, data_.data() + at, size);
    gate_.beat();
  }
}

Result<Parameters::Snapshot> Parameters::snapshot(std::span<std::byte> into,
                                                  std::int64_t deadline_ns, IfLate if_late) {
  if (into.size() != data_.size()) {
    return invalid_parameters("a snapshot has " + std::to_string(data_.size()) + " bytes, not " +
                              std::to_string(into.size()));
  }
  if (gate_.is_inside()) {
    return invalid_parameters("a snapshot inside an update would deadlock: leave the update first");
  }
  if (taking_.exchange(true)) {
    return Error{ErrorKind::Busy, EBUSY,
                 "parameters: another thread of this process is taking a snapshot"};
  }
  struct Done {
    std::atomic<bool>& taking;
    ~Done() { taking = false; }
  } done{taking_};
  touch(into);
  while (true) {
    Result<UpdateGate::Closing> closing = gate_.close(deadline_ns);
    if (!closing) return std::move(closing).error();
    bool closed = closing->outcome == Outcome::Ready;
    bool torn = closing->outcome == Outcome::TimedOut && if_late == IfLate::Tear;
    if (!closed && !torn) return Snapshot{.outcome = closing->outcome, .pid = closing->pid};
    copy(into);
    Snapshot taken = {.outcome = Outcome::Ready,
                      .torn = torn,
                      .cut_updates = gate_.cut_updates(),
                      .counters = counters()};
    if (torn || gate_.open()) return taken;
    // We were stopped for seconds, and updates went on.
  }
}

}  // namespace pergpu::share
