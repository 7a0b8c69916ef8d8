// Unix sockets: listening, connecting, peer credentials, descriptors in messages, and two kinds of
// buffered non-blocking connection on a Loop: lines of text (clients) and frames (keepers).
// Paths longer than sun_path are reached through /proc/self/fd/<dir>/<name>.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu::os {

/// Stream socket bound to `path` (mode 0600) and listening; an existing socket file is replaced
/// only when no process answers on it, else ErrorKind::Busy.  Non-blocking, close-on-exec.
/// REQUIRES: two processes that may want the same path exclude each other by a lock.
Result<UniqueFd> listen_unix(const std::string& path, int backlog = 128);
/// Blocking or non-blocking stream connection.  ErrorKind::NotFound/Unavailable: no listener;
/// Denied: another user than this one or root listens there.
Result<UniqueFd> connect_unix(const std::string& path, bool nonblocking);
/// Datagram socket bound to `path` (mode 0600), to be read by receive_own().
Result<UniqueFd> bind_datagram(const std::string& path);
/// The next datagram that this user or root sent (os_errno EAGAIN: none waits); those of others and
/// descriptors that come along are dropped.  What is longer than `size` is cut.
Result<std::size_t> receive_own(int datagrams, void* buffer, std::size_t size);

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
Result<PeerCredentials> peer_of(int fd);

Result<void> set_nonblocking(int fd);

/// A non-blocking stream on a Loop that reads whole lines ('\n', not included) and queues writes.
/// Owned by the caller, who keeps the loop alive longer.  Callbacks run from the loop only, never
/// inside open(), send() or close_when_flushed(); the stream may be destroyed in any of them.
class LineStream {
 public:
  struct Callbacks {
    std::function<void(std::string_view line)> on_line;
    /// Peer closed, error, a line longer than the limit, or close_when_flushed() is done.  Called
    /// once; the descriptor is closed by then.
    std::function<void(const Error& why)> on_close;
  };
  static Result<std::unique_ptr<LineStream>> open(Loop& loop, UniqueFd fd, Callbacks callbacks,
                                                  std::size_t max_line = 64u << 20);
  ~LineStream();
  /// Queues `line` and '\n'; writes at once as much as the socket takes.
  void send(std::string_view line);
  /// Bytes queued and not yet taken by the kernel.
  std::size_t pending() const;
  /// Until it is resumed no line is given and nothing is read: what the peer sends waits, here and
  /// in its own process, even when it has closed its connection.
  void pause(bool paused);
  /// It has closed its connection: nothing sent arrives any more.
  bool peer_has_left() const;
  /// Reads no more, closes once everything queued is written, then calls on_close.
  void close_when_flushed();
  int fd() const;

 private:
  LineStream();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Frames: u32 little-endian payload length, u8 type, payload; descriptors ride with the first byte
/// of their frame (SCM_RIGHTS), at most 253 of them.  Ownership and callbacks as LineStream.
class FrameStream {
 public:
  struct Frame {
    std::uint8_t type = 0;
    std::string payload;
    std::vector<UniqueFd> fds;
  };
  struct Callbacks {
    std::function<void(Frame frame)> on_frame;
    std::function<void(const Error& why)> on_close;
  };
  static Result<std::unique_ptr<FrameStream>> open(Loop& loop, UniqueFd fd, Callbacks callbacks,
                                                   std::size_t max_payload = 8u << 20);
  ~FrameStream();
  /// `fds` are borrowed for the call (duplicated when they cannot be sent at once).
  void send(std::uint8_t type, std::string_view payload, const std::vector<int>& fds = {});
  std::size_t pending() const;

 private:
  FrameStream();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu::os
