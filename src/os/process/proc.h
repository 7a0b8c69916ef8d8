// What /proc says about one process.  Anything may be gone by the time it is read: "not there" is
// an ordinary answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pergpu::os {

/// Fields of /proc/<pid>/stat.  (pid, start_ticks) names a process for as long as the machine is
/// up.
struct ProcStat {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';  // 'R', 'S', 'D' (uninterruptible), 'T', 'Z' (zombie) …
  std::uint64_t start_ticks = 0;
  std::int64_t cpu_ns = 0;  // user and system, with that of children it has waited for
  std::uint64_t resident_bytes = 0;
  std::string name = {};
  bool is_kernel_thread = false;
  /// A zombie has ended: it holds nothing and waits for its parent only.
  bool ended() const { return state == 'Z' || state == 'X'; }
};

std::optional<ProcStat> read_stat(pid_t pid);

/// The process exists, is this one and has not ended.
bool is_alive(pid_t pid, std::uint64_t start_ticks);

/// The environment that `pid` was started with, NAME=value entries, each ended by a NUL; empty: not
/// ours to read, or see has_environment().
std::string environment_of(pid_t pid);
/// The value of `name` in the environment that `pid` was started with.  nullopt: not set, or not
/// ours to read.
std::optional<std::string> environment_value(pid_t pid, std::string_view name);

/// By the rights of its file: another user's, or one that may not be dumped, does not.
bool may_tell_environment(pid_t pid);
/// False while an exec is under way and once a process ends: its environment reads as empty then,
/// whatever it has or had.
bool has_environment(pid_t pid);

/// The words that it was started with; empty when they cannot be read.
std::vector<std::string> arguments_of(pid_t pid);

/// Where /proc/<pid>/<link> points to ("exe", "fd/1"), "" when it cannot be read.
std::string link_of(pid_t pid, std::string_view link);

/// It has a handler for the signal; false when that cannot be read.
bool catches(pid_t pid, int signal);
/// The same, or it blocks the signal to wait for it.
bool handles(pid_t pid, int signal);

/// The process that traces `pid` (a debugger); 0: none.
pid_t tracer_of(pid_t pid);

/// Resident memory; 0 when the process is gone.  Cheap: counters only.
std::uint64_t resident_bytes(pid_t pid);
/// Proportional share of the memory (shared pages count in part).  Expensive for large processes:
/// the kernel walks the page tables.  Falls back to resident_bytes().
std::uint64_t proportional_bytes(pid_t pid);
/// The same; nullopt where it is not known: gone, or not ours to read.
std::optional<std::uint64_t> told_proportional_bytes(pid_t pid);

/// What it has read from and written to disks, with its children that it has waited for.
struct DiskBytes {
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};
/// nullopt: gone, not ours to read, or a kernel that does not count.
std::optional<DiskBytes> disk_bytes(pid_t pid);

/// Changes whenever a process or thread was started anywhere on the machine; 0: not known.
std::uint64_t newest_pid();

/// How many processes of the whole machine the kernel has killed for want of memory since it was
/// started; nullopt: it does not report that.
std::optional<std::int64_t> machine_oom_kills();

/// Children of all threads of `pid`.  Complete for processes that are stopped or are the caller.
std::vector<pid_t> children_of(pid_t pid);

/// Every process that is visible, in no order.
std::vector<pid_t> all_processes();

// ---- what the files say, of their text ----

/// /proc/<pid>/stat; nullopt: it is none.
std::optional<ProcStat> stat_in(pid_t pid, std::string_view text);
/// Where the environment begins and ends, of /proc/<pid>/stat; zeros: not set up, or not known.
std::pair<std::uint64_t, std::uint64_t> environment_in(std::string_view text);
/// The value of `name` in NAME=value entries, each ended by a NUL.
std::optional<std::string> value_in(std::string_view environment, std::string_view name);
/// /proc/<pid>/smaps_rollup; nullopt: it does not say.
std::optional<std::uint64_t> proportional_bytes_in(std::string_view smaps_rollup);
/// /proc/<pid>/io; nullopt: it does not say.
std::optional<DiskBytes> disk_bytes_in(std::string_view io);
/// /proc/loadavg.
std::uint64_t newest_pid_in(std::string_view loadavg);
/// /proc/<pid>/task/<tid>/children.
std::vector<pid_t> children_in(std::string_view text);

}  // namespace pergpu::os
