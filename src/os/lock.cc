// flock and not fcntl: it belongs to the open file, so two objects of one process exclude each
// other too, and closing another descriptor of the same file does not drop it.
#include "os/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace pergpu::os {

Result<FileLock> FileLock::try_lock(const std::string& path) {
  // Again when the file was replaced between open and lock.
  for (int attempt = 0; attempt < 16; ++attempt) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return os_error("open lock file " + path);
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) < 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        return Error{ErrorKind::Busy, errno, "lock " + path + ": another process holds it"};
      }
      return os_error("lock " + path);
    }
    struct stat held {};
    struct stat named {};
    if (::fstat(fd.get(), &held) < 0) return os_error("stat lock file " + path);
    if (::stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
        held.st_ino == named.st_ino) {
      return FileLock(std::move(fd));
    }
  }
  return Error{ErrorKind::Busy, 0, "lock " + path + ": the file is being replaced again and again"};
}

}  // namespace pergpu::os
