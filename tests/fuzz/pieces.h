// Bytes that arrive at one end of a socket pair in pieces, one a turn of the loop.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "fuzz.h"
#include "os/loop.h"

namespace pergpu::fuzz {

class Pieces {
 public:
  /// Pieces of this size, larger ones when there would be very many.
  Pieces(std::string_view bytes, std::size_t piece)
      : rest_(bytes), piece_(std::max(piece, bytes.size() / 32)) {
    Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
    check(static_cast<bool>(loop), "a loop");
    loop_ = *std::move(loop);
    std::array<int, 2> ends;
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "a socket pair");
    sender_.reset(ends[0]);
    receiver_.reset(ends[1]);
  }

  os::Loop& loop() { return *loop_; }
  os::UniqueFd receiver() { return std::move(receiver_); }

  /// Sends everything, then closes.  Until somebody stops the loop.
  void deliver() {
    loop_->on_turn([this] { send_one(); });
    check(static_cast<bool>(loop_->run()), "a loop that runs");
  }

 private:
  void send_one() {
    const std::string_view now = rest_.substr(0, piece_);
    rest_.remove_prefix(now.size());
    if (now.empty() || ::send(sender_.get(), now.data(), now.size(), MSG_NOSIGNAL) < 0)
      sender_.reset();
  }

  std::string_view rest_;
  std::size_t piece_;
  std::unique_ptr<os::Loop> loop_;
  os::UniqueFd sender_;
  os::UniqueFd receiver_;
};

}  // namespace pergpu::fuzz
