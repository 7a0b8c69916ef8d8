// What lies in the segment of a table of metrics (docs/share.md).
//
//   header, with the key | slots
//
// A slot is the record of one process of a job: what it has reported last, and the least and the
// greatest of each name.  One process writes into it, any may read, and neither waits for the
// other:
//
//   write: undo = what the words to be changed hold now; sequence becomes odd; the words change;
//          sequence becomes even.
//   read:  sequence, words, sequence again; another number: once more.  Where it is odd the words
//          that the undo names are taken from there: that is the record as it was before.
//
// So a reader sees whole records only, also of a process that was killed in the middle.  Each word
// is stored with release and loaded with acquire, which keeps them in this order around the
// sequence; with a fence instead, ThreadSanitizer could not follow.
//
// Nothing that is read here is an index or a size before it is checked: every process with the
// segment can write into it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pergpu::share {

constexpr std::uint32_t kMetricNames = 64;      // of a process
constexpr std::size_t kMetricNameBytes = 40;    // of UTF-8
constexpr std::size_t kMetricPlaceBytes = 512;  // "RUN/STEP"
constexpr std::size_t kMetricKeyBytes = 4096 - 64;
constexpr std::uint64_t kMetricsMagic = 0x7363697274656d70;  // "pmetrics"
constexpr std::uint32_t kMetricsAbi = 1;

using SharedWord = std::atomic<std::uint64_t>;
static_assert(sizeof(SharedWord) == 8 && SharedWord::is_always_lock_free);
inline std::uint64_t load(const SharedWord& word) { return word.load(std::memory_order_acquire); }

/// Constant after creation.
struct MetricsHeader {
  std::uint64_t magic;
  std::uint32_t abi;
  std::uint32_t slots;
  std::uint64_t slot_bytes;
  std::uint64_t total_bytes;
  std::byte unused[32];
  char key[kMetricKeyBytes];  // ends with a NUL
};
static_assert(sizeof(MetricsHeader) == 4096);

/// Numbers of a head.
enum MetricHead : std::size_t {
  kWriter,    // the owner (share/liveness.h) whose record this is; 0: there is none
  kJob,       // its id
  kAttempt,   // its number
  kBegan,     // wall clock, ns: when the process began to report
  kReported,  // the newest report
  kReports,   // how many there were
  kNames,     // how many entries are in use
  kMetricHeadWords,
};

/// Numbers of what an entry has beside its name; all but the last are doubles.
enum MetricValue : std::size_t {
  kLast,
  kLastStep,  // the step that was reported with it; NaN: none
  kLeast,
  kLeastStep,
  kGreatest,
  kGreatestStep,
  kKinds,
  kMetricValueWords,
};

/// Bits of kKinds.
constexpr std::uint64_t kHasLast = 1;
constexpr std::uint64_t kHasRange = 2;     // kLeast and kGreatest: there was a number, not NaN
constexpr std::uint64_t kLastIsWhole = 4;  // an integer, as it was reported
constexpr std::uint64_t kLeastIsWhole = 8;
constexpr std::uint64_t kGreatestIsWhole = 16;

constexpr std::size_t kMetricNameWords = kMetricNameBytes / 8;

struct MetricEntry {
  SharedWord name[kMetricNameWords];  // filled up with NULs
  SharedWord values[kMetricValueWords];
};

struct MetricUndo {
  SharedWord entry;
  SharedWord values[kMetricValueWords];
};

struct MetricsSlot {
  alignas(64) SharedWord owner;  // who may write; becomes another's in one step
  SharedWord sequence;
  SharedWord head[kMetricHeadWords];
  SharedWord place[kMetricPlaceBytes / 8];  // filled up with NULs
  MetricEntry entries[kMetricNames];
  SharedWord undo_head[kMetricHeadWords];
  SharedWord undone;  // how many of the following are in use
  MetricUndo undo[kMetricNames];
};

}  // namespace pergpu::share
