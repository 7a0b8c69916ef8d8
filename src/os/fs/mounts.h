// What is mounted where, as /proc/self/mountinfo says.  Reading it touches no file system: a server
// that does not answer holds nothing up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pergpu::os {

struct Mount {
  std::string root = {};     // the part of the file system that is seen
  std::string point = {};    // where
  std::string type = {};     // "ext4", "nfs4", "cgroup2" …
  std::string options = {};  // of the file system: "rw,cpu,cpuacct"
};

/// Of the text of mountinfo, in its order; lines that make no sense are left out.
std::vector<Mount> mounts_in(std::string_view mountinfo);

/// The one that the absolute `path` lies on, links aside; null: none.
const Mount* mount_at(const std::vector<Mount>& mounts, std::string_view path);

/// File systems that other machines may have mounted, too, by their names.  FUSE is one where the
/// name says what lies behind it.
bool is_network_type(std::string_view type);

}  // namespace pergpu::os
