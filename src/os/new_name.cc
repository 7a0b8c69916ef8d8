// A draft is made and never opened a second time, so that another who may write to the folder
// cannot have us write to a file of his.
#include "os/new_name.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cstdio>

#include "os/fd.h"
#include "os/file.h"

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

}  // namespace

std::string draft_of(const std::string& path) { return path + ".pergpu-draft"; }

Result<void> rename_to_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) return os_error("rename " + from + " to " + to);
    // Some file systems lack the flag; a second name is given without replacing one everywhere.
    if (::link(from.c_str(), to.c_str()) != 0) return os_error("link " + from + " to " + to);
    ::unlink(from.c_str());
  }
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
