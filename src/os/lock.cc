// flock and not fcntl: it belongs to the open file, so two objects of one process exclude each
// other too, and closing another descriptor of the same file does not drop it.
#include "os/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "os/file.h"

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

pid_t holder_in(const std::string& locks, const std::string& inode, bool shared) {
  std::istringstream lines(locks);
  for (std::string line; std::getline(lines, line);) {
    // 3: FLOCK  ADVISORY  WRITE 4711 00:19:42 0 EOF
    std::istringstream fields(line);
    std::string number, type, advice, access, where;
    pid_t pid = 0;
    if (!(fields >> number >> type >> advice >> access >> pid >> where)) continue;
    if (type == "FLOCK" && access == (shared ? "READ" : "WRITE") && where == inode) return pid;
  }
  return 0;
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

pid_t lock_holder(const struct stat& file, bool shared) {
  std::array<char, 64> inode{};
  std::snprintf(inode.data(), inode.size(), "%02x:%02x:%llu", major(file.st_dev),
                minor(file.st_dev), static_cast<unsigned long long>(file.st_ino));
  // The kernel gives the list out a page at a time and counts entries in between: one that stands
  // behind a page's end is left out when an earlier one ends at that moment.
  constexpr int kLooks = 3;
  for (int look = 0; look < kLooks; ++look) {
    const Result<std::string> locks = read_file("/proc/locks", 16u << 20);
    if (!locks) return 0;
    if (const pid_t pid = holder_in(*locks, inode.data(), shared); pid > 0) return pid;
  }
  return 0;
}

}  // namespace pergpu::os
