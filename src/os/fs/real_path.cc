// Resolved by realpath(3) and stat(2), never by words: `link/..` is the parent of where the link
// leads.
#include "os/fs/real_path.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace pergpu::os {
namespace {

std::optional<std::string> resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) return std::nullopt;
  return std::string(real.get());
}

struct SplitPath {
  std::string there = {};  // resolved
  std::string rest = {};   // relative to it; "": all of it is there
};
std::optional<SplitPath> split_at_missing(const std::string& path) {
  std::error_code failed;
  std::filesystem::path at = std::filesystem::absolute(path, failed);
  if (failed) return std::nullopt;
  std::filesystem::path rest;
  for (;;) {
    if (std::optional<std::string> there = resolved(at.string())) {
      std::string below = rest.lexically_normal().string();
      while (below.ends_with('/')) below.pop_back();
      return SplitPath{*std::move(there), below == "." ? std::string() : below};
    }
    if (errno != ENOENT || !at.has_relative_path()) return std::nullopt;
    rest = at.filename() / rest;
    at = at.parent_path();
  }
}

}  // namespace

std::string real_path(const std::string& path) {
  const std::optional<SplitPath> parts = split_at_missing(path);
  if (!parts) {
    std::error_code failed;
    const std::filesystem::path whole = std::filesystem::absolute(path, failed);
    return failed ? path : whole.string();
  }
  if (parts->rest.empty()) return parts->there;
  return (std::filesystem::path(parts->there) / parts->rest).lexically_normal().string();
}

std::optional<FolderIdentity> folder_identity(const std::string& path) {
  std::optional<SplitPath> parts = split_at_missing(path);
  struct stat st = {};
  if (!parts || ::stat(parts->there.c_str(), &st) < 0) return std::nullopt;
  return FolderIdentity{.device = st.st_dev, .inode = st.st_ino, .rest = std::move(parts->rest)};
}

std::optional<std::string> same_folder(const std::vector<std::string>& known,
                                       const std::string& path) {
  const std::optional<FolderIdentity> wanted = folder_identity(path);
  if (!wanted) return std::nullopt;
  for (auto it = known.rbegin(); it != known.rend(); ++it) {
    if (folder_identity(*it) == wanted) return *it;
  }
  return std::nullopt;
}

}  // namespace pergpu::os
