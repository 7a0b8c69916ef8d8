// What a process passes on to the programs that it starts, apart from environment, folder and
// files: limits, priorities, cores, signals, groups.  A job gets those of the shell that submitted
// it (docs/jobs.md), not those of the coordinator.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pergpu::os {

inline constexpr int kIoOfProcess = 1;  // IOPRIO_WHO_PROCESS of linux/ioprio.h

struct SpawnLimit {
  int resource = 0;                                  // RLIMIT_…
  std::uint64_t soft = 0;                            // ~0: unlimited
  std::optional<std::uint64_t> hard = std::nullopt;  // nullopt: as inherited, raised for `soft`
  bool operator==(const SpawnLimit&) const = default;
};

inline constexpr std::int64_t kUsualTimerSlackNs = 50'000;
inline constexpr std::uint32_t kUsualCoreFilter = 0x33;
inline constexpr int kIoRealtime = 1;  // class of an I/O priority: its bits 13 and up

struct ProcessAttributes {
  std::vector<SpawnLimit> limits = {};
  int nice = 0;
  int policy = 0;              // SCHED_OTHER …
  int rt_priority = 0;         // of SCHED_FIFO and SCHED_RR
  int io_priority = 0;         // as ioprio_get() has it
  std::vector<int> cpus = {};  // affinity, ascending; empty: not known
  std::uint64_t ignored = 0;   // signals: bit n-1 is signal n, as in /proc/PID/status
  std::uint64_t blocked = 0;
  std::int64_t timer_slack_ns = kUsualTimerSlackNs;
  std::uint32_t personality = 0;  // setarch
  std::uint32_t core_filter = kUsualCoreFilter;
  int oom_score_adj = 0;
  gid_t group = 0;
  std::vector<gid_t> groups = {};  // supplementary ones, ascending
  bool operator==(const ProcessAttributes&) const = default;
};

/// Keeps the signal mask and the ignored signals for own_attributes().  To be called before this
/// program changes any of them.
void remember_signals();
ProcessAttributes own_attributes();

/// Which memory a core dump holds; nullopt: not known.
std::optional<std::uint32_t> own_core_filter();
bool set_core_filter(std::uint32_t filter);
/// Whether this process has these groups, and no others.
bool has_groups(const std::vector<gid_t>& ascending, gid_t group);

/// What a process can give to the programs that it starts.
struct Reach {
  std::vector<SpawnLimit> limits = {};  // `hard` is what counts
  bool any_limit = false;               // it may raise hard limits
  int lowest_nice = 0;
  bool only_idle = false;  // it cannot leave SCHED_IDLE
  int most_rt_priority = 0;
  bool io_realtime = false;
  std::vector<int> cpus = {};  // that its control group lets it use
  gid_t group = 0;
  std::vector<gid_t> groups = {};  // with `group`
  bool any_group = false;
};

/// Of this process, or of a coordinator that it starts.
Reach own_reach();
/// Whether `a` can give all that `b` can.
bool covers(const Reach& a, const Reach& b);
/// The process may have less to give than this one: it was started from another shell.
bool has_less(pid_t process);
/// Hard limit of a process; ~0 where that cannot be read.
std::uint64_t hard_limit_of(pid_t process, int resource);

/// What the shell that starts a daemon happens to have must not end it: takes as much as the hard
/// limits allow of file size, CPU time, memory, processes and stack, and ignores the signals by
/// which the kernel reports that one is reached. Then a call fails instead. To be called first of
/// all.
void raise_own_limits();
/// The same limits for a program that is about to be started.
std::vector<SpawnLimit> raised_limits();

/// Gives up what the shell happened to have that started this daemon, as far as it can be had
/// again: priorities, their limits, and, unless `keep_cores`, its affinity.  To be called before
/// threads are started.
void shed_attributes(bool keep_cores);

/// The affinity of this process, ascending.
std::vector<int> own_cores();
/// Cores that this process could have with a wider affinity, ascending.
std::vector<int> usable_cores();

/// "ulimit -n" of RLIMIT_NOFILE; "" of what has no letter.
std::string ulimit_option(int resource, bool hard);
/// "open files" of RLIMIT_NOFILE, "resource 99" of what is not known.
std::string limit_name(int resource);

}  // namespace pergpu::os
