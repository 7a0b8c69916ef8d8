// System calls by their numbers: what the C library has no function for, or has none before glibc
// 2.36, and what the headers of an old system do not know.  Structures are the kernel's.  All
// return -1 and errno as usual.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace pergpu::os::call {

// From 424 on numbers are the same on every architecture.
#if defined(__x86_64__)
constexpr long kGetTid = 186;
constexpr long kRenameAt2 = 316;
constexpr long kGetRandom = 318;
constexpr long kMemfdCreate = 319;
constexpr long kStatx = 332;
#elif defined(__aarch64__)
constexpr long kGetTid = 178;
constexpr long kRenameAt2 = 276;
constexpr long kGetRandom = 278;
constexpr long kMemfdCreate = 279;
constexpr long kStatx = 291;
#else
#error "the numbers of this processor's system calls are not known here"
#endif
constexpr long kPidfdSendSignal = 424;
constexpr long kPidfdOpen = 434;
constexpr long kClone3 = 435;
constexpr long kCloseRange = 436;
constexpr long kOpenAt2 = 437;
constexpr long kFutexWaitv = 449;

constexpr unsigned kCloseRangeCloexec = 4;
constexpr unsigned kRenameNoReplace = 1;
constexpr std::uint64_t kResolveNoSymlinks = 4;
constexpr unsigned kMemfdCloexec = 1;
constexpr int kClonePidfd = 0x1000;
constexpr std::uint64_t kCloneIntoCgroup = 0x200000000;

struct CloneArguments {
  std::uint64_t flags = 0;
  std::uint64_t pidfd = 0;
  std::uint64_t child_tid = 0;
  std::uint64_t parent_tid = 0;
  std::uint64_t exit_signal = 0;
  std::uint64_t stack = 0;
  std::uint64_t stack_size = 0;
  std::uint64_t tls = 0;
  std::uint64_t set_tid = 0;
  std::uint64_t set_tid_size = 0;
  std::uint64_t cgroup = 0;
};
static_assert(sizeof(CloneArguments) == 88, "CLONE_ARGS_SIZE_VER2");

/// A line of getdents64().
struct FolderEntry {
  std::uint64_t inode = 0;
  std::int64_t offset = 0;
  unsigned short bytes = 0;
  unsigned char type = 0;
  char name[1] = {};
};

struct OpenHow {
  std::uint64_t flags = 0;
  std::uint64_t mode = 0;
  std::uint64_t resolve = 0;
};

constexpr unsigned kStatxCtime = 0x80;
constexpr unsigned kStatxBtime = 0x800;

struct StatxTime {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  std::int32_t reserved = 0;
};

/// Of struct statx: what is asked for here, in its place.
struct StatxTimes {
  std::uint32_t mask = 0;
  std::byte before[60] = {};
  StatxTime accessed = {};
  StatxTime born = {};
  StatxTime changed = {};
  StatxTime modified = {};
  std::byte behind[128] = {};
};
static_assert(offsetof(StatxTimes, born) == 80 && sizeof(StatxTimes) == 256);

inline int pidfd_open(pid_t pid) { return static_cast<int>(::syscall(kPidfdOpen, pid, 0U)); }

inline int pidfd_send_signal(int pidfd, int signal) {
  return static_cast<int>(::syscall(kPidfdSendSignal, pidfd, signal, nullptr, 0U));
}

inline int close_range(unsigned first, unsigned last, unsigned flags) {
  return static_cast<int>(::syscall(kCloseRange, first, last, flags));
}

inline int openat2(int folder, const char* path, const OpenHow& how) {
  return static_cast<int>(::syscall(kOpenAt2, folder, path, &how, sizeof how));
}

inline int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                     unsigned flags) {
  return static_cast<int>(::syscall(kRenameAt2, from_folder, from, to_folder, to, flags));
}

inline int statx(int folder, const char* path, int flags, unsigned mask, StatxTimes* out) {
  return static_cast<int>(::syscall(kStatx, folder, path, flags, mask, out));
}

inline int memfd_create(const char* name, unsigned flags) {
  return static_cast<int>(::syscall(kMemfdCreate, name, flags));
}

inline ssize_t getrandom(void* out, std::size_t bytes) {
  return ::syscall(kGetRandom, out, bytes, 0U);
}

inline pid_t gettid() { return static_cast<pid_t>(::syscall(kGetTid)); }

}  // namespace pergpu::os::call
