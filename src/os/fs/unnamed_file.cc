// O_TMPFILE never has a name.  A file system without it gets one for a moment: O_EXCL and mode 0600
// keep others out.
#include "os/fs/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <string>

#include "os/kernel.h"
#include "os/system_calls.h"

namespace pergpu::os {
namespace {

constexpr std::array kMemoryFolders = {"/dev/shm", "/tmp", "/var/tmp"};

UniqueFd make_in(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  std::string path = folder + "/pergpu-XXXXXX";
  fd.reset(::mkostemp(path.data(), O_CLOEXEC));
  if (fd) ::unlink(path.c_str());
  return fd;
}

}  // namespace

Result<UniqueFd> make_unnamed_file() {
  UniqueFd fd;
  if (kernel_has(KernelCall::MemfdCreate)) {
    fd.reset(call::memfd_create("pergpu", call::kMemfdCloexec));
    if (!fd) return os_error("memfd_create");
    return fd;
  }
  for (const char* folder : kMemoryFolders) {
    fd = make_in(folder);
    if (fd) return fd;
  }
  return os_error("make a temporary file in /dev/shm, /tmp or /var/tmp");
}

}  // namespace pergpu::os
