// /dev/kmsg gives one record a read; without O_NONBLOCK the read after the last one would wait for
// the next.
#include "gpu/driver_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "ascii.h"
#include "gpu/nvml.h"
#include "os/fd.h"
#include "os/fs/file.h"

namespace pergpu::gpu {
namespace {

constexpr std::size_t kSmallFile = 64u << 10;
constexpr std::size_t kLongestLog = 32u << 20;
constexpr std::size_t kLongestRecord = 16u << 10;  // the kernel's are at most half of that

/// "550.54.15"
bool is_version(std::string_view word) {
  return !word.empty() && is_digit(word.front()) && word.find('.') != std::string_view::npos &&
         std::ranges::all_of(word, [](char c) { return is_digit(c) || c == '.'; });
}

std::string small_file(const std::string& path) {
  Result<std::string> text = os::read_file(path, kSmallFile);
  return text ? *std::move(text) : std::string();
}

Result<std::string> read_log(const std::string& path) {
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return os_error("open " + path);
  std::string log;
  std::array<char, kLongestRecord> record;
  while (log.size() < kLongestLog) {
    const ssize_t size = ::read(fd.get(), record.data(), record.size());
    if (size < 0 && (errno == EINTR || errno == EPIPE)) continue;  // EPIPE: records were dropped
    if (size < 0 && errno != EAGAIN) return os_error("read " + path);
    if (size <= 0) break;
    log.append(record.data(), static_cast<std::size_t>(size));
  }
  return log;
}

}  // namespace

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 …"; of the open module
// "… NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  …".
std::string kernel_module_version_in(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (is_version(text.substr(0, end))) return std::string(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

std::string kernel_module_version(const std::string& root) {
  std::string version = kernel_module_version_in(small_file(root + "/proc/driver/nvidia/version"));
  if (version.empty())
    version = kernel_module_version_in(small_file(root + "/sys/module/nvidia/version"));
  return version;
}

int gpus_on_bus(const std::string& root) {
  const std::string folder = root + "/sys/bus/pci/devices";
  const Result<std::vector<std::string>> names = os::list_dir(folder);
  if (!names) return 0;
  return static_cast<int>(std::ranges::count_if(*names, [&](const std::string& name) {
    if (!small_file(folder + "/" + name + "/vendor").starts_with("0x10de")) return false;
    const std::string kind = small_file(folder + "/" + name + "/class");
    return kind.starts_with("0x0300") || kind.starts_with("0x0302");  // VGA, 3D
  }));
}

// "NVRM: Xid (PCI:0000:65:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
std::vector<LoggedXid> xids_in(std::string_view log) {
  constexpr std::string_view kMark = "NVRM: Xid (";
  std::vector<LoggedXid> xids;
  for (std::size_t at = log.find(kMark); at != std::string_view::npos; at = log.find(kMark)) {
    log.remove_prefix(at + kMark.size());
    std::string_view rest = log.substr(0, log.find('\n'));
    if (rest.starts_with("PCI:")) rest.remove_prefix(4);
    const std::size_t close = rest.find("): ");
    if (close == std::string_view::npos) continue;
    LoggedXid xid{.pci = sysfs_pci_address(rest.substr(0, close))};
    const std::string_view tail = rest.substr(close + 3);
    if (std::from_chars(tail.data(), tail.data() + tail.size(), xid.number).ec != std::errc{}) {
      continue;
    }
    if (const std::size_t dot = xid.pci.find('.'); dot != std::string::npos) xid.pci.resize(dot);
    xids.push_back(std::move(xid));
  }
  return xids;
}

Result<std::vector<LoggedXid>> logged_xids(const std::string& root) {
  const Result<std::string> log = read_log(root + "/dev/kmsg");
  if (!log) return log.error();
  return xids_in(*log);
}

}  // namespace pergpu::gpu
