// The same on x86-64 and arm64.  A table, because sigabbrev_np() is new in glibc 2.32.
#include "job/signal_names.h"

#include <array>
#include <cstddef>

namespace pergpu {
namespace {

constexpr std::array<std::string_view, kMostSignals> kNames = {
    "",     "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
    "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
    "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};

}  // namespace

std::string_view short_signal_name(int number) {
  return number > 0 && number < kMostSignals ? kNames[static_cast<std::size_t>(number)] : "";
}

}  // namespace pergpu
