// A lock file that another user has made is locked through a read-only descriptor; it is replaced
// by one of our own where the folder allows that, so that it can hold our name.
#include "os/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "os/file.h"
#include "os/lock.h"

namespace pergpu::os {
namespace {

constexpr mode_t kMode = 0644;  // others must be able to lock it; it holds a name and no secret
constexpr std::size_t kLongestName = 400;
constexpr int kRounds = 16;

/// Nobody else's name for somebody's file, no link, no FIFO.
bool is_lock_file(const struct stat& st) { return S_ISREG(st.st_mode) && st.st_nlink <= 1; }

/// For a moment others look at the lock, too.
bool lock_now(int fd) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) ::usleep(1000);
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
  }
  errno = EWOULDBLOCK;
  return false;
}

bool cannot_lock_files(int code) {
  return code == EOPNOTSUPP || code == ENOLCK || code == ENOSYS || code == EINVAL || code == EBADF;
}

/// One line, whatever somebody wrote there.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out;
}

std::string process_words(const struct stat& st) {
  const pid_t pid = lock_holder(st);
  if (pid <= 0) return "another process";
  struct stat process = {};
  const std::string proc = "/proc/" + std::to_string(pid);
  std::string words = "process " + std::to_string(pid);
  if (::stat(proc.c_str(), &process) == 0) words += " of uid " + std::to_string(process.st_uid);
  return words;
}

/// Somebody has the log of an attempt as output.
bool is_log_held(const std::string& folder) {
  const std::string path = folder + "/" + FolderLock::kLog;
  const UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

constexpr char kLogHeld[] = "processes that an earlier attempt has left, which write to its log";

/// Who holds the lock on this open file.
std::string holder_of(int fd) {
  struct stat st = {};
  if (::fstat(fd, &st) < 0) return "another process";
  std::array<char, kLongestName> name{};
  const ssize_t size = S_ISREG(st.st_mode) ? ::pread(fd, name.data(), name.size(), 0) : 0;
  if (size <= 0) return process_words(st);
  return printable(std::string_view(name.data(), static_cast<std::size_t>(size)));
}

Error busy(int fd) { return {ErrorKind::Busy, EWOULDBLOCK, holder_of(fd)}; }

UniqueFd open_folder(const std::string& folder) {
  return UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool is_remote(const std::string& folder) {
  const Result<bool> remote = on_network_filesystem(folder);
  return remote && *remote;
}

Result<UniqueFd> lock_folder_itself(const std::string& folder) {
  UniqueFd fd = open_folder(folder);
  if (!fd) return os_error("open " + folder);
  if (lock_now(fd.get())) return fd;
  if (errno == EWOULDBLOCK) return busy(fd.get());
  return os_error("lock " + folder);
}

struct Opened {
  UniqueFd fd = {};
  bool is_writable = true;
};
Opened open_lock_file(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  Opened out{UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | kFlags, kMode))};
  if (out.fd || (errno != EACCES && errno != EPERM)) return out;
  const int denied = errno;
  out = {UniqueFd(::open(path.c_str(), O_RDONLY | kFlags)), false};
  if (!out.fd && errno == ENOENT) errno = denied;
  return out;
}

/// The file is ours and has no other name: what is written to it is written nowhere else.
void write_name(int fd, const struct stat& st, std::string_view name) {
  if ((st.st_mode & 0777) != kMode) (void)::fchmod(fd, kMode);
  if (st.st_size > 0) (void)!::ftruncate(fd, 0);
  name = name.substr(0, kLongestName);
  (void)!::pwrite(fd, name.data(), name.size(), 0);
}

bool leads_to(const std::string& path, const struct stat& st) {
  struct stat named = {};
  return ::lstat(path.c_str(), &named) == 0 && named.st_dev == st.st_dev &&
         named.st_ino == st.st_ino;
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder, std::string_view holder) {
  const auto itself = [&]() -> Result<FolderLock> {
    Result<UniqueFd> fd = lock_folder_itself(folder);
    if (!fd) return std::move(fd).error();
    return FolderLock(*std::move(fd));
  };
  if (is_remote(folder)) return itself();
  const std::string path = folder + "/" + FolderLock::kName;
  for (int round = 0; round < kRounds; ++round) {
    Opened file = open_lock_file(path);
    if (!file.fd) return os_error("open " + path);
    struct stat st = {};
    if (::fstat(file.fd.get(), &st) < 0) return os_error("stat " + path);
    if (!is_lock_file(st)) {
      return Error{ErrorKind::Denied, EINVAL,
                   path + " is no plain file, or has a second name; remove it"};
    }
    if (!lock_now(file.fd.get())) {
      if (errno == EWOULDBLOCK) return busy(file.fd.get());
      if (cannot_lock_files(errno)) return itself();
      return os_error("lock " + path);
    }
    if (!leads_to(path, st)) continue;  // its holder has removed it
    if (is_log_held(folder)) return Error{ErrorKind::Busy, EWOULDBLOCK, kLogHeld};
    const bool is_ours = file.is_writable && st.st_uid == ::geteuid();
    if (is_ours) write_name(file.fd.get(), st, holder);
    // With somebody else's file the lock is as good, but would show the name of who had it before.
    if (!is_ours && round + 1 < kRounds && ::unlink(path.c_str()) == 0) continue;
    return FolderLock(std::move(file.fd));
  }
  return Error{ErrorKind::Busy, EWOULDBLOCK, "others, one after the other"};
}

std::optional<std::string> holder_of_folder(const std::string& folder) {
  const std::string path = folder + "/" + FolderLock::kName;
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(path.c_str(), kFlags));
  if (!fd) fd = open_folder(folder);
  if (fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
    return holder_of(fd.get());
  }
  if (is_remote(folder) || !is_log_held(folder)) return std::nullopt;
  return kLogHeld;
}

void lock_log(int fd) {
  struct statfs fs = {};
  if (::fstatfs(fd, &fs) < 0 || is_network_filesystem(static_cast<std::uint64_t>(fs.f_type)))
    return;
  (void)::flock(fd, LOCK_EX | LOCK_NB);
}

void tidy_folder(const std::string& folder) {
  const std::string path = folder + "/" + FolderLock::kName;
  const UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat st = {};
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) < 0 || ::fstat(fd.get(), &st) < 0) return;
  if (is_lock_file(st) && leads_to(path, st)) ::unlink(path.c_str());
}

}  // namespace pergpu::os
