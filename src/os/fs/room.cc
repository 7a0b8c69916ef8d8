// The file of try_writing() never has a name (O_TMPFILE): no other process sees it, nothing is left
// of it when this process is killed, and no other file's name is touched.
#include "os/fs/room.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "os/fd.h"
#include "os/fs/file.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kPage = 4096;

/// The folder itself, or the nearest one above it that is there.
std::string existing(std::string folder) {
  struct stat st = {};
  for (;;) {
    const bool is_there = ::stat(folder.c_str(), &st) == 0;
    if (is_there && S_ISDIR(st.st_mode)) break;
    if (!is_there && errno != ENOENT && errno != ENOTDIR) break;
    std::string parent = parent_of(folder);
    if (parent == folder) break;
    folder = std::move(parent);
  }
  return folder;
}

/// The file system makes no files without names, or the folder was removed right now.
bool says_nothing_of_room(int code) {
  return code == EOPNOTSUPP || code == EISDIR || code == EINVAL || code == ENOENT ||
         code == ENOTDIR;
}

}  // namespace

bool seems_full(const std::string& folder) {
  struct statvfs fs = {};
  if (::statvfs(folder.c_str(), &fs) < 0) return false;
  const bool is_root = ::geteuid() == 0;  // which may use what is kept back
  const std::uint64_t blocks = is_root ? fs.f_bfree : fs.f_bavail;
  const std::uint64_t inodes = is_root ? fs.f_ffree : fs.f_favail;
  const bool lacks_blocks = fs.f_blocks > 0 && blocks * fs.f_frsize < kPage;
  return lacks_blocks || (fs.f_files > 0 && inodes == 0);
}

Result<void> try_writing(const std::string& path) {
  const std::string place = existing(path);
  const UniqueFd fd(::open(place.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!fd && says_nothing_of_room(errno)) return {};
  if (!fd) return os_error("make a file in " + place);
  const std::string page(kPage, 'x');
  for (int i = 0; i < 4; ++i) {
    const ssize_t written = ::write(fd.get(), page.data(), page.size());
    if (written < 0) return os_error("write in " + place);
    if (written < static_cast<ssize_t>(page.size())) return os_error("write in " + place, ENOSPC);
  }
  if (::fdatasync(fd.get()) < 0 && errno != EINVAL) return os_error("write in " + place);
  return {};
}

std::uint64_t device_of(const std::string& path) {
  struct stat st = {};
  return ::stat(existing(path).c_str(), &st) < 0 ? 0 : st.st_dev;
}

}  // namespace pergpu::os
