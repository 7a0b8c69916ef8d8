// Whether a port is free is found out by binding to it.
#include "os/ipc/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "os/fd.h"

namespace pergpu::os {
namespace {

/// Each costs two system calls of a thread that others wait for.
constexpr int kMostTries = 500;

bool binds(int fd, const void* address, socklen_t size) {
  return ::bind(fd, static_cast<const sockaddr*>(address), size) == 0;
}

}  // namespace

bool is_free_port(int port) {
  // One socket for all addresses of both kinds is in the way of every other one, and the other way
  // round.
  if (const UniqueFd six{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)}) {
    const int only_six = 0;
    (void)::setsockopt(six.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_six, sizeof only_six);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (binds(six.get(), &any, sizeof any)) return true;
    if (errno == EADDRINUSE) return false;
  }
  const UniqueFd four{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  return four && binds(four.get(), &any, sizeof any);
}

int PortRange::next(const std::function<bool(int)>& may_use) {
  for (int i = 0; i < kMostTries; ++i) {
    const int port = kFirst + next_;
    next_ = (next_ + 1) % kCount;
    if (may_use(port)) return port;
  }
  return 0;
}

}  // namespace pergpu::os
