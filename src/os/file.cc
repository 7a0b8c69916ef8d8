// Plain system calls; folders are walked by descriptor (openat, O_NOFOLLOW), so that a name swapped
// for a symlink in between leads nowhere.
#include "os/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "os/fd.h"

namespace pergpu::os {
namespace {

using Dir = std::unique_ptr<DIR, decltype([](DIR* dir) { ::closedir(dir); })>;

bool is_dots(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

Result<void> write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write " + path);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

/// Network file systems report a full disk or quota only here.
Result<void> close_written(UniqueFd fd, const std::string& path) {
  if (::close(fd.release()) < 0 && errno != EINTR) return os_error("write " + path);
  return {};
}

/// ".<name>.<pid>.<count>.tmp" beside `path`; the name is cut to fit NAME_MAX.
std::string temp_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  const std::size_t slash = path.rfind('/');
  const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(0, start) + "." + path.substr(start, 200) + "." + std::to_string(::getpid()) +
         "." + std::to_string(counter.fetch_add(1, std::memory_order_relaxed)) + ".tmp";
}

Result<void> make_one(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) < 0) return os_error("mkdir " + path);
  struct stat st {};
  if (::stat(path.c_str(), &st) < 0) return os_error("stat " + path);
  if ((st.st_mode & 0777) == (mode & 0777)) return {};
  // The umask took something away; what the parent handed down (set-group-id) stays.
  if (::chmod(path.c_str(), (st.st_mode & 07000) | (mode & 07777)) < 0) {
    return os_error("chmod " + path);
  }
  return {};
}

/// Empties the folder open at `fd` (taken over).
Result<void> empty_dir(UniqueFd fd, const std::string& path) {
  Dir dir(::fdopendir(fd.get()));
  if (!dir) return os_error("read folder " + path);
  const int dir_fd = fd.release();  // closedir closes it
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (!entry && errno != 0) return os_error("read folder " + path);
    if (!entry) return {};
    const char* name = entry->d_name;
    if (is_dots(name)) continue;
    if (entry->d_type != DT_DIR && ::unlinkat(dir_fd, name, 0) == 0) continue;
    if (entry->d_type != DT_DIR && errno == ENOENT) continue;
    if (entry->d_type != DT_DIR && errno != EISDIR) return os_error("remove " + path + "/" + name);

    const std::string sub_path = path + "/" + name;
    UniqueFd sub(::openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!sub && errno == ENOENT) continue;
    if (!sub) return os_error("open folder " + sub_path);
    Result<void> emptied = empty_dir(std::move(sub), sub_path);
    if (!emptied) return emptied;
    if (::unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
      return os_error("remove folder " + sub_path);
    }
  }
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os_error("open " + path);
  struct stat st {};
  if (::fstat(fd.get(), &st) < 0) return os_error("stat " + path);
  // The size is only a hint: files of /proc say 0, and a file may grow while it is read.
  std::string content(std::min(limit, static_cast<std::size_t>(st.st_size)) + 1, '\0');
  std::size_t used = 0;
  while (true) {
    if (used == content.size()) content.resize(content.size() + std::max<std::size_t>(used, 4096));
    const ssize_t n = ::read(fd.get(), content.data() + used, content.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("read " + path);
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > limit) {
      return Error{ErrorKind::Invalid, 0,
                   "read " + path + ": longer than the " + std::to_string(limit) +
                       " bytes that are expected at most"};
    }
  }
  content.resize(used);
  return content;
}

Result<std::string> read_tail(const std::string& path, std::size_t bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os_error("open " + path);
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  if (size < 0) return os_error("seek in " + path);
  std::string tail(std::min(bytes, static_cast<std::size_t>(size)), '\0');
  const ssize_t n =
      ::pread(fd.get(), tail.data(), tail.size(), size - static_cast<off_t>(tail.size()));
  if (n < 0) return os_error("read " + path);
  tail.resize(static_cast<std::size_t>(n));
  return tail;
}

Result<void> write_kernel_file(const std::string& path, std::string_view value) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return os_error("open " + path);
  if (::write(fd.get(), value.data(), value.size()) < 0) return os_error("write " + path);
  return {};
}

Result<void> write_file_atomic(const std::string& path, std::string_view content, mode_t mode,
                               bool durable) {
  // One may be left of a killed process that had our pid.
  std::string temp;
  UniqueFd fd;
  do {
    temp = temp_name(path);
    fd.reset(::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  } while (!fd && errno == EEXIST);
  if (!fd) return os_error("create " + temp);

  const auto write = [&]() -> Result<void> {
    Result<void> written = write_all(fd.get(), content, path);
    if (!written) return written;
    if (mode != 0600 && ::fchmod(fd.get(), mode) < 0) return os_error("chmod " + path);
    if (durable && ::fsync(fd.get()) < 0) return os_error("fsync " + path);
    if (Result<void> closed = close_written(std::move(fd), path); !closed) return closed;
    if (::rename(temp.c_str(), path.c_str()) < 0) return os_error("rename " + temp + " to " + path);
    return {};
  };
  Result<void> written = write();
  if (!written) {
    ::unlink(temp.c_str());
    return written;
  }
  return durable ? sync_dir(parent_of(path)) : Result<void>{};
}

Result<void> write_new_file(const std::string& path, std::string_view content, mode_t mode) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return os_error("create " + path);
  Result<void> written = write_all(fd.get(), content, path);
  if (written && mode != 0600 && ::fchmod(fd.get(), mode) < 0) written = os_error("chmod " + path);
  if (written) written = close_written(std::move(fd), path);
  if (!written) ::unlink(path.c_str());
  return written;
}

Result<void> make_dirs(const std::string& path, mode_t mode) {
  Result<void> made = make_one(path, mode);
  if (made) return {};
  if (made.error().os_errno == EEXIST) {
    if (is_directory(path)) return {};
    return Error{ErrorKind::Invalid, ENOTDIR, "mkdir " + path + ": a file of that name is there"};
  }
  const std::string parent = parent_of(path);
  if (made.error().os_errno != ENOENT || parent == path || parent == ".") return made;
  Result<void> above = make_dirs(parent, mode);
  if (!above) return above;
  made = make_one(path, mode);
  // Somebody else may have made it meanwhile.
  if (!made && made.error().os_errno == EEXIST && is_directory(path)) return {};
  return made;
}

Result<void> sync_dir(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("open folder " + path);
  if (::fsync(fd.get()) < 0) return os_error("fsync folder " + path);
  return {};
}

Result<FileIdentity> file_identity(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) < 0) return os_error("stat " + path);
  return FileIdentity{
      .device = st.st_dev,
      .inode = st.st_ino,
      .size = static_cast<std::uint64_t>(st.st_size),
      .mtime_ns = std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec};
}

bool exists(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0;
}

bool is_regular(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

bool is_directory(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

Result<std::vector<std::string>> list_dir(const std::string& path) {
  const Dir dir(::opendir(path.c_str()));
  if (!dir) return os_error("open folder " + path);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (!entry && errno != 0) return os_error("read folder " + path);
    if (!entry) break;
    if (!is_dots(entry->d_name)) names.emplace_back(entry->d_name);
  }
  std::ranges::sort(names);
  return names;
}

Result<void> remove_tree(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return os_error("remove " + path);
  UniqueFd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir) return os_error("open folder " + path);
  Result<void> emptied = empty_dir(std::move(dir), path);
  if (!emptied) return emptied;
  if (::rmdir(path.c_str()) < 0) return os_error("remove folder " + path);
  return {};
}

bool is_network_filesystem(std::uint64_t magic) {
  switch (magic & 0xffffffffu) {
    case 0x6969:      // NFS
    case 0x0BD00BD0:  // Lustre
    case 0x47504653:  // GPFS
    case 0xFF534D42:  // CIFS
    case 0xFE534D42:  // SMB2
    case 0x517B:      // SMB
    case 0x19830326:  // BeeGFS
    case 0x00C36400:  // Ceph
    case 0x5346414F:  // AFS
    case 0x01021997:  // 9p
      return true;
    default:  // FUSE among them: most of it is local, and what lies behind it cannot be seen
      return false;
  }
}

Result<bool> on_network_filesystem(const std::string& path) {
  std::string at = path;
  struct statfs fs {};
  while (::statfs(at.c_str(), &fs) < 0) {
    if (errno == EINTR) continue;
    const std::string parent = parent_of(at);
    if (errno != ENOENT || parent == at) return os_error("statfs " + at);
    at = parent;
  }
  return is_network_filesystem(static_cast<std::uint64_t>(fs.f_type));
}

std::string parent_of(const std::string& path) {
  std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const std::size_t slash = path.rfind('/', end);
  if (slash == std::string::npos) return ".";
  end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

}  // namespace pergpu::os
