// DirStream: owns what opendir() gives.
#pragma once

#include <dirent.h>

#include <memory>

namespace pergpu::os {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using DirStream = std::unique_ptr<DIR, CloseDir>;

}  // namespace pergpu::os
