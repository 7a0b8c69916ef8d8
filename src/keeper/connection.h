// The keeper's end of one connection: whole frames in, queued frames out.  Never blocks; a broken
// peer is reported by read(), never by a signal or an error of send().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keeper/protocol.h"
#include "os/fd.h"

namespace pergpu::keeper {

class Connection {
 public:
  struct Frame {
    std::uint8_t type = 0;
    std::string_view payload = {};  // valid until the next read()
  };

  /// `fd` is non-blocking.
  explicit Connection(os::UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  /// Takes what the socket has.  False at its end, after an error, a frame that is too long or more
  /// descriptors than a frame can want;
  /// frames that arrived before are still to be taken.
  bool read();
  /// The next whole frame.
  std::optional<Frame> next();
  /// The first `count` of the descriptors that came along; fewer when the peer sent fewer.
  std::vector<os::UniqueFd> take_fds(std::size_t count);

  template <typename Message>
  void send(const Message& message) {
    write(frame_of(message), {});
  }
  /// REQUIRES: !wants_write(); descriptors cannot be queued.
  template <typename Message>
  void send_with(const Message& message, const std::vector<int>& fds) {
    write(frame_of(message), fds);
  }
  bool wants_write() const { return !out_.empty(); }
  std::size_t pending() const { return out_.size(); }
  void flush();

 private:
  void write(std::string frame, const std::vector<int>& fds);

  os::UniqueFd fd_;
  std::string in_;
  std::size_t taken_ = 0;  // of in_
  std::vector<os::UniqueFd> fds_;
  std::string out_;
};

}  // namespace pergpu::keeper
