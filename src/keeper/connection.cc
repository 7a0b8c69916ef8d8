// Descriptors are kept in a separate queue: START says how many belong to it, and the kernel
// delivers them no later than the frame's first byte.
#include "keeper/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pergpu::keeper {
namespace {

constexpr std::size_t kReadBytes = 32 * 1024;
constexpr std::size_t kMostFds = 4 * kMostLeases;
constexpr std::size_t kKeptBytes = 256 * 1024;  // buffers larger than this are given back

}  // namespace

bool Connection::read() {
  in_.erase(0, taken_);
  taken_ = 0;
  if (in_.empty() && in_.capacity() > kKeptBytes) in_ = {};
  char buffer[kReadBytes];
  alignas(cmsghdr) char control[CMSG_SPACE(kMostLeases * sizeof(int))];
  for (;;) {
    iovec part = {.iov_base = buffer, .iov_len = sizeof buffer};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        fds_.emplace_back(fd);
      }
    }
    // More than any START wants: a peer that fills our table of descriptors is no coordinator.
    if (n == 0 || fds_.size() > kMostFds) return false;
    in_.append(buffer, static_cast<std::size_t>(n));
    if (static_cast<std::size_t>(n) < sizeof buffer && message.msg_controllen == 0) return true;
    if (in_.size() > kLongestPayload + kFrameHeaderBytes) return true;  // frames first, then more
  }
}

std::optional<Connection::Frame> Connection::next() {
  const std::string_view rest = std::string_view(in_).substr(taken_);
  if (rest.size() < kFrameHeaderBytes) return std::nullopt;
  std::uint32_t size = 0;
  std::uint8_t type = 0;
  Decoder(rest.substr(0, kFrameHeaderBytes))(size, type);
  if (size > kLongestPayload) {
    ::shutdown(fd_.get(), SHUT_RDWR);  // the next read() is the end
    in_.clear();
    taken_ = 0;
    return std::nullopt;
  }
  if (rest.size() < kFrameHeaderBytes + size) return std::nullopt;
  taken_ += kFrameHeaderBytes + size;
  return Frame{.type = type, .payload = rest.substr(kFrameHeaderBytes, size)};
}

std::vector<os::UniqueFd> Connection::take_fds(std::size_t count) {
  const auto end = fds_.begin() + static_cast<std::ptrdiff_t>(std::min(count, fds_.size()));
  std::vector<os::UniqueFd> out(std::make_move_iterator(fds_.begin()),
                                std::make_move_iterator(end));
  fds_.erase(fds_.begin(), end);
  return out;
}

void Connection::write(std::string frame, const std::vector<int>& fds) {
  if (!out_.empty()) {
    out_ += frame;
    return flush();
  }
  iovec part = {.iov_base = frame.data(), .iov_len = frame.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostLeases * sizeof(int))] = {};
  if (!fds.empty() && fds.size() <= kMostLeases) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t n = 0;
  do n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  if (n < 0 && errno != EAGAIN) return;  // read() will see the end
  out_ = frame.substr(n < 0 ? 0 : static_cast<std::size_t>(n));
}

void Connection::flush() {
  while (!out_.empty()) {
    const ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return out_.clear();
    out_.erase(0, static_cast<std::size_t>(n));
  }
}

}  // namespace pergpu::keeper
