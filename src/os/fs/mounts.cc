// A line: 36 35 98:0 /root /point options [tags…] - type source options.  Blanks within a field
// are written as \040.
#include "os/fs/mounts.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "ascii.h"

namespace pergpu::os {
namespace {

std::string without_octal_escapes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ec == std::errc{}) {
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_on(std::string_view path, std::string_view point) {
  if (point == "/") return path.starts_with('/');
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

std::vector<Mount> mounts_in(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  while (!mountinfo.empty()) {
    const std::size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    const std::string_view line = mountinfo.substr(0, end);
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const std::vector<std::string_view> before = split(line.substr(0, dash), ' ');
    const std::vector<std::string_view> after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.empty()) continue;
    mounts.push_back({.root = without_octal_escapes(before[3]),
                      .point = without_octal_escapes(before[4]),
                      .type = std::string(after[0]),
                      .options = after.size() > 2 ? std::string(after[2]) : std::string()});
  }
  return mounts;
}

// Of two on one point the later one covers the other.
const Mount* mount_at(const std::vector<Mount>& mounts, std::string_view path) {
  const Mount* found = nullptr;
  for (const Mount& mount : mounts) {
    if (!lies_on(path, mount.point)) continue;
    if (found == nullptr || mount.point.size() >= found->point.size()) found = &mount;
  }
  return found;
}

bool is_network_type(std::string_view type) {
  constexpr std::string_view kTypes[] = {
      "nfs",    "nfs4", "lustre", "gpfs",       "cifs",           "smb3",         "smbfs",
      "beegfs", "ceph", "afs",    "fuse.sshfs", "fuse.glusterfs", "fuse.juicefs", "9p"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

}  // namespace pergpu::os
