// A port that a dead process of this user left in TIME_WAIT can be had again at once
// (SO_REUSEADDR); one with a listener cannot.
#include "os/ipc/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "os/ipc/accept.h"

namespace pergpu::os {
namespace {

// sockaddr_in is a sockaddr by the rules of the socket calls.
sockaddr* generic(sockaddr_in* address) { return reinterpret_cast<sockaddr*>(address); }

}  // namespace

Result<UniqueFd> listen_loopback(std::uint16_t port, int backlog) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return os_error("socket");
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return os_error("setsockopt SO_REUSEADDR");
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string name = "127.0.0.1:" + std::to_string(port);
  if (::bind(fd.get(), generic(&address), sizeof address) != 0) return os_error("bind " + name);
  if (::listen(fd.get(), backlog) != 0) return os_error("listen " + name);
  reserve_descriptor();
  return fd;
}

Result<std::uint16_t> port_of(int listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(listener, generic(&address), &size) != 0) return os_error("getsockname");
  return static_cast<std::uint16_t>(ntohs(address.sin_port));
}

Result<UniqueFd> accept_tcp(int listener) {
  Result<UniqueFd> fd = accept_from(listener);
  if (!fd) return fd;
  // What an answer consists of is written in one piece: there is nothing to wait for.
  const int on = 1;
  [[maybe_unused]] const int set =
      ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace pergpu::os
