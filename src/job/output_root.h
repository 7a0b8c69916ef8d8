// Where results lie: <output root>/<sweep>/<run>/<step>, and what goes to a cluster in
// <output root>/<sweep>/.slurm/<key>.
#pragma once

#include <cstddef>
#include <string>

namespace pergpu {

/// `folder`: the absolute path of one of these two.  "/" for what lies less deep.
inline std::string output_root_of(std::string folder) {
  for (int i = 0; i < 3; ++i) {
    const std::size_t slash = folder.rfind('/');
    folder.resize(slash == std::string::npos ? 0 : slash);
  }
  return folder.empty() ? "/" : folder;
}

}  // namespace pergpu
