// flock and not fcntl: it belongs to the open file, so two objects of one process exclude each
// other too, and closing another descriptor of the same file does not drop it.
#include "os/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace pergpu::os {

namespace {

constexpr std::size_t kLongestNote = 200;

/// Without its note a lock locks, too.
void write_note(int fd, std::string_view note) {
  note = note.substr(0, kLongestNote);
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, note.data(), note.size(), 0);
}

std::string holder(int fd) {
  std::array<char, kLongestNote> note;
  const ssize_t size = ::pread(fd, note.data(), note.size(), 0);
  return size > 0 ? std::string(note.data(), static_cast<std::size_t>(size)) : "another process";
}

}  // namespace

Result<FileLock> FileLock::try_lock(const std::string& path, std::string_view note) {
  // Again when the file was replaced between open and lock.
  for (int attempt = 0; attempt < 16; ++attempt) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return os_error("open lock file " + path);
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) < 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        return Error{ErrorKind::Busy, EWOULDBLOCK, path + " is held by " + holder(fd.get())};
      }
      return os_error("lock " + path);
    }
    struct stat held {};
    struct stat named {};
    if (::fstat(fd.get(), &held) < 0) return os_error("stat lock file " + path);
    if (::stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
        held.st_ino == named.st_ino) {
      if (!note.empty()) write_note(fd.get(), note);
      return FileLock(std::move(fd));
    }
  }
  return Error{ErrorKind::Busy, 0, "lock " + path + ": the file is being replaced again and again"};
}

}  // namespace pergpu::os
