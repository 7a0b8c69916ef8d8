// One control group: the processes of an attempt as the kernel counts them, with their limits.
// File operations below a CgroupSite only, so a plain folder tree can stand in its place.
//
// A group is a folder of the same name in each hierarchy that it needs: one with cgroup v2, one for
// each controller with v1.  What joins it stays in it, whatever it forks (os/process/spawn.h,
// `group_fd` and `join_fds`).  It belongs to its maker until remove().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/fd.h"
#include "os/process/cgroup_site.h"
#include "result.h"

namespace pergpu::os {

struct CgroupLimits {
  std::uint64_t memory_bytes = 0;  // 0: none.  Swap counts, too
  int cpu_milli = 0;               // thousandths of a core; 0: none
  bool any() const { return memory_bytes != 0 || cpu_milli != 0; }
};

/// What the kernel had to do because memory was short.
struct CgroupMemory {
  std::uint64_t kills = 0;       // processes that it ended
  bool at_limit = false;         // because of this group's limit, not of the whole machine
  std::uint64_t peak_bytes = 0;  // with the files that it cached; 0: not known
};

class Cgroup {
 public:
  /// Makes the folders and writes the limits for which `site` has a place; limits() says which
  /// hold. A folder that is there already is taken over: who had it is gone.
  static Result<Cgroup> make(const CgroupSite& site, const std::string& name,
                             const CgroupLimits& limits);

  const std::vector<std::string>& folders() const { return folders_; }
  /// Those that hold; the others are 0.
  const CgroupLimits& limits() const { return limits_; }
  int memory_version() const { return limits_.memory_bytes == 0 ? 0 : memory_.version; }
  int cpu_version() const { return limits_.cpu_milli == 0 ? 0 : cpu_.version; }

  /// For SpawnPlan: the v2 folder to be born in (-1: none), and the files to join through.
  int born_in() const { return born_in_.get(); }
  std::vector<int> join_fds() const;

  /// Readable when the memory limit was reached and nothing could be given back; invalid where the
  /// kernel ends the whole group by itself (v2).
  Result<UniqueFd> watch_memory() const;
  /// What the event of watch_memory() is about: with v1 it also comes when a group above this one,
  /// a container's say, has no memory left.
  bool has_run_out() const;
  CgroupMemory memory() const;
  /// Memory that is not a cache of files; 0: not known.
  std::uint64_t used_bytes() const;
  /// User and system time of all that ever ran in it; nullopt: it does not say (v1).
  std::optional<std::int64_t> cpu_ns() const;

 private:
  Cgroup() = default;
  Result<void> add(const CgroupPlace& place, const std::string& name);
  Result<void> limit_memory(std::uint64_t bytes);
  bool is_at_limit(std::uint64_t bytes) const;
  Result<void> limit_cpu(int milli);

  std::vector<std::string> folders_;
  std::vector<UniqueFd> joins_;  // cgroup.procs of the v1 folders
  UniqueFd born_in_;
  CgroupPlace memory_;  // with the group's own folder
  CgroupPlace cpu_;
  CgroupLimits limits_;
};

/// "pergpu-0123456789abcdef-k7": told apart by home and keeper.
std::string cgroup_name(const std::string& home, std::int64_t keeper);
/// The keeper of such a name of this home; 0: another name.
std::int64_t keeper_of_cgroup(const std::string& name, const std::string& home);

/// Processes in these folders and in those that a job made below them.
std::vector<pid_t> processes_in(const std::vector<std::string>& folders);

/// Kills everything in them.  One round: call it again until processes_in() is empty.
void kill_groups(const std::vector<std::string>& folders);

/// Removes the folders, deepest first.  False: some are still there, because something lives in
/// them.
bool remove_groups(const std::vector<std::string>& folders);

/// The folders of a group of this name that are there.
std::vector<std::string> groups_named(const CgroupSite& site, const std::string& name);
/// Names of all groups of this home that are there.
std::vector<std::string> groups_of_home(const CgroupSite& site, const std::string& home);

}  // namespace pergpu::os
