// A call is tried with arguments that it has to refuse, or with which it does nothing: which error
// comes back shows whether it is there.
#include "os/kernel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>

#include "os/fd.h"
#include "os/system_calls.h"
#include "os/test_hooks.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kCalls = static_cast<std::size_t>(KernelCall::FutexWaitv) + 1;

enum class Known : std::uint8_t { No, There, Missing };
std::array<std::atomic<Known>, kCalls> known_calls = {};

std::atomic<Known>& known(KernelCall call) { return known_calls[static_cast<std::size_t>(call)]; }

bool is_there(long result) { return result >= 0 || (errno != ENOSYS && errno != EPERM); }

/// Into a group that can't be: a kernel that knows the flag looks for it before it makes anything.
bool has_clone_into_group() {
  call::CloneArguments arguments;
  arguments.flags = call::kCloneIntoCgroup;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = INT_MAX;
  const long pid = ::syscall(call::kClone3, &arguments, sizeof arguments);
  if (pid == 0) {
    for (;;) ::_exit(0);
  }
  if (pid > 0) ::waitpid(static_cast<pid_t>(pid), nullptr, 0);  // it took no notice of the flag
  return pid < 0 && errno == EBADF;
}

bool has_pidfd_open() {
  const UniqueFd fd(call::pidfd_open(::getpid()));
  return is_there(fd.get());
}

bool try_out(KernelCall call) {
  switch (call) {
    case KernelCall::Statx:
      return is_there(call::statx(-1, nullptr, 0, 0, nullptr));
    case KernelCall::RenameAt2:
      return is_there(call::renameat2(AT_FDCWD, "", AT_FDCWD, "", call::kRenameNoReplace));
    case KernelCall::MemfdCreate:
      return is_there(call::memfd_create("", ~0U));
    case KernelCall::PidfdSendSignal:
      return is_there(call::pidfd_send_signal(-1, 0));
    case KernelCall::PidfdOpen:
      return has_pidfd_open();
    case KernelCall::OpenAt2:
      return is_there(::syscall(call::kOpenAt2, -1, nullptr, nullptr, 0));
    case KernelCall::CloneIntoGroup:
      return has_clone_into_group();
    case KernelCall::CloseRange:  // with its flag; of no descriptor
      return call::close_range(~0U, ~0U, call::kCloseRangeCloexec) == 0;
    case KernelCall::FutexWaitv:
      return is_there(::syscall(call::kFutexWaitv, nullptr, 0, 0, nullptr, 0));
  }
  return false;
}

}  // namespace

bool kernel_has(KernelCall call) {
  const std::uint32_t missing = test_hook::missing_calls.load(std::memory_order_relaxed);
  if ((missing >> static_cast<unsigned>(call) & 1u) != 0) return false;
  std::atomic<Known>& is_known = known(call);
  Known now = is_known.load(std::memory_order_relaxed);
  if (now == Known::No) {
    const int before = errno;
    now = try_out(call) ? Known::There : Known::Missing;
    errno = before;
    is_known.store(now, std::memory_order_relaxed);
  }
  return now == Known::There;
}

bool kernel_has_pidfds() {
  return kernel_has(KernelCall::PidfdOpen) && kernel_has(KernelCall::PidfdSendSignal);
}

KernelCallFacts facts_of(KernelCall call) {
  switch (call) {
    case KernelCall::Statx:
      return {"statx", "4.11", "the age of shared memory is that of its last change"};
    case KernelCall::RenameAt2:
      return {"renameat2", "3.15", {}};
    case KernelCall::MemfdCreate:
      return {"memfd_create", "3.17", "jobs can't share memory (pergpu.share)"};
    case KernelCall::PidfdSendSignal:
      return {"pidfd_send_signal", "5.1",
              "a signal to one of your processes is sent by its number, right after its start time "
              "was compared"};
    case KernelCall::PidfdOpen:
      return {"pidfd_open", "5.3",
              "the end of a keeper or helper is noticed up to 0.1 s later, and a signal is sent by "
              "the process's number, right after its start time was compared"};
    case KernelCall::OpenAt2:
      return {"openat2", "5.6", {}};
    case KernelCall::CloneIntoGroup:
      return {"clone3 with CLONE_INTO_CGROUP", "5.7", {}};
    case KernelCall::CloseRange:
      return {"close_range with CLOSE_RANGE_CLOEXEC", "5.11", {}};
    case KernelCall::FutexWaitv:
      return {"futex_waitv", "5.16",
              "a consumer of several channels looks for news 50 times a second"};
  }
  return {};
}

std::vector<KernelCall> missing_kernel_calls() {
  std::vector<KernelCall> out;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const auto call = static_cast<KernelCall>(i);
    if (!kernel_has(call)) out.push_back(call);
  }
  return out;
}

}  // namespace pergpu::os
