// Calls that came with newer kernels than 4.18, or that a filter (seccomp) may forbid.  Each is
// tried once, when it is first asked for; what stands in for one that's missing is chosen by that,
// never by the kernel's version.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pergpu::os {

enum class KernelCall : std::uint8_t {
  Statx,
  RenameAt2,
  MemfdCreate,
  PidfdSendSignal,
  PidfdOpen,
  OpenAt2,
  CloneIntoGroup,
  CloseRange,
  FutexWaitv,
};

/// False: it fails with ENOSYS or EPERM whatever it's asked for, or lacks what is needed of it.
bool kernel_has(KernelCall call);
/// Processes can be held by a descriptor.
bool kernel_has_pidfds();

struct KernelCallFacts {
  std::string_view name = {};     // "pidfd_open"
  std::string_view since = {};    // "5.3"
  std::string_view without = {};  // what is weaker; "": nothing
};
KernelCallFacts facts_of(KernelCall call);
std::vector<KernelCall> missing_kernel_calls();

}  // namespace pergpu::os
