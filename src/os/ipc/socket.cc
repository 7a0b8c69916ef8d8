// Unix sockets by path.  A socket file is made with its final mode: fchmod on the unbound socket
// sets the mode that bind(2) gives to the file, so there is no instant at which others can connect.
#include "os/ipc/socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "os/fs/file.h"
#include "os/ipc/accept.h"

namespace pergpu::os {
namespace {

/// sockaddr_un of a path of any length.  `folder` keeps /proc/self/fd/<n> alive: hold it until the
/// system call is done.
struct Address {
  sockaddr_un un = {};
  socklen_t size = 0;
  UniqueFd folder;
};

Result<Address> address_of(const std::string& path) {
  Address address;
  address.un.sun_family = AF_UNIX;
  std::string name = path;
  if (name.size() >= sizeof address.un.sun_path) {
    const std::string parent = parent_of(path);
    address.folder.reset(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.folder) return os_error("open folder " + parent);
    name = "/proc/self/fd/" + std::to_string(address.folder.get()) +
           path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  if (name.empty() || name.size() >= sizeof address.un.sun_path) {
    return Error{ErrorKind::Invalid, ENAMETOOLONG,
                 "socket " + path + ": its file name must have 1 to about 80 characters"};
  }
  name.copy(address.un.sun_path, name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  return address;
}

const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.un);
}

Result<UniqueFd> make_socket(int type) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd) return os_error("socket");
  return fd;
}

/// Removes the socket file at `path` unless a process answers on it.
Result<void> remove_dead_socket(const std::string& path, int type, const Address& address) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) < 0) return errno == ENOENT ? Result<void>{} : os_error(path);
  if (!S_ISSOCK(st.st_mode)) {
    return Error{
        ErrorKind::Invalid, EEXIST,
        "socket " + path + ": the file there isn't a socket; remove it or choose another folder"};
  }
  Result<UniqueFd> probe = make_socket(type | SOCK_NONBLOCK);
  if (!probe) return std::move(probe).error();
  if (::connect(probe->get(), generic(address), address.size) == 0 || errno == EAGAIN) {
    return Error{ErrorKind::Busy, EADDRINUSE, "socket " + path + ": another process listens on it"};
  }
  if (errno != ECONNREFUSED && errno != ENOENT) return os_error("connect " + path);
  if (::unlink(path.c_str()) < 0 && errno != ENOENT) return os_error("remove " + path);
  return {};
}

Result<UniqueFd> bind_at(const std::string& path, int type) {
  Result<Address> address = address_of(path);
  if (!address) return std::move(address).error();
  Result<UniqueFd> fd = make_socket(type | SOCK_NONBLOCK);
  if (!fd) return fd;
  if (::fchmod(fd->get(), 0600) < 0) return os_error("chmod socket " + path);
  // Twice at most: the second time a dead socket's file is out of the way.
  if (::bind(fd->get(), generic(*address), address->size) < 0) {
    if (errno != EADDRINUSE) return os_error("bind " + path);
    Result<void> removed = remove_dead_socket(path, type, *address);
    if (!removed) return std::move(removed).error();
    if (::bind(fd->get(), generic(*address), address->size) < 0) return os_error("bind " + path);
  }
  // Only matters under a umask that takes bits away from the user.
  if (::chmod(path.c_str(), 0600) < 0) return os_error("chmod " + path);
  return fd;
}

}  // namespace

Result<UniqueFd> listen_unix(const std::string& path, int backlog) {
  Result<UniqueFd> fd = bind_at(path, SOCK_STREAM);
  if (!fd) return fd;
  if (::listen(fd->get(), backlog) < 0) return os_error("listen " + path);
  reserve_descriptor();
  return fd;
}

Result<UniqueFd> connect_unix(const std::string& path, bool nonblocking) {
  Result<Address> address = address_of(path);
  if (!address) return std::move(address).error();
  Result<UniqueFd> fd = make_socket(nonblocking ? SOCK_STREAM | SOCK_NONBLOCK : SOCK_STREAM);
  if (!fd) return fd;
  while (::connect(fd->get(), generic(*address), address->size) < 0) {
    if (errno != EINTR) return os_error("connect " + path);
  }
  Result<PeerCredentials> peer = peer_of(fd->get());
  if (!peer) return std::move(peer).error();
  if (peer->uid != ::geteuid() && peer->uid != 0) {
    return Error{ErrorKind::Denied, 0,
                 "socket " + path + ": uid " + std::to_string(peer->uid) +
                     " listens there, not you; remove it or choose another folder"};
  }
  return fd;
}

Result<std::size_t> receive_own(int datagrams, void* buffer, std::size_t size) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control;
  while (true) {
    iovec part{buffer, size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(datagrams, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("receive a datagram");
    // The kernel puts the sender's credentials first: descriptors never fit behind them.
    const cmsghdr* head = CMSG_FIRSTHDR(&message);
    if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_CREDENTIALS ||
        head->cmsg_len != CMSG_LEN(sizeof(ucred)))
      continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(head), sizeof sender);
    if (sender.uid != ::geteuid() && sender.uid != 0) continue;
    return static_cast<std::size_t>(n);
  }
}

Result<UniqueFd> bind_datagram(const std::string& path) {
  Result<UniqueFd> fd = bind_at(path, SOCK_DGRAM);
  const int on = 1;
  if (fd && ::setsockopt(fd->get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
    return os_error("ask for the senders of " + path);
  return fd;
}

Result<PeerCredentials> peer_of(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
    return os_error("peer of descriptor " + std::to_string(fd));
  }
  return PeerCredentials{.pid = peer.pid, .uid = peer.uid, .gid = peer.gid};
}

Result<void> set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ((flags & O_NONBLOCK) == 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)) {
    return os_error("make descriptor " + std::to_string(fd) + " non-blocking");
  }
  return {};
}

}  // namespace pergpu::os
