// The folder is watched, not the file: the log may not exist yet, and another may take its name.
#include "cli/job_files/log_reader.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/written_file.h"

namespace pergpu::cli {
namespace {

constexpr std::int64_t kLookNs = 1'000'000'000;
/// So that a job which writes faster than we print does not keep us from its end.
constexpr int kBlocksAtOnce = 64;
/// Bytes by which a file is recognized as the one that was read so far.
constexpr std::size_t kRemembered = 64;
/// Files kept open, so that none is read twice when it comes back under another name.
constexpr std::size_t kMostFiles = 8;

std::string bytes_before(int fd, std::int64_t offset) {
  const auto wanted = std::min<std::int64_t>(kRemembered, offset);
  std::string bytes(static_cast<std::size_t>(wanted), '\0');
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), offset - wanted);
  bytes.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return bytes;
}

/// A signal that asks the program to end is pending.
bool is_asked_to_end() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return false;
  const auto has = [&](int signal) { return ::sigismember(&pending, signal) == 1; };
  return has(SIGINT) || has(SIGTERM) || has(SIGHUP);
}

}  // namespace

Result<std::unique_ptr<LogReader>> LogReader::create(os::Loop& loop, Sink sink,
                                                     OnRestart on_restart) {
  std::unique_ptr<LogReader> reader(new LogReader(loop, std::move(sink), std::move(on_restart)));
  reader->inotify_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (reader->inotify_) {
    LogReader* self = reader.get();
    Result<void> watched = loop.watch(self->inotify_.get(), EPOLLIN, [self](std::uint32_t) {
      std::array<char, 4096> events;
      while (::read(self->inotify_.get(), events.data(), events.size()) > 0) {
      }
      self->read_some();
    });
    if (!watched) return std::move(watched).error();
  }
  reader->arm();
  return reader;
}

LogReader::~LogReader() {
  if (tick_ != 0) loop_.cancel(tick_);
  if (inotify_) loop_.unwatch(inotify_.get());
}

void LogReader::arm() {
  os::RealClock clock;
  tick_ = loop_.at(clock.now().boot_ns + kLookNs, [this] {
    read_some();
    arm();
  });
}

void LogReader::follow(const std::string& path, std::int64_t offset) {
  drain();
  for (File& file : files_) file.is_followed = false;
  path_ = path;
  if (inotify_) {
    ::inotify_add_watch(inotify_.get(), os::parent_of(path).c_str(),
                        IN_MODIFY | IN_CREATE | IN_MOVED_TO);
  }
  open_newest(offset, false);
  read_some();
}

bool LogReader::open_newest(std::int64_t offset, bool is_restart) {
  if (path_.empty()) return false;
  // What isn't a log as a keeper writes it is as one that isn't there.
  Result<os::UniqueFd> opened = os::open_written(path_, os::Writer::Keeper);
  struct stat st {};
  if (!opened || ::fstat(opened->get(), &st) < 0) return false;
  for (File& file : files_) {
    if (file.device == st.st_dev && file.inode == st.st_ino)
      return !std::exchange(file.is_followed, true);
  }
  os::UniqueFd fd = *std::move(opened);
  if (is_restart && on_restart_) on_restart_(Restart::Replaced);
  // Shorter than it was when the offset was computed: it has been emptied since then.
  offset = offset > st.st_size ? 0 : offset;
  File file{.fd = std::move(fd), .device = st.st_dev, .inode = st.st_ino, .offset = offset};
  file.before = bytes_before(file.fd.get(), offset);
  files_.push_back(std::move(file));
  forget_old();
  return true;
}

void LogReader::forget_old() {
  if (files_.size() <= kMostFiles) return;
  const auto over = std::find_if(files_.begin(), files_.end(),
                                 [](const File& file) { return !file.is_followed; });
  files_.erase(over == files_.end() ? files_.begin() : over);
}

bool LogReader::read_some() {
  const auto read_followed = [this] {
    bool more = false;
    for (File& file : files_) {
      if (file.is_followed) more = read_some(file) || more;
    }
    return more;
  };
  const bool had_one =
      std::any_of(files_.begin(), files_.end(), [](const File& file) { return file.is_followed; });
  // What was written under the name so far comes before what is written under it now.
  const bool more = read_followed();
  return (open_newest(0, had_one) && read_followed()) || more;
}

void LogReader::skip_hole(File& file) {
  const std::int64_t data = os::next_data(file.fd.get(), file.offset);
  if (data == file.offset) return;
  file.offset = data;
  file.before = bytes_before(file.fd.get(), data);
}

bool LogReader::read_some(File& file) {
  std::array<char, 64 << 10> block;
  for (int blocks = 0; blocks < kBlocksAtOnce; ++blocks) {
    skip_hole(file);
    const ssize_t n = ::pread(file.fd.get(), block.data(), block.size(), file.offset);
    // Looked at after the read: what was read belongs to the file as it was seen so far.
    if (!file.before.empty() && bytes_before(file.fd.get(), file.offset) != file.before) {
      file.offset = 0;
      file.before.clear();
      if (on_restart_) on_restart_(Restart::Emptied);
      continue;
    }
    if (n <= 0) return false;
    const std::string_view bytes(block.data(), static_cast<std::size_t>(n));
    file.offset += n;
    file.before.append(bytes.substr(bytes.size() - std::min(bytes.size(), kRemembered)));
    if (file.before.size() > kRemembered) file.before.erase(0, file.before.size() - kRemembered);
    sink_(bytes);
  }
  return true;
}

void LogReader::drain() {
  while (read_some() && !is_asked_to_end()) {
  }
}

}  // namespace pergpu::cli
