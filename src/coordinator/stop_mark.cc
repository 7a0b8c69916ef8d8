// The mark is not synced: after a power cut there is no keeper that could start a coordinator.
// A coordinator makes the file at its start, under another name, and a stop renames it: a home that
// has filled up takes no new file.
#include "coordinator/stop_mark.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "os/clock.h"
#include "os/fs/file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongestStopMark = 256;

std::string path_of(const std::string& home) { return home + "/coordinator-stopped"; }
std::string reserve_of(const std::string& home) { return path_of(home) + ".next"; }

Result<void> write_new_mark(const std::string& path) {
  const std::string text = fmt::format("{} {}\n", os::boot_now_ns(), ::getpid());
  return os::write_file_atomic(path, text, 0600, /*durable=*/false);
}

}  // namespace

std::string unmarked_words(const std::string& why) {
  return fmt::format(
      "can't record that the coordinator was stopped: {}; a command that watches or waits may "
      "start "
      "another one: fix that and run `pergpu coordinator stop` again",
      why);
}

std::string stop_mark(const std::string& home) {
  const Result<std::string> text = os::read_file(path_of(home), kLongestStopMark);
  return text ? *text : std::string();
}

Result<void> write_stop_mark(const std::string& home) {
  if (::rename(reserve_of(home).c_str(), path_of(home).c_str()) == 0) return {};
  Result<void> written = write_new_mark(path_of(home));
  if (!written && !stop_mark(home).empty()) return {};  // that of an earlier stop holds
  return written;
}

void remove_stop_mark(const std::string& home) { ::unlink(path_of(home).c_str()); }

void reserve_stop_mark(const std::string& home) { (void)write_new_mark(reserve_of(home)); }

StopGate::StopGate(std::string home, bool was_asked_for)
    : home_(std::move(home)), was_asked_for_(was_asked_for), before_(stop_mark(home_)) {}

bool StopGate::is_shut() const {
  const std::string now = stop_mark(home_);
  return !now.empty() && (!was_asked_for_ || now != before_);
}

}  // namespace pergpu
