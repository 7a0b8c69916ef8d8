// Nothing is resolved: what a name leads to is found out by those who walk the path.
#include "os/fs/path_names.h"

#include <algorithm>
#include <cstddef>

namespace pergpu::os {

std::vector<std::string> names_in(std::string_view path) {
  std::vector<std::string> names;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t slash = std::min(path.find('/', from), path.size());
    const std::string_view name = path.substr(from, slash - from);
    if (!name.empty() && name != ".") names.emplace_back(name);
    from = slash + 1;
  }
  return names;
}

std::string path_below(const std::string& root, const std::string& path) {
  const std::string start = root.ends_with('/') ? root : root + '/';
  if (root.empty() || !path.starts_with(start)) return {};
  return path.substr(std::min(path.find_first_not_of('/', start.size()), path.size()));
}

}  // namespace pergpu::os
