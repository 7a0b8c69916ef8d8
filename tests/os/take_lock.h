// The right to a folder by its path, with the walk that pergpu does before.
#pragma once

#include <string>
#include <string_view>

#include "os/fs/folder_lock.h"

namespace pergpu::os {

inline Result<FolderLock> take_lock(const std::string& path, std::string_view holder) {
  const Result<HeldFolder> folder = open_levels(path, 3);
  if (!folder) return folder.error();
  return FolderLock::take(*folder, holder);
}

}  // namespace pergpu::os
