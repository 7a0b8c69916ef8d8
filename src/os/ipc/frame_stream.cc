// Which frame do received descriptors belong to?  The sender gives a frame with descriptors its own
// sendmsg, and the kernel ends a recvmsg after the bytes that descriptors came with. So they belong
// to the frame that holds the last byte of that read.
//
// Lifetime and errors: as in line_stream.cc.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include "os/ipc/socket.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kFrameReadBytes = 64u << 10;
constexpr std::size_t kHeader = 5;
constexpr std::size_t kMaxFds = 253;  // SCM_MAX_FD

/// Bytes still to be sent; `fds` ride with the first of them.
struct Chunk {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

std::array<char, kHeader> header_of(std::uint8_t type, std::size_t size) {
  return {static_cast<char>(size & 0xff), static_cast<char>((size >> 8) & 0xff),
          static_cast<char>((size >> 16) & 0xff), static_cast<char>((size >> 24) & 0xff),
          static_cast<char>(type)};
}

std::size_t size_in(const char* header) {
  std::size_t size = 0;
  for (std::size_t i = 4; i-- > 0;) size = (size << 8) | static_cast<unsigned char>(header[i]);
  return size;
}

/// sendmsg of `parts` with `fds`; bytes sent, or -1 with errno.
ssize_t send_parts(int socket, iovec* parts, std::size_t count, const std::vector<int>& fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  if (!fds.empty()) {
    const std::size_t bytes = fds.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(head), fds.data(), bytes);
  }
  ssize_t n = 0;
  do n = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n;
}

void take_fds(msghdr& message, std::vector<UniqueFd>& into) {
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
      into.emplace_back(fd);
    }
  }
}

/// Moves all of `from` to the end of `into`.
void hand_over(std::vector<UniqueFd>& from, std::vector<UniqueFd>& into) {
  for (UniqueFd& fd : from) into.push_back(std::move(fd));
  from.clear();
}

}  // namespace

struct FrameStream::Impl {
  struct State {
    State(Loop& on, UniqueFd socket, Callbacks call, std::size_t limit)
        : loop(on), fd(std::move(socket)), callbacks(std::move(call)), max_payload(limit) {}

    Loop& loop;
    UniqueFd fd;
    Callbacks callbacks;
    std::size_t max_payload;
    std::string partial;                // the begin of a frame whose end has not come yet
    std::vector<UniqueFd> partial_fds;  // its descriptors
    std::deque<Chunk> out;
    std::size_t out_bytes = 0;
    std::size_t sent = 0;  // of the first chunk
    bool wants_write = false;
    bool broken = false;
    bool closed = false;
    std::optional<Error> why;

    void detach() {
      if (closed) return;
      closed = true;
      loop.unwatch(fd.get());
      fd.reset();
    }

    void close(const Error& reason) {
      if (closed) return;
      detach();
      if (callbacks.on_close) callbacks.on_close(why ? *why : reason);
    }

    void set_interest(bool write) {
      wants_write = write;
      // Cannot fail for a watched descriptor.
      [[maybe_unused]] const Result<void> changed =
          loop.change(fd.get(), EPOLLIN | (write ? EPOLLOUT : 0u));
    }

    void drop_output() {
      out.clear();
      out_bytes = 0;
      sent = 0;
    }

    void break_off(int code) {
      broken = true;
      drop_output();
      if (code != EPIPE && code != ECONNRESET) why = os_error("send", code);
      ::shutdown(fd.get(), SHUT_RDWR);
    }

    void flush() {
      std::vector<int> fds;
      while (!out.empty()) {
        Chunk& first = out.front();
        fds.clear();
        for (const UniqueFd& one : first.fds) fds.push_back(one.get());
        iovec part{first.bytes.data() + sent, first.bytes.size() - sent};
        const ssize_t n = send_parts(fd.get(), &part, 1, fds);
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) return break_off(errno);
        first.fds.clear();
        sent += static_cast<std::size_t>(n);
        out_bytes -= static_cast<std::size_t>(n);
        if (sent == first.bytes.size()) {
          out.pop_front();
          sent = 0;
        }
      }
    }

    void send(std::uint8_t type, std::string_view payload, const std::vector<int>& fds) {
      assert(payload.size() <= UINT32_MAX && fds.size() <= kMaxFds);
      if (closed || broken) return;
      std::array<char, kHeader> header = header_of(type, payload.size());
      std::size_t done = 0;
      if (out.empty()) {
        std::array<iovec, 2> parts{iovec{header.data(), header.size()},
                                   iovec{const_cast<char*>(payload.data()), payload.size()}};
        const ssize_t n = send_parts(fd.get(), parts.data(), parts.size(), fds);
        if (n < 0 && errno != EAGAIN) return break_off(errno);
        done = n < 0 ? 0 : static_cast<std::size_t>(n);
        if (done == kHeader + payload.size()) return;
      }
      // Descriptors go with the first byte: once it is sent they are.
      const bool with_fds = done == 0 && !fds.empty();
      if (out.empty() || with_fds || !out.back().fds.empty()) out.emplace_back();
      Chunk& last = out.back();
      if (with_fds) {
        for (const int one : fds) {
          last.fds.emplace_back(::fcntl(one, F_DUPFD_CLOEXEC, 3));
          if (!last.fds.back()) return break_off(errno);
        }
      }
      if (done < kHeader) last.bytes.append(header.data() + done, kHeader - done);
      last.bytes.append(payload.substr(done < kHeader ? 0 : done - kHeader));
      out_bytes += kHeader + payload.size() - done;
      if (!wants_write) set_interest(true);
    }

    /// Calls on_frame for each whole frame of `bytes`; what is left goes to `partial`.
    void take(std::string_view bytes, std::vector<UniqueFd> fresh) {
      std::string joined;
      if (!partial.empty()) {
        partial.append(bytes);
        const std::size_t known = partial.size() < kHeader ? 0 : size_in(partial.data());
        if (known <= max_payload && partial.size() < kHeader + known) {
          return hand_over(fresh, partial_fds);  // a big frame, still growing
        }
        joined = std::move(partial);
        partial = {};
        bytes = joined;
      }
      while (bytes.size() >= kHeader) {
        const std::size_t size = size_in(bytes.data());
        if (size > max_payload) {
          return close({ErrorKind::Corrupt, 0,
                        "frame of " + std::to_string(size) + " bytes received, at most " +
                            std::to_string(max_payload) + " expected"});
        }
        if (bytes.size() < kHeader + size) break;
        Frame frame;
        frame.type = static_cast<std::uint8_t>(bytes[4]);
        frame.payload = bytes.substr(kHeader, size);
        frame.fds = std::move(partial_fds);
        partial_fds.clear();
        bytes.remove_prefix(kHeader + size);
        if (bytes.empty()) hand_over(fresh, frame.fds);
        callbacks.on_frame(std::move(frame));
        if (closed) return;
      }
      hand_over(fresh, partial_fds);
      partial.assign(bytes);
    }

    void on_ready(std::uint32_t events) {
      if (events & EPOLLOUT) {
        flush();
        if (out.empty() && wants_write) set_interest(false);
      }
      if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
      std::array<char, kFrameReadBytes> buffer;
      alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control;
      iovec part{buffer.data(), buffer.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t n = ::recvmsg(fd.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n < 0) return close(os_error("receive"));
      std::vector<UniqueFd> fds;
      take_fds(message, fds);
      if (n == 0) return close({ErrorKind::Unavailable, 0, "peer closed the connection"});
      if (fds.size() + partial_fds.size() > 2 * kMaxFds) {
        return close({ErrorKind::Corrupt, 0, "received more descriptors than a frame can have"});
      }
      if (message.msg_flags & MSG_CTRUNC) {
        return close({ErrorKind::Io, EMFILE,
                      "receive: descriptors were lost; raise the limit of open files (ulimit -n)"});
      }
      take({buffer.data(), static_cast<std::size_t>(n)}, std::move(fds));
    }
  };
  std::shared_ptr<State> state;
};

FrameStream::FrameStream() : impl_(std::make_unique<Impl>()) {}

FrameStream::~FrameStream() {
  if (impl_->state) impl_->state->detach();
}

Result<std::unique_ptr<FrameStream>> FrameStream::open(Loop& loop, UniqueFd fd, Callbacks callbacks,
                                                       std::size_t max_payload) {
  std::unique_ptr<FrameStream> stream(new FrameStream);
  auto state =
      std::make_shared<Impl::State>(loop, std::move(fd), std::move(callbacks), max_payload);
  Result<void> watched = set_nonblocking(state->fd.get());
  if (watched) {
    watched = loop.watch(state->fd.get(), EPOLLIN,
                         [state](std::uint32_t events) { state->on_ready(events); });
  }
  if (!watched) return std::move(watched).error();
  stream->impl_->state = std::move(state);
  return stream;
}

void FrameStream::send(std::uint8_t type, std::string_view payload, const std::vector<int>& fds) {
  impl_->state->send(type, payload, fds);
}
std::size_t FrameStream::pending() const { return impl_->state->out_bytes; }
}  // namespace pergpu::os
