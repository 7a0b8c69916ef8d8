// A file that does not exist yet is waited for in its folder (creations only: the log in the same
// folder is written to all the time), then watched itself.
#include "keeper/ready.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace pergpu::keeper {
namespace {

/// Whether a line ends at or after `offset`.
bool has_line_after(const std::string& path, off_t offset) {
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return false;
  struct stat st = {};
  if (::fstat(fd.get(), &st) < 0) return false;
  if (st.st_size < offset) offset = 0;  // it was truncated: all of it is new
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::pread(fd.get(), buffer, sizeof buffer, offset);
    if (n <= 0) return false;
    if (std::memchr(buffer, '\n', static_cast<std::size_t>(n)) != nullptr) return true;
    offset += n;
  }
}

}  // namespace

void ReadyWatch::begin(const std::string& path) {
  fd_.reset();
  if (path.empty()) return;
  path_ = path;
  watches_file_ = false;
  struct stat st = {};
  size_at_start_ = ::stat(path.c_str(), &st) == 0 ? st.st_size : 0;
  fd_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd_) return;
  const std::string folder = path.substr(0, path.rfind('/'));
  if (::inotify_add_watch(fd_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO) < 0) return end();
  watch_file();
}

void ReadyWatch::watch_file() {
  if (watches_file_) return;
  watches_file_ = ::inotify_add_watch(fd_.get(), path_.c_str(), IN_MODIFY | IN_CLOSE_WRITE) >= 0;
}

bool ReadyWatch::is_ready() {
  alignas(inotify_event) char buffer[4096];
  bool appeared = false;
  for (;;) {
    const ssize_t n = ::read(fd_.get(), buffer, sizeof buffer);
    if (n <= 0) break;
    const std::string_view name = std::string_view(path_).substr(path_.rfind('/') + 1);
    for (ssize_t at = 0; at < n;) {
      inotify_event event;
      std::memcpy(&event, buffer + at, sizeof event);
      if (event.len > 0 && name == buffer + at + sizeof event) appeared = true;
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
  if (appeared) watches_file_ = false;
  if (!appeared && !watches_file_) return false;  // another file of the folder
  watch_file();  // before the look, so that nothing is missed in between
  if (!has_line_after(path_, size_at_start_)) return false;
  end();
  return true;
}

}  // namespace pergpu::keeper
