// The folder is watched, not the file: the log may not exist yet.
#include "cli/log_reader.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "os/clock.h"
#include "os/file.h"

namespace pergpu::cli {
namespace {

constexpr std::int64_t kLookNs = 1'000'000'000;
/// So that a job which writes faster than we print does not keep us from its end.
constexpr int kBlocksAtOnce = 64;

}  // namespace

Result<std::unique_ptr<LogReader>> LogReader::create(os::Loop& loop, Sink sink) {
  std::unique_ptr<LogReader> reader(new LogReader(loop, std::move(sink)));
  reader->inotify_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (reader->inotify_) {
    LogReader* self = reader.get();
    Result<void> watched = loop.watch(self->inotify_.get(), EPOLLIN, [self](std::uint32_t) {
      std::array<char, 4096> events;
      while (::read(self->inotify_.get(), events.data(), events.size()) > 0) {
      }
      self->open_and_drain();
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
    open_and_drain();
    arm();
  });
}

void LogReader::follow(const std::string& path, std::int64_t offset) {
  drain();
  file_.reset();
  path_ = path;
  offset_ = offset;
  if (inotify_) {
    ::inotify_add_watch(inotify_.get(), os::parent_of(path).c_str(), IN_MODIFY | IN_CREATE);
  }
  open_and_drain();
}

void LogReader::open_and_drain() {
  if (!file_ && !path_.empty()) {
    file_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  }
  std::array<char, 64 << 10> block;
  for (int blocks = 0; file_ && blocks < kBlocksAtOnce; ++blocks) {
    const ssize_t n = ::pread(file_.get(), block.data(), block.size(), offset_);
    if (n <= 0) return;
    offset_ += n;
    sink_(std::string_view(block.data(), static_cast<std::size_t>(n)));
  }
}

void LogReader::drain() {
  for (std::int64_t before = -1; before != offset_;) {
    before = offset_;
    open_and_drain();
  }
}

}  // namespace pergpu::cli
