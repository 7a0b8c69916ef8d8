// A connection that breaks before the reply came says nothing about whether the request was taken,
// so requests are sent again, and that is harmless.
#include "cli/client/client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/shell.h"
#include "cli/client/start.h"
#include "cli/term/messages.h"
#include "coordinator/stop_mark.h"
#include "json_text.h"
#include "os/clock.h"
#include "os/terminal.h"
#include "version.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kGreeting{10'000};
constexpr milliseconds kStart{15'000};
constexpr std::int64_t kRestoring = 2'000'000'000;
constexpr int kRestoringPauseMs = 20;

std::optional<std::array<int, 3>> parse_version(const std::string& text) {
  std::array<int, 3> parts{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [next, code] = std::from_chars(at, end, parts[i]);
    if (code != std::errc()) return std::nullopt;
    at = next;
    if (at == end) return parts;
    if (*at++ != '.') return std::nullopt;
  }
  return std::nullopt;
}

/// Older versions gave two homes one run folder, and do not report which is theirs.
bool is_of(const Place& place, const Peer& peer) {
  return peer.home.empty() || peer.home == place.home;
}

}  // namespace

std::optional<milliseconds> Backoff::next(std::int64_t now_ns) {
  while (!tries_.empty() && now_ns - tries_.front() >= kWindowNs) tries_.pop_front();
  if (tries_.size() >= kTries) return std::nullopt;
  const milliseconds pause = tries_.empty() ? milliseconds(0) : milliseconds(50 << tries_.size());
  tries_.push_back(now_ns);
  return pause;
}

bool is_older_version(const std::string& a, const std::string& b) {
  const auto left = parse_version(a);
  const auto right = parse_version(b);
  return left && right && *left < *right;
}

std::string to_line(const json& value) { return json_text(value); }

std::string output_line(const json& value) {
  const bool ascii = os::is_terminal(STDOUT_FILENO);
  return json_text(value, ascii) + "\n";
}

Result<Connection> Client::connect() {
  Result<Connection> connection = Connection::open(place_.socket(), kGreeting);
  if (!connection && connection.error().kind == ErrorKind::NotFound) {
    connection = connect_again();
  }
  const bool absent = !connection && connection.error().kind == ErrorKind::NotFound;
  if (absent && start_ == Start::Never) {
    return Error{ErrorKind::NotFound, 0, "no coordinator is running (home " + place_.home + ")"};
  }
  // A command that watches or waits starts no other one after a stop.
  const bool was_connected = peer_.pid != 0;
  if (absent && was_connected && !stop_mark(place_.home).empty()) {
    return Error{ErrorKind::NotFound, 0, kStoppedWords};
  }
  if (absent) connection = start_coordinator(place_, kStart);
  if (connection && !is_of(place_, connection->peer())) {
    return Error{ErrorKind::Denied, 0,
                 place_.socket() + " belongs to the coordinator of another home, " +
                     connection->peer().home + "; when that one has stopped, remove " +
                     place_.home + "/run-folder"};
  }
  if (connection && start_ == Start::IfNeeded && replace_if_idle_and_older(*connection)) {
    connection = start_coordinator(place_, kStart);
  }
  // Started by a shell that had less, maybe after a reboot: what was queued before deserves better.
  if (connection && start_ == Start::IfNeeded && connection->peer().clamps) {
    if (std::optional<Connection> fresh = replaced_by_stronger(*connection))
      connection = std::move(*fresh);
  }
  if (connection) peer_ = connection->peer();
  return connection;
}

/// Its sockets may have been removed: it makes them again, maybe elsewhere.  Where no coordinator
/// may be started, one that has the home's lock is given time for that.
Result<Connection> Client::connect_again() {
  const std::int64_t end_ns = os::boot_now_ns() + kRestoring;
  for (;;) {
    place_ = found_again(place_);
    Result<Connection> connection = Connection::open(place_.socket(), kGreeting);
    const bool absent = !connection && connection.error().kind == ErrorKind::NotFound;
    const bool waits = absent && start_ == Start::Never && os::boot_now_ns() < end_ns;
    if (!waits || !is_served(place_)) return connection;
    ::poll(nullptr, 0, kRestoringPauseMs);
  }
}

// True when the coordinator was asked to leave and has left.
bool Client::replace_if_idle_and_older(Connection& connection) {
  if (!is_older_version(connection.peer().version, PERGPU_VERSION)) return false;
  if (!connection.send(to_line({{"op", "status"}}) + "\n")) return false;
  const Result<std::string> line = connection.read_line(kGreeting);
  if (!line) return false;
  const Result<json> status = unwrap_reply(*line);
  if (!status || status->value("live", 1) != 0 || status->value("queued", 1) != 0) return false;
  if (status->value("cleaning", 0) != 0) return false;  // it keeps submits out of folders
  return ask_to_leave(connection);
}

bool Client::ask_to_leave(Connection& connection) {
  const json request = {{"op", "stop"}, {"kill", false}, {"replaced", true}};
  if (!connection.send(to_line(request) + "\n")) return false;
  // It has left when it closes the connection: the first read is the reply, the second the end.
  for (int reads = 0; reads < 2; ++reads) {
    const Result<std::string> left = connection.read_line(kGreeting);
    if (!left) return left.error().kind == ErrorKind::Unavailable;
  }
  return false;
}

/// By one from this shell that can give jobs all that it could, and more; nullopt: it stays.
std::optional<Connection> Client::replaced_by_stronger(Connection& connection) {
  const Peer& peer = connection.peer();
  if (!peer.reach || !peer.replaceable || inside_a_job_of(place_)) return std::nullopt;
  const os::Reach own = os::own_reach();
  if (!os::covers(own, *peer.reach) || os::covers(*peer.reach, own)) return std::nullopt;
  Result<Connection> fresh = succeed_coordinator(
      place_, kStart, {.predecessor = static_cast<pid_t>(peer.pid), .ask_to_leave = [&] {
                         (void)ask_to_leave(connection);
                       }});
  if (!fresh) return std::nullopt;
  return std::move(*fresh);
}

std::string Client::replace_weaker(const SubmitContext& context) {
  if (!context.shell || context.engine != "local") return {};
  if (!connection_) {
    Result<Connection> connection = connect();
    if (!connection) return {};  // the submit says why
    connection_ = std::move(*connection);
  }
  if (!connection_->peer().reach) return {};
  const std::vector<std::string> lacks = clamps(*context.shell, *connection_->peer().reach);
  if (lacks.empty()) return {};
  const auto before = connection_->peer().pid;
  if (std::optional<Connection> fresh = replaced_by_stronger(*connection_)) {
    connection_ = std::move(*fresh);
  } else {  // it may have left all the same, and the next connection be that to a successor
    connection_.reset();
    Result<Connection> next = connect();
    if (!next) return {};
    connection_ = std::move(*next);
    if (connection_->peer().pid == before) return {};
  }
  peer_ = connection_->peer();
  return fmt::format("{}", fmt::join(lacks, ", "));
}

Result<std::string> Client::exchange(const std::string& bytes, std::optional<milliseconds> wait) {
  if (!connection_) {
    Result<Connection> connection = connect();
    if (!connection) return std::move(connection).error();
    connection_ = std::move(*connection);
  }
  // A coordinator that refuses a request in the middle of it answers and closes: its answer lies
  // ready although the rest could not be sent.
  Result<void> sent = connection_->send(bytes);
  Result<std::string> line = connection_->read_line(sent ? wait : milliseconds(0));
  if (!line || !sent) connection_.reset();
  if (!line && !sent) return std::move(sent).error();
  return line;
}

Result<json> Client::call_unbroken(const json& request) {
  if (!connection_) return Error{ErrorKind::Unavailable, 0, "the coordinator has stopped"};
  const Result<std::string> line = exchange(to_line(request) + "\n", std::nullopt);
  if (line) return unwrap_reply(*line);
  return Error{ErrorKind::Unavailable, line.error().os_errno,
               "the coordinator has stopped: " + line.error().message};
}

std::optional<milliseconds> Client::pause_before(const json& request, const Error& failed) {
  const std::optional<milliseconds> pause = backoff_.next(os::boot_now_ns());
  const bool lives = failed.os_errno == ENFILE || is_served(place_);
  if (pause || !lives || request.value("op", "") != "wait") return pause;
  if (!std::exchange(said_turned_away_, true)) say(std::string("pergpu: ") + kTurnedAwayWords);
  return kTurnedAwayPause;
}

Result<json> Client::call(const json& request, const std::vector<std::string>& more_lines,
                          std::optional<milliseconds> wait) {
  std::string bytes = to_line(request) + "\n";
  for (const std::string& line : more_lines) bytes.append(line).append("\n");
  os::RealClock clock;
  const std::int64_t begin_ns = clock.now().boot_ns;
  for (;;) {
    std::optional<milliseconds> left = wait;
    if (wait) *left -= milliseconds((clock.now().boot_ns - begin_ns) / 1'000'000);
    Result<std::string> line = exchange(bytes, left);
    if (line) {
      Result<json> reply = unwrap_reply(*line);
      // A refused submit may leave lines behind that the coordinator did not read as its runs.
      if (!reply && !more_lines.empty()) connection_.reset();
      return reply;
    }
    Error error = std::move(line).error();
    if (error.kind == ErrorKind::NotFound && peer_.pid != 0) error.kind = ErrorKind::Unavailable;
    if (error.kind != ErrorKind::Io) return error;
    std::optional<milliseconds> pause = pause_before(request, error);
    if (!pause) {
      return Error{ErrorKind::Unavailable, error.os_errno,
                   error.message + "; gave up after 5 reconnects in a minute; see " + place_.log()};
    }
    if (wait) {
      *left = *wait - milliseconds((clock.now().boot_ns - begin_ns) / 1'000'000);
      if (*left <= milliseconds(0))
        return Error{ErrorKind::Busy, 0, "the coordinator did not answer in time"};
      pause = std::min(*pause, *left);
    }
    ::poll(nullptr, 0, static_cast<int>(pause->count()));
  }
}

}  // namespace pergpu::cli
