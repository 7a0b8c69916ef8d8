// A name in the file system and the file that it led to: whether it still leads there.
#pragma once

#include <string>

#include "os/fd.h"

namespace pergpu::os {

/// Keeps the file open (O_PATH), so that no other one can get its number while this lives.
class NamedFile {
 public:
  NamedFile() = default;
  /// What lies at `path` now, a symlink itself included.
  explicit NamedFile(std::string path);

  const std::string& path() const { return path_; }
  /// Something lay there at the beginning.
  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// The name leads to the same file as at the beginning.
  bool is_there() const;

 private:
  std::string path_;
  UniqueFd fd_;
};

/// The name leads to the file that is open as `fd`.  False where that can't be found out.
bool leads_to(const std::string& path, int fd);

}  // namespace pergpu::os
