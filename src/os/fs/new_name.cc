// A draft is made and never opened a second time, so that another who may write to the folder
// cannot have us write to a file of his.
#include "os/fs/new_name.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "os/fd.h"
#include "os/fs/file.h"
#include "os/kernel.h"
#include "os/system_calls.h"

namespace pergpu::os {
namespace {

Result<void> copy_all(int from, int to, const std::string& path) {
  constexpr std::size_t kPiece = 1u << 20;
  while (true) {
    const ssize_t n = ::sendfile(to, from, nullptr, kPiece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write " + path);
    if (n == 0) return ::fsync(to) == 0 ? Result<void>() : os_error("fsync " + path);
  }
}

/// Without a flag: only an empty folder can be replaced, and by one that is empty, too.
bool rename_folder(const std::string& from, const std::string& to) {
  struct stat there = {};
  if (::lstat(to.c_str(), &there) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

std::string draft_of(const std::string& path) { return path + ".pergpu-draft"; }

bool rename_exclusively(const std::string& from, const std::string& to) {
  if (!kernel_has(KernelCall::RenameAt2)) {
    errno = ENOSYS;
    return false;
  }
  return call::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), call::kRenameNoReplace) == 0;
}

bool give_new_name(const std::string& from, const std::string& to) {
  if (rename_exclusively(from, to)) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // Some file systems lack the flag; a second name is given without replacing one everywhere.
  if (is_directory(from)) return rename_folder(from, to);
  if (::link(from.c_str(), to.c_str()) != 0) return false;
  ::unlink(from.c_str());
  return true;
}

Result<void> rename_to_new(const std::string& from, const std::string& to) {
  if (!give_new_name(from, to)) return os_error("rename " + from + " to " + to);
  return sync_dir(parent_of(to));
}

Result<void> move_to_new(const std::string& from, const std::string& to) {
  Result<void> renamed = rename_to_new(from, to);
  if (renamed || renamed.error().os_errno != EXDEV) return renamed;
  const UniqueFd in(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!in) return os_error("open " + from);
  const std::string draft = draft_of(to);
  ::unlink(draft.c_str());  // of one that was killed
  const UniqueFd out(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out) return os_error("create " + draft);
  Result<void> moved = copy_all(in.get(), out.get(), draft);
  if (moved) moved = rename_to_new(draft, to);
  ::unlink(moved ? from.c_str() : draft.c_str());
  return moved;
}

}  // namespace pergpu::os
