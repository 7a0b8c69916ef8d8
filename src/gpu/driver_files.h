// What the kernel reports of NVIDIA's GPUs and driver without NVML: by files, which answer also
// where the library is missing, of another version, or hangs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace pergpu::gpu {

/// The version of the kernel module that is loaded ("550.54.15"); "" when there is none.  `root`:
/// where the machine's files lie, "" for this one.
std::string kernel_module_version(const std::string& root);
/// Of the text of /proc/driver/nvidia/version.
std::string kernel_module_version_in(std::string_view text);

/// NVIDIA's GPUs on the PCI bus, with or without a driver.
int gpus_on_bus(const std::string& root);

/// A critical error that the driver wrote into the kernel's log.
struct LoggedXid {
  std::string pci = {};  // "0000:65:00": without the function
  std::int64_t number = 0;
  bool operator==(const LoggedXid&) const = default;
};
/// Those since the machine was started, as far as the log reaches back, oldest first.
/// ErrorKind::Denied: this user may not read it.
Result<std::vector<LoggedXid>> logged_xids(const std::string& root);
/// Of the log's text.
std::vector<LoggedXid> xids_in(std::string_view log);

}  // namespace pergpu::gpu
