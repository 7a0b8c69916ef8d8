// Times are compared as the file system gives them, with one another and with the stamp that it
// gave at the start; no clock of this machine is involved.
#include "keeper/outputs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace pergpu::keeper {
namespace {

constexpr int kMostEntries = 10'000;  // looked at in one folder

bool is_before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

std::string why_folder_fails(const std::string& path, const struct stat& folder, timespec since) {
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(path.c_str()));
  if (!dir) return std::string("cannot be read: ") + std::strerror(errno);
  bool any = false;
  bool is_new = !is_before(folder.st_mtim, since);
  for (int i = 0; i < kMostEntries; ++i) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    any = true;
    struct stat st = {};
    if (!is_new && ::fstatat(::dirfd(dir.get()), entry->d_name, &st, 0) == 0)
      is_new = !is_before(st.st_mtim, since);
    if (is_new) break;
  }
  if (!any) return "is empty";
  return is_new ? "" : "is older than the attempt";
}

std::string why_fails(const std::string& path, timespec since) {
  struct stat st = {};
  if (::stat(path.c_str(), &st) < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return "does not exist";
    return std::string("cannot be looked at: ") + std::strerror(errno);
  }
  if (S_ISDIR(st.st_mode)) return why_folder_fails(path, st, since);
  if (S_ISREG(st.st_mode) && st.st_size == 0) return "is empty";
  return is_before(st.st_mtim, since) ? "is older than the attempt" : "";
}

}  // namespace

timespec stamp_of(int fd) {
  struct stat st = {};
  (void)::futimens(fd, nullptr);
  (void)::fstat(fd, &st);
  return st.st_mtim;
}

std::optional<MissingOutput> first_missing(const std::vector<std::string>& outputs,
                                           timespec since) {
  for (const std::string& path : outputs) {
    std::string why = why_fails(path, since);
    if (!why.empty()) return MissingOutput{.path = path, .why = std::move(why)};
  }
  return std::nullopt;
}

}  // namespace pergpu::keeper
