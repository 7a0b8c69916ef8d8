// One connection to a coordinator: hello, then lines (the protocol: api/snapshot.h).
// Blocking, with deadlines.  A connection that breaks is ErrorKind::Io: the caller may ask again.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "os/process/process_attributes.h"
#include "result.h"

namespace pergpu::cli {

inline constexpr int kProtocol = 1;

/// Who answered the greeting.
struct Peer {
  std::string version = {};
  std::int64_t pid = 0;
  std::string home = {};                          // "": an older version does not report it
  std::optional<os::Reach> reach = std::nullopt;  // what it can give to jobs; the same
  bool replaceable = false;
  bool clamps = false;  // jobs that have not ended get less than their shells had
};

class Connection {
 public:
  /// Connects and greets.  ErrorKind::NotFound: no process listens on `socket`; Unavailable: one
  /// does but gives no answer in `deadline`; Denied: it refuses us or speaks another protocol.
  static Result<Connection> open(const std::string& socket, std::chrono::milliseconds deadline);

  Result<void> send(std::string_view bytes);
  /// The next line without its '\n'; ErrorKind::Busy when `wait` has passed (nullopt: no limit).
  Result<std::string> read_line(std::optional<std::chrono::milliseconds> wait);

  const Peer& peer() const { return peer_; }
  /// Gives the socket away.  REQUIRES: every line that was asked for has been read.
  os::UniqueFd release() { return std::move(fd_); }

 private:
  explicit Connection(os::UniqueFd fd) : fd_(std::move(fd)) {}
  Result<void> greet(std::chrono::milliseconds deadline);

  os::UniqueFd fd_;
  std::string read_;  // not yet given out
  std::size_t scanned_ = 0;
  Peer peer_;
};

/// {"ok":true,"data":…} -> data; {"ok":false,"code":…,"error":…} -> an Error whose exit code that
/// is.
Result<nlohmann::json> unwrap_reply(std::string_view line);

}  // namespace pergpu::cli
