// close(2) once and never again: on Linux the descriptor is gone even when close reports EINTR or
// EIO, so a retry could close another one.
#include "os/fd.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace pergpu::os {

void UniqueFd::reset(int fd) {
  const int old = std::exchange(fd_, fd);
  if (old < 0 || old == fd) return;
  const int saved = errno;
  ::close(old);
  errno = saved;
}

void raise_descriptor_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t descriptor_limit() {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 256 : limit.rlim_cur;
}

}  // namespace pergpu::os
