// Plain system calls; folders are walked by descriptor (openat, O_NOFOLLOW), so that a name swapped
// for a symlink in between leads nowhere.
#include "os/fs/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "os/fd.h"
#include "os/fs/dir_stream.h"
#include "os/fs/folder_walk.h"

namespace pergpu::os {
namespace {

bool is_dots(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/// Empties the folder open at `fd` (taken over).
Result<void> empty_dir(UniqueFd fd, const std::string& path) {
  DirStream dir(::fdopendir(fd.get()));
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

Result<std::string> read_open_file(int fd, const std::string& path, std::size_t limit) {
  struct stat st {};
  if (::fstat(fd, &st) < 0) return os_error("stat " + path);
  // The size is only a hint: files of /proc say 0, and a file may grow while it is read.
  std::string content(std::min(limit, static_cast<std::size_t>(st.st_size)) + 1, '\0');
  std::size_t used = 0;
  while (true) {
    if (used == content.size()) content.resize(content.size() + std::max<std::size_t>(used, 4096));
    const ssize_t n = ::read(fd, content.data() + used, content.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("read " + path);
    if (n == 0) break;
    used += static_cast<std::size_t>(n);
    if (used > limit) {
      return Error{
          ErrorKind::Invalid, 0,
          "read " + path + ": longer than the limit of " + std::to_string(limit) + " bytes"};
    }
  }
  content.resize(used);
  return content;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os_error("open " + path);
  return read_open_file(fd.get(), path, limit);
}

Result<std::string> read_open_tail(int fd, const std::string& path, std::size_t bytes) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) return os_error("seek in " + path);
  std::string tail(std::min(bytes, static_cast<std::size_t>(size)), '\0');
  const ssize_t n = ::pread(fd, tail.data(), tail.size(), size - static_cast<off_t>(tail.size()));
  if (n < 0) return os_error("read " + path);
  tail.resize(static_cast<std::size_t>(n));
  return tail;
}

Result<std::string> read_tail(const std::string& path, std::size_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os_error("open " + path);
  return read_open_tail(fd.get(), path, bytes);
}

Result<void> write_kernel_file(const std::string& path, std::string_view value) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return os_error("open " + path);
  if (::write(fd.get(), value.data(), value.size()) < 0) return os_error("write " + path);
  return {};
}

Result<void> write_file_atomic(const std::string& path, std::string_view content, mode_t mode,
                               bool durable) {
  const Result<HeldFolder> folder = HeldFolder::open(parent_of(path), Links::Anyones);
  if (!folder) return os_error("create " + path, folder.error().os_errno);
  return folder->write_file_atomic(name_of(path), content, mode, durable);
}

Result<void> make_dirs(const std::string& path, mode_t mode) {
  const Result<HeldFolder> made = HeldFolder::make(path, mode, Links::Anyones);
  return made ? Result<void>() : made.error();
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

Result<std::vector<std::string>> list_open_dir(UniqueFd fd, const std::string& path) {
  const DirStream dir(::fdopendir(fd.get()));
  if (!dir) return os_error("open folder " + path);
  fd.release();  // closedir closes it
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

Result<std::vector<std::string>> list_dir(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error("open folder " + path);
  return list_open_dir(std::move(fd), path);
}

Result<void> remove_tree_in(int folder, const std::string& name, const std::string& path) {
  if (::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return os_error("remove " + path);
  UniqueFd dir(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir) return os_error("open folder " + path);
  Result<void> emptied = empty_dir(std::move(dir), path);
  if (!emptied) return emptied;
  if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) < 0) return os_error("remove folder " + path);
  return {};
}

Result<void> remove_tree(const std::string& path) { return remove_tree_in(AT_FDCWD, path, path); }

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

mode_t current_umask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

std::string name_of(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return {};
  const std::size_t slash = path.rfind('/', end);
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
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
