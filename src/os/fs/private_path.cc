// From above: when a folder is looked at, no other user can change its name any more.
#include "os/fs/private_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>
#include <vector>

#include "os/fs/file.h"
#include "os/fs/path_names.h"

namespace pergpu::os {
namespace {

constexpr mode_t kOthersWrite = 022;

bool is_trusted(uid_t owner) { return owner == 0 || owner == ::geteuid(); }

Error denied(std::string why) { return {ErrorKind::Denied, 0, std::move(why)}; }

Error not_ours(const std::string& path, uid_t owner) {
  return denied(path + " belongs to uid " + std::to_string(owner));
}

Error others_write(const std::string& path, mode_t mode) {
  std::array<char, 8> text = {};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return denied("others can write to " + path + " (mode " + text.data() + ")");
}

/// Whether the entry stays under its name in the folder.
Result<void> check_entry(const std::string& folder, const struct stat& its, uid_t entry_owner) {
  if (!is_trusted(its.st_uid)) return not_ours(folder, its.st_uid);
  if ((its.st_mode & kOthersWrite) == 0) return {};
  const bool is_kept = (its.st_mode & S_ISVTX) != 0 && is_trusted(entry_owner);
  return is_kept ? Result<void>() : others_write(folder, its.st_mode);
}

class TrustedWalk {
 public:
  explicit TrustedWalk(std::string from) : at_(std::move(from)) {}

  Result<void> run(const std::string& path) {
    push(path);
    Result<void> begun = look();
    while (begun && !rest_.empty()) {
      const std::string name = std::move(rest_.back());
      rest_.pop_back();
      begun = name == ".." ? leave() : enter(name);
    }
    return begun;
  }

  /// The folder that it has come to.
  Result<void> check_itself() const {
    if (!S_ISDIR(stat_.st_mode)) return os_error("open folder " + at_, ENOTDIR);
    if (stat_.st_uid != ::geteuid()) return not_ours(at_, stat_.st_uid);
    if ((stat_.st_mode & kOthersWrite) != 0) return others_write(at_, stat_.st_mode);
    return {};
  }

 private:
  void push(const std::string& path) {
    const std::vector<std::string> names = names_in(path);
    rest_.insert(rest_.end(), names.rbegin(), names.rend());
  }

  Result<void> look() {
    if (::lstat(at_.c_str(), &stat_) == 0) return {};
    return os_error("look at " + at_);
  }

  Result<void> leave() {
    at_ = parent_of(at_);
    return look();
  }

  Result<void> enter(const std::string& name) {
    if (!S_ISDIR(stat_.st_mode)) return os_error("open folder " + at_, ENOTDIR);
    const std::string path = at_ == "/" ? "/" + name : at_ + "/" + name;
    struct stat its = {};
    if (::lstat(path.c_str(), &its) < 0) return os_error("look at " + path);
    if (Result<void> may = check_entry(at_, stat_, its.st_uid); !may) return may;
    if (S_ISLNK(its.st_mode)) return follow(path);
    at_ = path;
    stat_ = its;
    return {};
  }

  Result<void> follow(const std::string& link) {
    if (++followed_ > kMostLinks) return os_error("open folder " + link, ELOOP);
    std::array<char, PATH_MAX> target = {};
    const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
    if (size < 0) return os_error("read link " + link);
    const std::string to(target.data(), static_cast<std::size_t>(size));
    push(to);
    if (!to.starts_with('/')) return {};
    at_ = "/";
    return look();
  }

  std::string at_;  // without links
  struct stat stat_ = {};
  std::vector<std::string> rest_;  // names to enter, the next one last
  int followed_ = 0;
};

}  // namespace

Result<void> check_private(const std::string& path, const std::string& trusted) {
  const bool is_below = trusted == "/" || path.starts_with(trusted + "/");
  if (!path.starts_with('/') || !is_below) return denied(path + " isn't below " + trusted);
  TrustedWalk walk(trusted);
  Result<void> done = walk.run(path.substr(trusted == "/" ? 0 : trusted.size()));
  return done ? walk.check_itself() : done;
}

}  // namespace pergpu::os
