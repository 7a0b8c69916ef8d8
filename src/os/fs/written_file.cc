// On some file systems (NFS for root, SMB, FUSE) what a user makes belongs to another user: then
// the folder, which a keeper made, too, has the same owner.
#include "os/fs/written_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "os/fs/file.h"

namespace pergpu::os {
namespace {

Error refused(const std::string& path, const std::string& why) {
  return {ErrorKind::Denied, 0, "can't read " + path + ": " + why};
}

bool may_have_written(const HeldFolder& folder, const struct stat& file) {
  if (file.st_uid == ::geteuid() || file.st_uid == 0) return true;
  struct stat own = {};
  return ::fstat(folder.fd(), &own) == 0 && own.st_uid == file.st_uid;
}

/// Some file systems give all files to one user, or one mode: a new file shows it.
bool is_ours_alone(const HeldFolder& folder, const struct stat& file) {
  constexpr mode_t kWritableByOthers = 022;
  const mode_t others = file.st_mode & kWritableByOthers;
  const bool is_ours = file.st_uid == ::geteuid() || file.st_uid == 0;
  if (is_ours && others == 0) return true;
  const std::optional<struct stat> made = new_file_in(folder.fd());
  return made && (is_ours || made->st_uid == file.st_uid) && (others & ~made->st_mode) == 0;
}

Result<HeldName> walk_to_result(const std::string& path, int levels) {
  Result<HeldFolder> folder = open_levels(parent_of(path), levels);
  if (!folder) return std::move(folder).error();
  return HeldName{.folder = *std::move(folder), .name = name_of(path)};
}

}  // namespace

Result<UniqueFd> open_written(const HeldFolder& folder, const std::string& name, Writer writer) {
  const std::string path = folder.path_of(name);
  UniqueFd fd(::openat(folder.fd(), name.c_str(),
                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd && errno == ELOOP)
    return refused(path, "it's a link, not the file that was written there; remove the link");
  if (!fd) return os_error("open " + path);
  struct stat st = {};
  if (::fstat(fd.get(), &st) < 0) return os_error("stat " + path);
  if (S_ISDIR(st.st_mode)) return os_error("open " + path, EISDIR);
  if (!S_ISREG(st.st_mode)) return refused(path, "it isn't a regular file; remove it");
  if (st.st_nlink > 1) {
    return refused(
        path,
        "it has a second name (a hard link), so it may be another file; replace it with a copy");
  }
  if (writer == Writer::Keeper && !may_have_written(folder, st)) {
    return refused(path, "it belongs to uid " + std::to_string(st.st_uid) +
                             ", so it wasn't written by your job");
  }
  if (writer == Writer::User && !is_ours_alone(folder, st)) {
    return refused(path, "another user may have written it (it belongs to uid " +
                             std::to_string(st.st_uid) +
                             (st.st_mode & 022 ? ", and others can write to it)" : ")"));
  }
  return fd;
}

Result<UniqueFd> open_written(const std::string& path, Writer writer, int levels) {
  const Result<HeldName> file = walk_to_result(path, levels);
  if (!file) return file.error();
  return open_written(file->folder, file->name, writer);
}

std::int64_t next_data(int fd, std::int64_t offset) {
  const off_t data = ::lseek(fd, offset, SEEK_DATA);
  if (data >= 0) return data;
  struct stat st = {};
  const bool is_hole = errno == ENXIO && ::fstat(fd, &st) == 0;
  return is_hole ? std::max<std::int64_t>(offset, st.st_size) : offset;
}

Result<std::string> read_written(const HeldFolder& folder, const std::string& name, Writer writer,
                                 std::size_t limit) {
  const Result<UniqueFd> fd = open_written(folder, name, writer);
  if (!fd) return fd.error();
  return read_open_file(fd->get(), folder.path_of(name), limit);
}

Result<std::string> read_written(const std::string& path, Writer writer, std::size_t limit) {
  const Result<HeldName> file = walk_to_result(path, kResultLevels);
  if (!file) return file.error();
  return read_written(file->folder, file->name, writer, limit);
}

Result<std::string> read_written_tail(const std::string& path, Writer writer, std::size_t bytes) {
  const Result<UniqueFd> fd = open_written(path, writer);
  if (!fd) return fd.error();
  return read_open_tail(fd->get(), path, bytes);
}

}  // namespace pergpu::os
