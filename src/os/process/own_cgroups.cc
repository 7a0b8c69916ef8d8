// /proc/self/cgroup has a line for each hierarchy: "0::/user.slice/…" for v2,
// "4:memory:/user.slice/…" for v1.  The mounts are where all distributions have them.
#include "os/process/own_cgroups.h"

#include <algorithm>
#include <cstddef>

#include "os/fs/file.h"
#include "result.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongestOwnGroups = 64 * 1024;

std::string own_path(std::string_view controller) {
  const Result<std::string> all = read_file("/proc/self/cgroup", kLongestOwnGroups);
  std::string_view rest = all ? std::string_view(*all) : std::string_view();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : names.find(controller) != std::string_view::npos) {
      return std::string(line.substr(second + 1));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> own_cgroups(std::string_view controller) {
  std::string mount = "/sys/fs/cgroup";
  if (!controller.empty()) mount += "/" + std::string(controller);
  std::string path = own_path(controller);
  if (path.empty()) return {};
  std::vector<std::string> folders;
  if (path == "/") path.clear();
  while (true) {
    folders.push_back(mount + path);
    if (path.empty()) return folders;
    path.resize(path.rfind('/'));
  }
}

}  // namespace pergpu::os
