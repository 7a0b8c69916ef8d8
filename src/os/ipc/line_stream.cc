// The loop's callback shares ownership of State, so that a stream may be destroyed by its own
// callback: State then lives until the dispatch returns, with `closed` set.
//
// A failed send is not reported where it happens (the sender may be in the middle of something):
// the output is dropped and the socket shut down; the loop sees the end and calls on_close.
//
// A peer that sends many lines at once gets kTurnShareNs of a turn; the rest of what was read waits
// for the next one, and nothing more is read until then, so that it holds up no other peer.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "os/clock.h"
#include "os/ipc/socket.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLineReadBytes = 64u << 10;
constexpr std::int64_t kTurnShareNs = 5'000'000;

}  // namespace

struct LineStream::Impl {
  struct State {
    State(Loop& on, UniqueFd socket, Callbacks call, std::size_t limit)
        : loop(on), fd(std::move(socket)), callbacks(std::move(call)), max_line(limit) {}

    Loop& loop;
    UniqueFd fd;
    Callbacks callbacks;
    std::size_t max_line;
    std::weak_ptr<State> self;
    std::string partial;  // the begin of a line whose end has not come yet
    std::string unread;   // received, put off to the next turn
    Loop::TimerId next_turn = 0;
    std::string out;
    std::size_t sent = 0;  // of `out`
    std::uint32_t interest = EPOLLIN;
    bool taking = false;  // lines are being given
    bool paused = false;
    bool peer_has_left = false;
    bool closing = false;  // close_when_flushed
    bool broken = false;   // nothing can be sent any more
    bool closed = false;
    std::optional<Error> why;

    std::size_t pending() const { return out.size() - sent; }

    void detach() {
      if (closed) return;
      closed = true;
      if (next_turn != 0) loop.cancel(next_turn);
      loop.unwatch(fd.get());
      fd.reset();
    }

    void close(const Error& reason) {
      if (closed) return;
      detach();
      if (callbacks.on_close) callbacks.on_close(why ? *why : reason);
    }

    void set_interest() {
      const bool write = pending() > 0 || closing;
      const bool read = !closing && next_turn == 0 && !paused;
      // That the peer has left is reported whatever is asked for, and should not be again and again
      // while nothing is read: once, until this is changed.
      const std::uint32_t events =
          read || write ? (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u) : EPOLLONESHOT;
      if (events == interest) return;
      interest = events;
      // Cannot fail for a watched descriptor.
      [[maybe_unused]] const Result<void> changed = loop.change(fd.get(), events);
    }

    void pause(bool wanted) {
      paused = wanted;
      if (!closed && !taking) go_on();
    }

    /// After each change of what keeps it from reading.
    void go_on() {
      if (!paused && !unread.empty() && next_turn == 0) {
        put_off(std::exchange(unread, {}));
      } else {
        set_interest();
      }
    }

    void break_off(int code) {
      broken = true;
      out.clear();
      sent = 0;
      if (code != EPIPE && code != ECONNRESET) why = os_error("send", code);
      ::shutdown(fd.get(), SHUT_RDWR);
    }

    void flush() {
      while (pending() > 0) {
        const ssize_t n = ::send(fd.get(), out.data() + sent, pending(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) return break_off(errno);
        sent += static_cast<std::size_t>(n);
      }
      out.clear();
      sent = 0;
    }

    void send(std::string_view line) {
      if (closed || broken || closing) return;
      std::size_t done = 0;
      if (pending() == 0) {
        char end = '\n';
        std::array<iovec, 2> parts{iovec{const_cast<char*>(line.data()), line.size()},
                                   iovec{&end, 1}};
        msghdr message{};
        message.msg_iov = parts.data();
        message.msg_iovlen = parts.size();
        ssize_t n = 0;
        do n = ::sendmsg(fd.get(), &message, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0 && errno != EAGAIN) return break_off(errno);
        done = n < 0 ? 0 : static_cast<std::size_t>(n);
        if (done == line.size() + 1) return;
      } else if (sent > (1u << 20) && sent > out.size() / 2) {
        out.erase(0, sent);  // a peer that never quite catches up must not grow the buffer
        sent = 0;
      }
      if (done < line.size()) out.append(line.substr(done));
      out.push_back('\n');
      set_interest();
    }

    void take(std::string_view bytes) {
      taking = true;
      give_lines(bytes);
      taking = false;
      if (!closed) set_interest();
    }

    /// Calls on_line for each whole line of `bytes`; what is left goes to `partial`, or to `unread`
    /// when the turn's share is used up or it was paused.
    void give_lines(std::string_view bytes) {
      const std::int64_t until = boot_now_ns() + kTurnShareNs;
      while (!closed && !closing) {
        if (paused) {
          unread.assign(bytes);
          return;
        }
        const std::size_t end = bytes.find('\n');
        const std::size_t length = partial.size() + (end == bytes.npos ? bytes.size() : end);
        if (length > max_line) {
          return close({ErrorKind::Invalid, 0,
                        "line longer than " + std::to_string(max_line) + " bytes received"});
        }
        if (end == bytes.npos) {
          partial.append(bytes);
          return;
        }
        if (partial.empty()) {
          callbacks.on_line(bytes.substr(0, end));
        } else {
          const std::string line = std::move(partial.append(bytes.substr(0, end)));
          partial = {};
          callbacks.on_line(line);
        }
        bytes.remove_prefix(end + 1);
        if (!bytes.empty() && !paused && boot_now_ns() >= until) {
          return put_off(std::string(bytes));
        }
      }
    }

    void put_off(std::string bytes) {
      if (closed || closing) return;
      unread = std::move(bytes);
      next_turn = loop.at(0, [this] {
        next_turn = 0;
        const std::shared_ptr<State> alive = self.lock();
        take(std::exchange(unread, {}));
      });
      set_interest();
    }

    void on_ready(std::uint32_t events) {
      if (events & EPOLLOUT) {
        flush();
        if (pending() == 0 && closing) {
          return close({ErrorKind::Unavailable, 0, "closed on this side"});
        }
        set_interest();
      }
      if (closing && (events & (EPOLLHUP | EPOLLERR))) {
        return close({ErrorKind::Unavailable, 0, "peer closed the connection"});
      }
      if (events & (EPOLLHUP | EPOLLERR)) peer_has_left = true;
      const bool may_read = !closing && next_turn == 0 && !paused;
      if (!may_read || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
      std::array<char, kLineReadBytes> buffer;
      const ssize_t n = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n < 0) return close(os_error("receive"));
      if (n == 0) return close({ErrorKind::Unavailable, 0, "peer closed the connection"});
      take({buffer.data(), static_cast<std::size_t>(n)});
    }
  };
  std::shared_ptr<State> state;
};

LineStream::LineStream() : impl_(std::make_unique<Impl>()) {}

LineStream::~LineStream() {
  if (impl_->state) impl_->state->detach();
}

Result<std::unique_ptr<LineStream>> LineStream::open(Loop& loop, UniqueFd fd, Callbacks callbacks,
                                                     std::size_t max_line) {
  std::unique_ptr<LineStream> stream(new LineStream);
  auto state = std::make_shared<Impl::State>(loop, std::move(fd), std::move(callbacks), max_line);
  state->self = state;
  Result<void> watched = set_nonblocking(state->fd.get());
  if (watched) {
    watched = loop.watch(state->fd.get(), EPOLLIN,
                         [state](std::uint32_t events) { state->on_ready(events); });
  }
  if (!watched) return std::move(watched).error();
  stream->impl_->state = std::move(state);
  return stream;
}

void LineStream::pause(bool paused) { impl_->state->pause(paused); }
void LineStream::send(std::string_view line) { impl_->state->send(line); }
bool LineStream::peer_has_left() const { return impl_->state->peer_has_left; }
std::size_t LineStream::pending() const { return impl_->state->pending(); }
int LineStream::fd() const { return impl_->state->fd.get(); }

void LineStream::close_when_flushed() {
  Impl::State& state = *impl_->state;
  if (state.closed || state.closing) return;
  // A socket that takes bytes is reported as writable: the loop does the rest, so that on_close
  // never runs inside this call.
  state.closing = true;
  state.set_interest();
}

}  // namespace pergpu::os
