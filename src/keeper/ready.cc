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

constexpr std::size_t kMostBytesRead = 1u << 20;  // of the file, in a look
constexpr int kMostEventReads = 16;               // of 4096 bytes each, in a look

/// Nothing else is opened: a device may be one that acts when it is.
os::UniqueFd open_regular(const std::string& path, struct stat& st) {
  if (::stat(path.c_str(), &st) < 0 || !S_ISREG(st.st_mode)) return {};
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd || ::fstat(fd.get(), &st) < 0 || !S_ISREG(st.st_mode)) return {};
  return fd;
}

}  // namespace

/// Whether a line ends in what was not read before.  A part of it in one look: the file may be as
/// long as a disk, or be written to faster than it is read.
bool ReadyWatch::has_line() {
  struct stat st = {};
  const os::UniqueFd fd = open_regular(path_, st);
  if (!fd) return false;
  if (st.st_size < read_to_) read_to_ = 0;  // it was truncated: all of it is new
  char buffer[4096];
  for (std::size_t read = 0; read < kMostBytesRead;) {
    const ssize_t n = ::pread(fd.get(), buffer, sizeof buffer, read_to_);
    if (n <= 0) return false;
    if (std::memchr(buffer, '\n', static_cast<std::size_t>(n)) != nullptr) return true;
    read_to_ += n;
    read += static_cast<std::size_t>(n);
  }
  return false;
}

void ReadyWatch::begin(const std::string& path) {
  fd_.reset();
  if (path.empty()) return;
  path_ = path;
  watches_file_ = false;
  struct stat st = {};
  read_to_ = ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
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
  for (int reads = 0; reads < kMostEventReads; ++reads) {  // what is left is reported again
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
  if (!has_line()) return false;
  end();
  return true;
}

}  // namespace pergpu::keeper
