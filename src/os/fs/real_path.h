// Where a path leads, whichever way it is spelled: through symlinks, `..`, /proc/self/cwd, another
// mount of the same file system, and whether or not all of it is there yet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pergpu::os {

/// Absolute, without symlinks, `.`, `..` and doubled slashes, as far as it is there; what is not
/// there yet follows as it is written.  A path that cannot be looked at stays as it is, made
/// absolute.
std::string real_path(const std::string& path);

/// The nearest folder of a path that is there, and what is to be made below it.  Equal for two
/// paths: they lead to one folder.
struct FolderIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::string rest = {};
  bool operator==(const FolderIdentity&) const = default;
};
/// nullopt: it cannot be looked at.
std::optional<FolderIdentity> folder_identity(const std::string& path);

/// The last of `known` that leads where `path` does; nullopt: none does.
std::optional<std::string> same_folder(const std::vector<std::string>& known,
                                       const std::string& path);

}  // namespace pergpu::os
