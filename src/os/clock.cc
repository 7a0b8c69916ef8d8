// The two clocks of Instant.  CLOCK_BOOTTIME goes on while the machine is suspended, so that a
// timeout of 12 h means 12 h.
#include "os/clock.h"

#include <sys/timex.h>
#include <time.h>

namespace pergpu::os {
namespace {

std::int64_t read_clock(clockid_t id) {
  timespec t{};
  ::clock_gettime(id, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

std::int64_t boot_now_ns() { return read_clock(CLOCK_BOOTTIME); }

std::int64_t awake_now_ns() { return read_clock(CLOCK_MONOTONIC); }

std::int64_t own_cpu_ns() { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

Instant RealClock::now() {
  return {.wall_ns = read_clock(CLOCK_REALTIME), .boot_ns = read_clock(CLOCK_BOOTTIME)};
}

std::optional<bool> clock_is_synchronised() {
  timex state{};  // modes = 0: nothing is set
  if (::adjtimex(&state) < 0) return std::nullopt;
  return (state.status & STA_UNSYNC) == 0;
}

}  // namespace pergpu::os
