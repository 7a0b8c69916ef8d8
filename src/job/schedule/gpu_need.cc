// Counts of jobs are exact in thousandths up to kMostTogether, so that no share is rounded into
// room for one more.
#include "job/schedule/gpu_need.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "job/gpu_parts.h"
#include "job/schedule/schedule.h"

namespace pergpu {
namespace {

constexpr std::uint64_t kLeastMargin = 256u << 20;
constexpr double kFull = 0.95;     // a GPU this busy gains nothing from one more job
constexpr int kMostTogether = 31;  // on a GPU: as many as thousandths count without an error
constexpr std::int64_t kSeenFor = 10'000'000'000;  // ns
constexpr double kRise = 0.01;                     // of its memory: less is none
constexpr int kLeastReadings = 3;

/// So many that their sum is full.
int fill(double part) {
  if (part <= 0) return kMostTogether;
  return static_cast<int>(std::clamp(std::ceil(kFull / part), 1.0, double{kMostTogether}));
}

int thousandths_of(std::uint64_t bytes, std::uint64_t all) {
  const double part = static_cast<double>(bytes) / static_cast<double>(all);
  return static_cast<int>(std::min(std::ceil(part * kWholeGpu), double{kWholeGpu}));
}

}  // namespace

void GpuNeed::add(const GpuNeed& other) {
  bytes = std::max(bytes, other.bytes);
  cores = std::max(cores, other.cores);
  if (other.measured == 0) return;
  const int all = measured + other.measured;
  busy = (busy * measured + other.busy * other.measured) / all;
  measured = std::min(all, kMostMeasured);
}

std::uint64_t promise_of(std::uint64_t bytes) { return bytes + std::max(bytes / 32, kLeastMargin); }

void fit(Demand& demand, const GpuNeed* need, const GpuRoom& room) {
  assert(demand.is_auto);
  demand.share = kWholeGpu;
  demand.promise_bytes = 0;
  const bool is_known = need != nullptr && need->bytes > 0 && need->measured > 0;
  if (!is_known || promise_of(need->bytes) > room.bytes) return;
  if (!demand.gpu_memory_bytes) demand.promise_bytes = promise_of(need->bytes);
  const int by_time = fill(need->busy / room.kernels);
  const int by_cores = room.cores > 0 ? fill(need->cores / room.cores) : kMostTogether;
  const int by_memory = thousandths_of(promised_to(demand, room.bytes), room.bytes);
  demand.share = std::max(kWholeGpu / std::min(by_time, by_cores), by_memory);
}

void GpuTrial::saw(std::int64_t now_ns, std::uint64_t bytes, std::optional<Busy> busy) {
  most_bytes_ = std::max(most_bytes_, bytes);
  const bool is_new = busy && busy->read_ns > last_read_ns_;
  if (is_new) last_read_ns_ = busy->read_ns;
  const bool begins = began_ns_ == 0 && is_new && busy->part > 0;
  if (begins) began_ns_ = now_ns;
  if (began_ns_ == 0) return;
  last_ns_ = now_ns;
  if (begins || static_cast<double>(bytes) > static_cast<double>(level_bytes_) * (1 + kRise)) {
    rose_ns_ = now_ns;
    level_bytes_ = bytes;
  }
  if (!is_new) return;
  busy_ += busy->part;
  ++readings_;
}

bool GpuTrial::is_settled() const {
  const std::int64_t seen = last_ns_ - began_ns_;
  return need().measured > 0 && seen >= kSeenFor && last_ns_ - rose_ns_ >= seen / 2;
}

GpuNeed GpuTrial::need() const {
  GpuNeed need{.bytes = most_bytes_};
  if (readings_ < kLeastReadings) return need;
  need.busy = busy_ / readings_;
  need.measured = 1;
  return need;
}

}  // namespace pergpu
