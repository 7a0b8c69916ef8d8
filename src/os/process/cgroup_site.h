// Where control groups may be made, if anywhere: chosen once at the start of a coordinator, from
// what the kernel says of its mounts and of the coordinator's own group.  Nothing is taken that
// belongs to others: with cgroup v2 limits need a group that was delegated (systemd's Delegate=yes
// marks it), with cgroup v1 it is enough that folders can be made below one's own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "result.h"

namespace pergpu::os {

/// A folder below which groups are made, one for each keeper.
struct CgroupPlace {
  int version = 0;          // 1 or 2; 0: there is none
  std::string folder = {};  // absolute
  explicit operator bool() const { return version != 0; }
  bool operator==(const CgroupPlace&) const = default;
};

/// One place for each use.  With cgroup v2 they are the same folder.
struct CgroupSite {
  CgroupPlace track = {};   // v2: every attempt; v1 (freezer): those that have a limit anyway
  CgroupPlace memory = {};  // `memory` is held by the kernel
  CgroupPlace cpu = {};     // `cpus` is held by the kernel where the job is not pinned
  std::string words = {};   // what was found and what is missing, for people
  explicit operator bool() const { return track || memory || cpu; }
};

/// What the choice depends on.
struct CgroupFacts {
  std::string mountinfo = {};    // /proc/self/mountinfo
  std::string self_cgroup = {};  // /proc/self/cgroup
  std::string asked = {};        // $PERGPU_CGROUP: "" choose, "none", or a folder of cgroup v2
  bool has_systemd = false;      // it manages the groups of this machine
  std::function<bool(const std::string& path)> may_write = {};
  std::function<bool(const std::string& folder)> is_delegated = {};  // marked so by systemd
  std::function<std::string(const std::string& path)> read = {};     // "" when it cannot be
};

/// The group of pergpu's own processes below a v2 group that was given to it: groups with
/// controllers must not hold processes themselves.
inline constexpr char kCgroupLeaf[] = "pergpu-own";

struct CgroupChoice {
  CgroupSite site = {};
  /// Not empty: processes of this v2 group must move to its kCgroupLeaf, and `controllers` be
  /// handed on, before the memory and cpu of `site` can be used.
  std::string vacate = {};
  std::vector<std::string> controllers = {};
};

CgroupChoice choose_cgroups(const CgroupFacts& facts);

/// Does what CgroupChoice::vacate asks for.
Result<void> hand_on(const CgroupChoice& choice);

/// Chooses, hands on, and says in `words` what came of it.
CgroupSite find_cgroups();

/// What find_cgroups() would choose in the place of process `pid`, before it hands on.  Changes
/// nothing.
CgroupSite foresee_cgroups(pid_t pid);

// ---- as arguments of a keeper: "2:/sys/fs/cgroup/…" ----

std::string to_text(const CgroupPlace& place);
CgroupPlace cgroup_place_of(const std::string& text);

}  // namespace pergpu::os
