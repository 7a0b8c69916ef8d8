// The mark is not synced: after a power cut there is no keeper that could start a coordinator.
#include "coordinator/stop_mark.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "os/clock.h"
#include "os/file.h"

namespace pergpu {
namespace {

constexpr std::size_t kLongest = 256;

std::string path_of(const std::string& home) { return home + "/coordinator-stopped"; }

}  // namespace

std::string stop_mark(const std::string& home) {
  const Result<std::string> text = os::read_file(path_of(home), kLongest);
  return text ? *text : std::string();
}

Result<void> write_stop_mark(const std::string& home) {
  const std::string text = fmt::format("{} {}\n", os::boot_now_ns(), ::getpid());
  return os::write_file_atomic(path_of(home), text, 0600, /*durable=*/false);
}

void remove_stop_mark(const std::string& home) { ::unlink(path_of(home).c_str()); }

StopGate::StopGate(std::string home, bool was_asked_for)
    : home_(std::move(home)), was_asked_for_(was_asked_for), before_(stop_mark(home_)) {}

bool StopGate::is_shut() const {
  const std::string now = stop_mark(home_);
  return !now.empty() && (!was_asked_for_ || now != before_);
}

}  // namespace pergpu
