// The kernel draws it at each start.
#include "os/fs/boot_id.h"

#include "os/fs/file.h"

namespace pergpu::os {
namespace {

std::string read_boot_id() {
  Result<std::string> text = read_file("/proc/sys/kernel/random/boot_id", 256);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

}  // namespace

std::string boot_id() {
  static const std::string id = read_boot_id();
  return id.empty() ? read_boot_id() : id;
}

}  // namespace pergpu::os
