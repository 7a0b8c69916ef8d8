// Nothing is read while a request is being answered: a client that sends many at once waits in its
// own process.  While an answer streams, reading goes on only to learn that the client has gone.
// While one is being made, a client that has closed its half of the connection has gone, too: what
// it asked for takes long, and browsers do not close one half only.
//
// A connection has kPatience for the next whole request, or for taking what is written; a stream
// has none while there is nothing to take.
//
// Closing a socket with unread bytes resets the connection, and the client may lose the answer that
// it hasn't read yet.  So the last answer is followed by an end of our half, and what the client
// still sends is read and thrown away until it closes, too, for kDraining at most.
#include "serve/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "os/clock.h"

namespace pergpu::serve {
namespace {

constexpr std::int64_t kPatience = 60'000'000'000;
constexpr std::int64_t kDraining = 5'000'000'000;
constexpr std::size_t kReadBytes = 16u << 10;

std::int64_t now_s() { return os::RealClock().now().wall_ns / 1'000'000'000; }

}  // namespace

Connection::~Connection() {
  is_closed_ = true;  // callbacks do nothing now
  if (deadline_ != 0) loop_.cancel(deadline_);
  if (fd_) loop_.unwatch(fd_.get());
  if (exchange_) {
    exchange_->connection_ = nullptr;
    // It may forget the exchange, and with it this function.
    const std::function<void()> on_gone = std::move(exchange_->on_gone);
    if (on_gone) on_gone();
  }
}

Result<void> Connection::start() {
  interest_ = EPOLLIN;
  Result<void> watched = loop_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t events) {
    const std::shared_ptr<Connection> alive = shared_from_this();
    on_ready(events);
  });
  if (watched) arm();
  return watched;
}

void Connection::arm() {
  if (deadline_ != 0) loop_.cancel(deadline_);
  deadline_ = 0;
  if (exchange_ && pending() == 0 && !is_draining_) return;  // it is we who are slow
  deadline_ = loop_.at(os::boot_now_ns() + (is_draining_ ? kDraining : kPatience), [this] {
    deadline_ = 0;
    const std::shared_ptr<Connection> alive = shared_from_this();
    close();
  });
}

void Connection::close() {
  if (std::exchange(is_closed_, true)) return;
  loop_.unwatch(fd_.get());
  fd_.reset();
  callbacks_.on_close(*this);
}

void Connection::on_ready(std::uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) return close();
  if ((events & EPOLLOUT) != 0) flush();
  if (!is_closed_ && (events & EPOLLIN) != 0) read();
}

void Connection::read() {
  std::array<char, kReadBytes> block;
  const ssize_t n = ::recv(fd_.get(), block.data(), block.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return close();
  if (is_streaming_ || is_draining_) return;  // nothing that a client may say then has a meaning
  parser_.add({block.data(), static_cast<std::size_t>(n)});
  take_request();
}

void Connection::take_request() {
  if (exchange_ || is_last_ || is_closed_) return;
  std::optional<HttpRequest> request = parser_.next();
  if (const auto& refusal = parser_.refusal()) {
    const HttpResponse response = error_response(refusal->status, refusal->words);
    is_last_ = true;
    out_ += head_of(response, static_cast<std::int64_t>(response.body.size()), false, now_s());
    out_ += response.body;
    return flush();
  }
  if (!request) return;
  exchange_ = std::make_shared<Exchange>(*std::move(request));
  exchange_->connection_ = this;
  set_interest();
  arm();
  callbacks_.on_request(exchange_);
}

void Connection::reply(const HttpResponse& response) {
  if (is_closed_ || !exchange_ || is_streaming_) return;
  const HttpRequest& request = exchange_->request();
  const bool keep = request.keep_alive;
  out_ += head_of(response, static_cast<std::int64_t>(response.body.size()), keep, now_s());
  if (request.method != "HEAD") out_ += response.body;
  exchange_->connection_ = nullptr;
  exchange_.reset();
  is_last_ = !keep;
  arm();
  // Not from here: the handler is in the middle of something.
  set_interest();
}

void Connection::begin_stream(std::string_view type) {
  if (is_closed_ || !exchange_ || is_streaming_) return;
  is_streaming_ = true;
  out_ += head_of({.type = std::string(type)}, -1, false, now_s());
  set_interest();
}

void Connection::write(std::string_view bytes) {
  if (is_closed_ || !is_streaming_) return;
  const bool was_idle = pending() == 0;
  out_ += bytes;
  if (was_idle) arm();
  set_interest();
}

void Connection::flush() {
  while (pending() > 0) {
    const ssize_t n = ::send(fd_.get(), out_.data() + sent_, pending(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return close();
    sent_ += static_cast<std::size_t>(n);
    arm();
  }
  if (pending() > 0) {
    if (sent_ > (1u << 20)) out_.erase(0, std::exchange(sent_, 0));
    return set_interest();
  }
  out_.clear();
  sent_ = 0;
  if (is_last_) return drain();
  arm();
  if (exchange_ && exchange_->on_drained) exchange_->on_drained();
  if (is_closed_) return;
  take_request();  // one that came along with the one before
  if (!is_closed_) set_interest();
}

/// The answer is out; the client learns so, and may take its time to stop sending.
void Connection::drain() {
  if (std::exchange(is_draining_, true)) return;
  if (::shutdown(fd_.get(), SHUT_WR) < 0) return close();
  arm();
  set_interest();
}

void Connection::set_interest() {
  if (is_closed_) return;
  const bool reads = is_draining_ || (!is_last_ && (!exchange_ || is_streaming_));
  const bool answers = exchange_ && !is_streaming_;
  const bool writes = !is_draining_ && (pending() > 0 || is_last_);
  const std::uint32_t wanted =
      (reads ? EPOLLIN : 0u) | (answers ? EPOLLRDHUP : 0u) | (writes ? EPOLLOUT : 0u);
  if (wanted == interest_) return;
  interest_ = wanted;
  // Cannot fail for a watched descriptor.
  [[maybe_unused]] const Result<void> changed = loop_.change(fd_.get(), wanted);
}

void Exchange::reply(const HttpResponse& response) {
  if (connection_ != nullptr) connection_->reply(response);
}
void Exchange::begin_stream(std::string_view type) {
  if (connection_ != nullptr) connection_->begin_stream(type);
}
void Exchange::write(std::string_view bytes) {
  if (connection_ != nullptr) connection_->write(bytes);
}
void Exchange::let_in() {
  if (connection_ != nullptr) connection_->let_in();
}
std::size_t Exchange::pending() const {
  return connection_ != nullptr ? connection_->pending() : 0;
}

}  // namespace pergpu::serve
