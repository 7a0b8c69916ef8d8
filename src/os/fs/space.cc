// statvfs counts blocks of f_frsize bytes.
#include "os/fs/space.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>

namespace pergpu::os {
namespace {

std::uint64_t value_of(rlim_t value) {
  return value == RLIM_INFINITY ? kUnlimited : std::uint64_t{value};
}

Limit limit_of(int resource) {
  rlimit limit = {};
  if (::getrlimit(resource, &limit) < 0) return {};
  return {.soft = value_of(limit.rlim_cur), .hard = value_of(limit.rlim_max)};
}

}  // namespace

Result<Space> space_of(const std::string& path) {
  struct statvfs fs = {};
  while (::statvfs(path.c_str(), &fs) < 0) {
    if (errno != EINTR) return os_error("statvfs " + path);
  }
  return Space{.total_bytes = fs.f_blocks * fs.f_frsize,
               .free_bytes = fs.f_bavail * fs.f_frsize,
               .total_files = fs.f_files,
               .free_files = fs.f_favail};
}

ProcessLimits own_limits() {
  return {.open_files = limit_of(RLIMIT_NOFILE),
          .processes = limit_of(RLIMIT_NPROC),
          .address_space_bytes = limit_of(RLIMIT_AS),
          .file_bytes = limit_of(RLIMIT_FSIZE),
          .cpu_seconds = limit_of(RLIMIT_CPU)};
}

}  // namespace pergpu::os
