// The order of stores is the whole protocol (share/metrics_slot.h): undo, odd, words, even.
//
// A slot is taken by changing its owner from one that has ended to ourselves, in one step.  The
// sequence goes on where the one before left it, also where that is odd: who was killed in the
// middle of a report has left the undo by which its words are put back first.
#include "share/metrics_writer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "share/liveness.h"

namespace pergpu::share {
namespace {

void store(SharedWord& word, std::uint64_t value) { word.store(value, std::memory_order_release); }

template <std::size_t N>
void store_text(SharedWord (&into)[N], std::string_view text) {
  for (std::size_t i = 0; i < N; ++i) {
    std::uint64_t word = 0;
    if (8 * i < text.size()) {
      std::memcpy(&word, text.data() + 8 * i, std::min<std::size_t>(8, text.size() - 8 * i));
    }
    store(into[i], word);
  }
}

/// Filled up with NULs.
template <std::size_t N>
std::string load_text(const SharedWord (&from)[N]) {
  char text[8 * N + 1] = {};
  for (std::size_t i = 0; i < N; ++i) {
    std::uint64_t word = load(from[i]);
    std::memcpy(text + 8 * i, &word, 8);
  }
  return text;
}

void remember_head(MetricsSlot& slot) {
  for (std::size_t i = 0; i < kMetricHeadWords; ++i) store(slot.undo_head[i], load(slot.head[i]));
}

/// Puts the words back that a writer which was killed has changed.
void put_back(MetricsSlot& slot) {
  std::uint64_t undone = std::min<std::uint64_t>(load(slot.undone), kMetricNames);
  for (std::uint64_t i = undone; i-- > 0;) {
    std::uint64_t entry = load(slot.undo[i].entry);
    if (entry >= kMetricNames) continue;
    for (std::size_t word = 0; word < kMetricValueWords; ++word) {
      store(slot.entries[entry].values[word], load(slot.undo[i].values[word]));
    }
  }
  for (std::size_t i = 0; i < kMetricHeadWords; ++i) store(slot.head[i], load(slot.undo_head[i]));
}

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
double number(const SharedWord& word) { return std::bit_cast<double>(load(word)); }

void change(MetricEntry& entry, double value, bool is_whole, double step) {
  SharedWord* words = entry.values;
  std::uint64_t kinds = load(words[kKinds]);
  auto set = [&](std::size_t at, std::uint64_t whole) {
    store(words[at], bits(value));
    store(words[at + 1], bits(step));
    kinds = is_whole ? kinds | whole : kinds & ~whole;
  };
  set(kLast, kLastIsWhole);
  kinds |= kHasLast;
  if (!std::isnan(value)) {
    bool first = (kinds & kHasRange) == 0;
    if (first || value < number(words[kLeast])) set(kLeast, kLeastIsWhole);
    if (first || value > number(words[kGreatest])) set(kGreatest, kGreatestIsWhole);
    kinds |= kHasRange;
  }
  store(words[kKinds], kinds);
}

/// A slot that is not free.
struct Used {
  std::uint64_t reported_ns = 0;
  std::uint32_t slot = 0;
  std::uint64_t owner = 0;
};

bool is_of(const MetricsSlot& slot, const MetricsWriter::Identity& identity) {
  return load(slot.head[kJob]) == static_cast<std::uint64_t>(identity.job) &&
         load_text(slot.place) == identity.place;
}

}  // namespace

MetricsWriter::MetricsWriter(MetricsSlot& slot, std::uint64_t owner)
    : slot_(&slot), owner_(owner), forks_(count_forks()), sequence_(load(slot.sequence)) {
  if (sequence_ % 2 != 0) {
    put_back(slot);
    store(slot.sequence, ++sequence_);
  }
}

MetricsWriter::MetricsWriter(MetricsWriter&& other) noexcept
    : slot_(std::exchange(other.slot_, nullptr)),
      owner_(other.owner_),
      forks_(other.forks_),
      sequence_(other.sequence_),
      told_(other.told_),
      reports_(other.reports_),
      names_(std::move(other.names_)) {}

MetricsWriter& MetricsWriter::operator=(MetricsWriter&& other) noexcept {
  std::swap(slot_, other.slot_);
  std::swap(owner_, other.owner_);
  std::swap(forks_, other.forks_);
  std::swap(sequence_, other.sequence_);
  std::swap(told_, other.told_);
  std::swap(reports_, other.reports_);
  std::swap(names_, other.names_);
  return *this;
}

Result<MetricsWriter> MetricsWriter::claim(const MetricsTable& table, const Identity& identity,
                                           std::int64_t now_ns) {
  if (identity.place.size() > kMetricPlaceBytes) {
    return Error{ErrorKind::Invalid, EINVAL,
                 "the place of a job in a metrics table has " +
                     std::to_string(identity.place.size()) + " bytes; expected at most " +
                     std::to_string(kMetricPlaceBytes)};
  }
  Owner self = this_process();
  if (self.start == 0) {
    return Error{ErrorKind::Unavailable, 0, "can't read the start time of this process from /proc"};
  }
  // Twice: what was free may have been taken meanwhile.
  for (int turn = 0; turn < 2; ++turn) {
    Result<MetricsWriter> writer = take(table, identity, self.pack(), now_ns);
    if (writer || writer.error().kind != ErrorKind::Full) return writer;
  }
  return Error{ErrorKind::Full, ENOSPC,
               "all " + std::to_string(table.slots()) +
                   " slots of the metrics table are taken by processes that report"};
}

Result<MetricsWriter> MetricsWriter::take(const MetricsTable& table, const Identity& identity,
                                          std::uint64_t owner, std::int64_t now_ns) {
  const Owner self = Owner::unpack(owner);
  auto seize = [&](MetricsSlot& slot, std::uint64_t from) -> std::uint64_t {
    Owner mine = self;
    mine.epoch = next_epoch(Owner::unpack(from).epoch);
    return slot.owner.compare_exchange_strong(from, mine.pack()) ? mine.pack() : 0;
  };
  for (std::uint32_t i = 0; i < table.slots(); ++i) {
    MetricsSlot& slot = table.slot(i);
    std::uint64_t found = load(slot.owner);
    if (found == 0 || !is_of(slot, identity)) continue;
    Owner before = Owner::unpack(found);
    // Ourselves: what this process has executed before.
    bool is_us = before.pid == self.pid && before.start == self.start;
    if (before.state == PlaceState::Attached && !is_us && !has_ended(before)) continue;
    if (std::uint64_t mine = seize(slot, found)) {
      MetricsWriter writer(slot, mine);
      // What was found may have been half of a record that is put back by now.
      is_of(slot, identity) ? writer.go_on(identity) : writer.begin(identity, now_ns);
      return writer;
    }
  }
  std::vector<Used> used;
  for (std::uint32_t i = 0; i < table.slots(); ++i) {
    MetricsSlot& slot = table.slot(i);
    std::uint64_t found = load(slot.owner);
    if (found != 0) {
      used.push_back({.reported_ns = load(slot.head[kReported]), .slot = i, .owner = found});
    } else if (std::uint64_t mine = seize(slot, 0)) {
      MetricsWriter writer(slot, mine);
      writer.begin(identity, now_ns);
      return writer;
    }
  }
  std::ranges::sort(used, {}, &Used::reported_ns);
  for (const Used& one : used) {
    Owner before = Owner::unpack(one.owner);
    if (before.state == PlaceState::Attached && !has_ended(before)) continue;
    MetricsSlot& slot = table.slot(one.slot);
    if (std::uint64_t mine = seize(slot, one.owner)) {
      MetricsWriter writer(slot, mine);
      writer.begin(identity, now_ns);
      return writer;
    }
  }
  return Error{ErrorKind::Full, ENOSPC, ""};
}

/// Of the same job: all that was reported stays.
void MetricsWriter::go_on(const Identity& identity) {
  std::uint64_t names = std::min<std::uint64_t>(load(slot_->head[kNames]), kMetricNames);
  for (std::uint64_t i = 0; i < names; ++i) names_.push_back(load_text(slot_->entries[i].name));
  told_ = static_cast<std::uint32_t>(names);
  reports_ = load(slot_->head[kReports]);
  remember_head(*slot_);
  store(slot_->undone, 0);
  store(slot_->sequence, ++sequence_);
  store(slot_->head[kWriter], owner_);
  store(slot_->head[kAttempt], static_cast<std::uint64_t>(identity.attempt));
  store(slot_->sequence, ++sequence_);
}

/// Of another job, or vacant.
void MetricsWriter::begin(const Identity& identity, std::int64_t now_ns) {
  // While the place changes there is no record.
  for (SharedWord& word : slot_->undo_head) store(word, 0);
  store(slot_->undone, 0);
  store(slot_->sequence, ++sequence_);
  for (SharedWord& word : slot_->head) store(word, 0);
  store_text(slot_->place, identity.place);
  store(slot_->head[kJob], static_cast<std::uint64_t>(identity.job));
  store(slot_->head[kAttempt], static_cast<std::uint64_t>(identity.attempt));
  store(slot_->head[kBegan], static_cast<std::uint64_t>(now_ns));
  store(slot_->head[kReported], static_cast<std::uint64_t>(now_ns));
  store(slot_->head[kWriter], owner_);
  store(slot_->sequence, ++sequence_);
}

bool MetricsWriter::is_mine() const {
  return slot_ != nullptr && forks_ == forks_so_far.load(std::memory_order_relaxed) &&
         load(slot_->owner) == owner_;
}

std::optional<std::uint32_t> MetricsWriter::name(std::string_view text) {
  auto known = std::ranges::find(names_, text);
  if (known != names_.end()) return static_cast<std::uint32_t>(known - names_.begin());
  if (text.empty() || text.size() > kMetricNameBytes || names_.size() == kMetricNames ||
      text.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  names_.emplace_back(text);
  return static_cast<std::uint32_t>(names_.size() - 1);
}

bool MetricsWriter::report(std::span<const MetricReport> values, double step, std::int64_t now_ns) {
  if (!is_mine()) return false;
  values = values.first(std::min<std::size_t>(values.size(), kMetricNames));
  MetricsSlot& slot = *slot_;
  remember_head(slot);
  std::uint64_t undone = 0;
  for (const MetricReport& one : values) {
    if (one.name >= told_) continue;  // readers do not know it yet
    MetricUndo& undo = slot.undo[undone++];
    store(undo.entry, one.name);
    for (std::size_t i = 0; i < kMetricValueWords; ++i) {
      store(undo.values[i], load(slot.entries[one.name].values[i]));
    }
  }
  store(slot.undone, undone);
  store(slot.sequence, ++sequence_);
  for (; told_ < names_.size(); ++told_) {
    MetricEntry& entry = slot.entries[told_];
    store_text(entry.name, names_[told_]);
    for (SharedWord& word : entry.values) store(word, 0);
  }
  store(slot.head[kNames], told_);
  for (const MetricReport& one : values) {
    if (one.name < told_) change(slot.entries[one.name], one.value, one.is_whole, step);
  }
  store(slot.head[kReported], static_cast<std::uint64_t>(now_ns));
  store(slot.head[kReports], ++reports_);
  store(slot.sequence, ++sequence_);
  return true;
}

void MetricsWriter::release() {
  if (is_mine()) {
    std::uint64_t left = Owner::unpack(owner_).with(PlaceState::Left).pack();
    slot_->owner.compare_exchange_strong(owner_, left);
  }
  slot_ = nullptr;
}

}  // namespace pergpu::share
