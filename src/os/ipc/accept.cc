// One descriptor in reserve: with none left, accept fails, the listener stays readable and the loop
// would spin.  Then this one is given up for a moment to turn the caller away.
#include "os/ipc/accept.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

namespace pergpu::os {
namespace {

UniqueFd& spare() {
  static UniqueFd fd;
  if (!fd) fd.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fd;
}

}  // namespace

void reserve_descriptor() { spare(); }

Result<UniqueFd> accept_from(int listener) {
  while (true) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) return fd;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    const Error why = os_error("accept");
    if (errno == EMFILE || errno == ENFILE) {
      spare().reset();
      const UniqueFd turned_away(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    }
    spare();
    return why;
  }
}

}  // namespace pergpu::os
