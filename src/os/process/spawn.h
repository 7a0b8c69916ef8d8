// Starting programs.  The child shares the parent's memory until its exec (clone with CLONE_VM and
// CLONE_VFORK), so a start costs the same whatever the parent's size, and the child can report to
// its parent what failed by writing it down.
//
// Everything is computed beforehand; between clone and exec the child makes system calls only.
// Every descriptor that is not listed in the plan is closed by the exec.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "os/fd.h"
#include "os/process/process_attributes.h"

namespace pergpu::os {

/// A descriptor of the parent (borrowed) and the number under which the program finds it.
struct PlacedFd {
  int fd = -1;
  int as = -1;
};

struct SpawnPlan {
  std::vector<std::string> argv =
      {};  // argv[0] is looked up in the PATH of `env` unless it has a '/'
  std::vector<std::string> env = {};  // NAME=value, complete
  std::string cwd = {};               // empty: the parent's
  int stdin_fd = -1;                  // borrowed; -1: /dev/null
  int stdout_fd = -1;
  int stderr_fd = -1;
  std::vector<PlacedFd> fds = {};
  bool new_session = false;
  bool sibling =
      false;  // child of the caller's parent: the caller can neither wait for nor adopt it
  bool is_watched = true;       // false: Spawned::pidfd isn't used, and may be missing
  int parent_death_signal = 0;  // for helpers that must not outlive the thread that starts them
  std::optional<mode_t> umask = std::nullopt;
  std::optional<int> oom_score_adj = std::nullopt;  // best effort
  std::vector<SpawnLimit> limits = {};              // as much as may be had of what is asked for
  std::vector<int> cpus = {};  // empty: the affinity of `attributes`, else the parent's
  /// Best effort.  Its limits and oom_score_adj are not looked at: `limits`, `oom_score_adj`.
  std::optional<ProcessAttributes> attributes = std::nullopt;
  // Control groups (os/process/cgroup.h), best effort; all borrowed.
  int group_fd = -1;               // a folder of cgroup v2: the child is born in it, or joins it
  std::vector<int> join_fds = {};  // cgroup.procs files: the child joins these before its exec
};

struct Spawned {
  pid_t pid = 0;
  UniqueFd pidfd = {};      // a handle of os/process/child.h
  bool is_grouped = false;  // it is in every group that the plan asked for
};

/// Nothing runs.  `phase` is one of "dev-null", "clone", "session", "affinity", "chdir", "fds",
/// "exec"; `object` is the path or value concerned.
struct SpawnFailure {
  std::string phase = {};
  int os_errno = 0;
  std::string object = {};
};

using SpawnResult = std::variant<Spawned, SpawnFailure>;

/// Returns when the program runs (its exec succeeded) or nothing does.  Signal mask and
/// dispositions of the program are the defaults, or those of `attributes`.  REQUIRES: argv is not
/// empty.
SpawnResult spawn(const SpawnPlan& plan);

/// The environment of this process.
std::vector<std::string> own_environment();

/// The value of the first entry of that name; nullopt: it isn't set.
std::optional<std::string> value_in(const std::vector<std::string>& env, std::string_view name);

/// Removes all entries of that name and adds this one.
void set_variable(std::vector<std::string>& env, std::string_view name, std::string_view value);

/// The files that execvp() would try for `program`, in order.
std::vector<std::string> exec_candidates(std::string_view program,
                                         const std::vector<std::string>& env);

}  // namespace pergpu::os
