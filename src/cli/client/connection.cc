// Reads go through poll() so that each has a deadline; the socket itself stays blocking, so a large
// submit simply waits for the coordinator to take it.
#include "cli/client/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "api/shell.h"
#include "cli/term/exit_code.h"
#include "os/clock.h"
#include "os/ipc/socket.h"
#include "version.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

Error broken_connection(std::string why) {
  return Error{ErrorKind::Io, 0, "connection to the coordinator: " + std::move(why)};
}

}  // namespace

Result<Connection> Connection::open(const std::string& socket, std::chrono::milliseconds deadline) {
  Result<os::UniqueFd> fd = os::connect_unix(socket, false);
  if (!fd) {
    Error error = std::move(fd).error();
    if (error.kind == ErrorKind::Unavailable) error.kind = ErrorKind::NotFound;
    return error;
  }
  Connection connection(std::move(*fd));
  Result<void> greeted = connection.greet(deadline);
  if (!greeted) return std::move(greeted).error();
  return connection;
}

Result<void> Connection::greet(std::chrono::milliseconds deadline) {
  const json hello = {{"hello", kProtocol}, {"version", PERGPU_VERSION}};
  Result<void> sent = send(hello.dump() + "\n");
  if (!sent) return sent;
  Result<std::string> line = read_line(deadline);
  if (!line && line.error().kind == ErrorKind::Busy) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("the coordinator did not answer within {} s; run `pergpu coordinator "
                             "status`, or kill its process",
                             deadline.count() / 1000)};
  }
  if (!line) return std::move(line).error();
  Result<json> data = unwrap_reply(*line);
  if (!data) {
    return Error{ErrorKind::Denied, 0,
                 "the coordinator refused the connection: " + data.error().message};
  }
  peer_.version = data->value("version", std::string("unknown"));
  peer_.pid = data->value("pid", std::int64_t{0});
  peer_.home = data->value("home", std::string());
  if (const auto reach = data->find("reach"); reach != data->end()) peer_.reach = reach_of(*reach);
  peer_.replaceable = data->value("replaceable", false);
  peer_.clamps = data->value("clamps", false);
  const int protocol = data->value("protocol", 0);
  if (protocol == kProtocol) return {};
  return Error{ErrorKind::Denied, 0,
               fmt::format("the running coordinator (version {}, pid {}) uses protocol {}, but "
                           "this pergpu (version {}) uses {}; let it finish, or stop it with "
                           "`pergpu coordinator stop` of that version (jobs keep running)",
                           peer_.version, peer_.pid, protocol, PERGPU_VERSION, kProtocol)};
}

Result<void> Connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return broken_connection(std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> Connection::read_line(std::optional<std::chrono::milliseconds> wait) {
  os::RealClock clock;
  const std::int64_t end_ns = wait ? clock.now().boot_ns + wait->count() * 1'000'000 : 0;
  std::array<char, 64 << 10> buffer;
  for (;;) {
    const std::size_t newline = read_.find('\n', scanned_);
    if (newline != std::string::npos) {
      std::string line = read_.substr(0, newline);
      read_.erase(0, newline + 1);
      scanned_ = 0;
      return line;
    }
    scanned_ = read_.size();
    int timeout_ms = -1;
    if (wait) {
      const std::int64_t left_ms = (end_ns - clock.now().boot_ns + 999'999) / 1'000'000;
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, 1 << 30));
    }
    pollfd poll_fd{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&poll_fd, 1, timeout_ms);
    if (ready < 0 && errno != EINTR) return broken_connection(std::strerror(errno));
    if (ready == 0 && timeout_ms == 0)
      return Error{ErrorKind::Busy, 0, "the coordinator did not answer in time"};
    if (ready <= 0) continue;
    const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return broken_connection(std::strerror(errno));
    if (n == 0) return broken_connection("the coordinator closed it");
    read_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

Result<json> unwrap_reply(std::string_view line) {
  json reply = json::parse(line, nullptr, false);
  if (!reply.is_object() || !reply.contains("ok") || !reply["ok"].is_boolean()) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("can't parse the coordinator's answer: {:.200}", line)};
  }
  if (reply["ok"].get<bool>()) return reply.contains("data") ? reply["data"] : json(nullptr);
  const int code = reply.contains("code") && reply["code"].is_number_integer()
                       ? reply["code"].get<int>()
                       : static_cast<int>(kSomeFailed);
  const bool worded = reply.contains("error") && reply["error"].is_string();
  return Error{kind_of_exit_code(code), 0,
               worded ? reply["error"].get<std::string>() : "the coordinator gave no reason"};
}

}  // namespace pergpu::cli
