// What tests change in the programs themselves: variables of the environment that stand for a
// machine which can't be had otherwise, and switches of a process.  Users need none of them but
// PERGPU_CUDART (docs/share/channels.md).  Nothing else in src/ reads their names
// (tools/check-layers).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "os/kernel.h"

namespace pergpu::os {

struct TestHook {
  const char* name;
  const char* meaning;
  const char* read_by;  // in src/
  /// Null where it isn't set.
  const char* value() const { return std::getenv(name); }
};

namespace test_hook {
// clang-format off
constexpr TestHook kCudart     {"PERGPU_CUDART",        "the CUDA runtime",                       "share/pinning.cc"};
constexpr TestHook kDev        {"PERGPU_DEV",           "/dev, for GPUs",                         "gpu/probe_main.cc"};
constexpr TestHook kFoldFrom   {"PERGPU_FOLD_FROM",     "events from which the store is folded",  "daemon/main_loop.cc"};
constexpr TestHook kMpsControl {"PERGPU_MPS_CONTROL",   "MPS's program; empty: there is none",    "gpu/pool/mps_control.cc"};
constexpr TestHook kProbe      {"PERGPU_PROBE",         "the program that looks at GPUs",         "gpu/probe_inventory.cc"};
constexpr TestHook kProc       {"PERGPU_PROC",          "/proc, for AMD GPUs",                    "gpu/probe_main.cc"};
constexpr TestHook kRoot       {"PERGPU_ROOT",          "the root of what `doctor` reads",        "cli/doctor/doctor_gather.cc"};
constexpr TestHook kSys        {"PERGPU_SYS",           "/sys, for GPUs",                         "gpu/probe_main.cc"};
constexpr TestHook kTurnLimit  {"PERGPU_TURN_LIMIT_MS", "log turns of the loop that take longer", "daemon/main_loop.cc"};
constexpr TestHook kVmstat     {"PERGPU_VMSTAT",        "/proc/vmstat",                           "os/process/proc.cc"};
// clang-format on

/// Bits of KernelCall: as if the kernel lacked them.  Read by os/kernel.cc.
inline std::atomic<std::uint32_t> missing_calls{0};
/// As on a processor without instructions for half precision.  Read by share/half.cc.
inline std::atomic<bool> no_half_instructions{false};
}  // namespace test_hook

inline void pretend_missing(KernelCall call, bool missing) {
  const std::uint32_t bit = 1u << static_cast<unsigned>(call);
  if (missing) {
    test_hook::missing_calls.fetch_or(bit, std::memory_order_relaxed);
  } else {
    test_hook::missing_calls.fetch_and(~bit, std::memory_order_relaxed);
  }
}

inline void pretend_no_half_instructions(bool none) {
  test_hook::no_half_instructions.store(none, std::memory_order_relaxed);
}

}  // namespace pergpu::os
