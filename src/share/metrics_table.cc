// A record is copied before anything of it is believed, and what is found is cut to what there can
// be.
#include "share/metrics_table.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "share/liveness.h"

namespace pergpu::share {
namespace {

constexpr int kMostTries = 10'000;
constexpr int kTriesAtOnce = 16;

Error corrupt_metrics(std::string message) {
  return Error{ErrorKind::Corrupt, 0, "the segment isn't a metrics table: " + std::move(message)};
}

/// A slot at one moment.
struct Copy {
  std::uint64_t head[kMetricHeadWords] = {};
  char place[kMetricPlaceBytes + 1] = {};
  struct Entry {
    char name[kMetricNameBytes + 1] = {};
    std::uint64_t values[kMetricValueWords] = {};
  };
  std::vector<Entry> entries = {};
};

template <std::size_t N>
void load_all(const SharedWord (&from)[N], std::uint64_t (&into)[N]) {
  for (std::size_t i = 0; i < N; ++i) into[i] = load(from[i]);
}

/// Text that is filled up with NULs; `into` has one byte more, a NUL.
template <std::size_t N>
void load_text(const SharedWord (&from)[N], char* into) {
  for (std::size_t i = 0; i < N; ++i) {
    std::uint64_t word = load(from[i]);
    std::memcpy(into + 8 * i, &word, 8);
    if ((word >> 56) == 0) break;  // its last byte
  }
}

std::size_t names_in(const std::uint64_t (&head)[kMetricHeadWords]) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(head[kNames], kMetricNames));
}

/// The words as they were before the write that is under way.
void undo(const MetricsSlot& slot, Copy& copy) {
  load_all(slot.undo_head, copy.head);
  copy.entries.resize(std::min(copy.entries.size(), names_in(copy.head)));
  std::uint64_t undone = std::min<std::uint64_t>(load(slot.undone), kMetricNames);
  for (std::uint64_t i = undone; i-- > 0;) {
    std::uint64_t entry = load(slot.undo[i].entry);
    if (entry < copy.entries.size()) load_all(slot.undo[i].values, copy.entries[entry].values);
  }
}

/// false: it was written meanwhile.
bool copy_once(const MetricsSlot& slot, Copy& copy) {
  std::uint64_t before = load(slot.sequence);
  load_all(slot.head, copy.head);
  copy.entries.assign(names_in(copy.head), {});
  load_text(slot.place, copy.place);
  for (std::size_t i = 0; i < copy.entries.size(); ++i) {
    load_text(slot.entries[i].name, copy.entries[i].name);
    load_all(slot.entries[i].values, copy.entries[i].values);
  }
  if (before % 2 != 0) undo(slot, copy);
  return load(slot.sequence) == before;
}

bool copy_whole(const MetricsSlot& slot, Copy& copy) {
  for (int i = 0; i < kMostTries; ++i) {
    if (copy_once(slot, copy)) return true;
    if (i % kTriesAtOnce == kTriesAtOnce - 1) ::sched_yield();
  }
  return false;
}

ReportedMetric::At number(const std::uint64_t* words, bool is_whole) {
  return {.value = std::bit_cast<double>(words[0]),
          .step = std::bit_cast<double>(words[1]),
          .is_whole = is_whole};
}

ReportedMetric metric_of(const Copy::Entry& entry) {
  std::uint64_t kinds = entry.values[kKinds];
  ReportedMetric metric{.name = entry.name};
  metric.last = number(entry.values + kLast, (kinds & kLastIsWhole) != 0);
  metric.has_range = (kinds & kHasRange) != 0;
  if (metric.has_range) {
    metric.least = number(entry.values + kLeast, (kinds & kLeastIsWhole) != 0);
    metric.greatest = number(entry.values + kGreatest, (kinds & kGreatestIsWhole) != 0);
  }
  return metric;
}

std::optional<JobMetrics> read_slot(const MetricsSlot& slot) {
  Copy copy;
  if (load(slot.owner) == 0 || !copy_whole(slot, copy) || copy.head[kWriter] == 0) {
    return std::nullopt;
  }
  const Owner writer = Owner::unpack(copy.head[kWriter]);
  JobMetrics job;
  job.job = static_cast<std::int64_t>(copy.head[kJob]);
  job.attempt = static_cast<std::int64_t>(copy.head[kAttempt]);
  job.pid = writer.pid;
  // Another owner word: it has said that it is done, or its slot is just being taken over.
  job.alive = load(slot.owner) == copy.head[kWriter] && !has_ended(writer);
  job.began_ns = static_cast<std::int64_t>(copy.head[kBegan]);
  job.reported_ns = static_cast<std::int64_t>(copy.head[kReported]);
  job.reports = copy.head[kReports];
  job.place = copy.place;
  for (const Copy::Entry& entry : copy.entries) {
    if ((entry.values[kKinds] & kHasLast) != 0) job.metrics.push_back(metric_of(entry));
  }
  return job;
}

}  // namespace

std::uint64_t MetricsTable::bytes(std::uint32_t slots) {
  return sizeof(MetricsHeader) + std::uint64_t{slots} * sizeof(MetricsSlot);
}

Result<MetricsTable> MetricsTable::create(std::byte* memory, std::size_t size,
                                          std::string_view key) {
  if (key.size() >= kMetricKeyBytes || key.find('\0') != std::string_view::npos) {
    return Error{ErrorKind::Invalid, EINVAL,
                 "the key of a metrics table has " + std::to_string(key.size()) +
                     " bytes; expected at most " + std::to_string(kMetricKeyBytes - 1) +
                     " and no NUL"};
  }
  if (size < bytes(1) || (size - sizeof(MetricsHeader)) / sizeof(MetricsSlot) > UINT32_MAX) {
    return Error{ErrorKind::Invalid, EINVAL,
                 std::to_string(size) + " bytes are too few for a metrics table: one slot needs " +
                     std::to_string(bytes(1))};
  }
  auto slots = static_cast<std::uint32_t>((size - sizeof(MetricsHeader)) / sizeof(MetricsSlot));
  auto* header = reinterpret_cast<MetricsHeader*>(memory);
  header->abi = kMetricsAbi;
  header->slots = slots;
  header->slot_bytes = sizeof(MetricsSlot);
  header->total_bytes = bytes(slots);
  std::memcpy(header->key, key.data(), key.size());
  header->magic = kMetricsMagic;
  return MetricsTable(memory, slots, std::string(key));
}

Result<MetricsTable> MetricsTable::open(std::byte* memory, std::size_t size) {
  if (size < bytes(1)) return corrupt_metrics("only " + std::to_string(size) + " bytes");
  MetricsHeader header;  // copied before it is checked: others can write into it
  std::memcpy(&header, memory, sizeof(header));
  if (header.magic != kMetricsMagic) return corrupt_metrics("wrong magic number");
  if (header.abi != kMetricsAbi || header.slot_bytes != sizeof(MetricsSlot)) {
    return corrupt_metrics("created by another version of pergpu (layout " +
                           std::to_string(header.abi) + ", this one supports " +
                           std::to_string(kMetricsAbi) + ")");
  }
  if (header.slots == 0 || header.total_bytes != bytes(header.slots) || header.total_bytes > size) {
    return corrupt_metrics("its size doesn't match its header");
  }
  const auto* end = static_cast<const char*>(std::memchr(header.key, 0, sizeof(header.key)));
  if (end == nullptr) return corrupt_metrics("its key isn't terminated");
  return MetricsTable(memory, header.slots, std::string(static_cast<const char*>(header.key), end));
}

std::vector<JobMetrics> MetricsTable::read() const {
  std::vector<JobMetrics> jobs;
  for (std::uint32_t i = 0; i < slots_; ++i) {
    if (std::optional<JobMetrics> job = read_slot(slot(i))) jobs.push_back(std::move(*job));
  }
  return jobs;
}

}  // namespace pergpu::share
