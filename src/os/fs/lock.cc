// flock and not fcntl: it belongs to the open file, so two objects of one process exclude each
// other too, and closing another descriptor of the same file does not drop it.
#include "os/fs/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "os/fs/file.h"
#include "os/fs/lock_holder.h"

namespace pergpu::os {

namespace {

constexpr std::size_t kLongestNote = 200;

/// Without its note a lock locks, too.
void write_note(int fd, std::string_view note) {
  note = note.substr(0, kLongestNote);
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, note.data(), note.size(), 0);
}

/// The note, and the process where that is another program than those that write notes.
std::string holder(int fd) {
  std::array<char, kLongestNote> buffer;
  const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), 0);
  const std::string note(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  struct stat file {};
  std::optional<LockHolder> process;
  if (::fstat(fd, &file) == 0) process = find_lock_holder(file);
  if (note.empty()) return process ? words_of(*process) : "another process";
  const bool is_its_note = !process || process->pid == ::getpid() || process->program.empty() ||
                           process->program.starts_with("pergpu");
  return is_its_note ? note : note + " (now: " + words_of(*process) + ")";
}

}  // namespace

Result<FileLock> FileLock::try_lock(const std::string& path, std::string_view note) {
  // Again when the file was replaced between open and lock.
  for (int attempt = 0; attempt < 16; ++attempt) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    UniqueFd fd(::open(path.c_str(), kFlags, 0600));
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
    if (!S_ISREG(held.st_mode)) {
      return Error{ErrorKind::Invalid, 0, "lock file " + path + " isn't a regular file; remove it"};
    }
    if (::stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
        held.st_ino == named.st_ino) {
      if (!note.empty()) write_note(fd.get(), note);
      return FileLock(std::move(fd));
    }
  }
  return Error{ErrorKind::Busy, 0, "lock " + path + ": the file keeps being replaced"};
}

pid_t lock_holder(const struct stat& file, bool shared) {
  const std::string where = where_of(file);
  // The kernel gives the list out a page at a time and counts entries in between: one that stands
  // behind a page's end is left out when an earlier one ends at that moment.
  constexpr int kLooks = 3;
  for (int look = 0; look < kLooks; ++look) {
    const Result<std::string> locks = read_file("/proc/locks", 16u << 20);
    if (!locks) return 0;
    for (const ListedLock& lock : locks_in(*locks, where)) {
      const bool is_asked = lock.kind == "FLOCK" && lock.access == (shared ? "READ" : "WRITE");
      if (is_asked && lock.pid > 0) return lock.pid;
    }
  }
  return 0;
}

}  // namespace pergpu::os
