// The client's side of the protocol: finds the coordinator, starts one when none runs, asks, and
// asks again when the connection breaks.  Every request may be sent twice: a submit carries a key,
// all others say what should be, not what should change.  (A copy of the store is asked for once a
// name: cli/care/store.cc.  What `clean` forgets it asks for once, over the connection that
// protects it: cli/care/clean.cc.)
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/snapshot.h"
#include "cli/client/connection.h"
#include "cli/client/place.h"
#include "result.h"

namespace pergpu::cli {

/// At most five tries in any minute, with growing pauses: a coordinator that dies at once must not
/// be started in a circle.
class Backoff {
 public:
  /// How long to wait before the next try; nullopt: the tries of this minute are used up.
  std::optional<std::chrono::milliseconds> next(std::int64_t now_ns);

 private:
  static constexpr std::size_t kTries = 5;
  static constexpr std::int64_t kWindowNs = 60'000'000'000;
  std::deque<std::int64_t> tries_;
};

/// For the first line of an answer: a coordinator may be starting.
inline constexpr std::chrono::milliseconds kFirstAnswer{30'000};

/// Between tries of a command without a deadline, while a coordinator accepts no connections: it
/// may have no file descriptors left.
inline constexpr std::chrono::milliseconds kTurnedAwayPause{1'000};
inline constexpr char kTurnedAwayWords[] =
    "the coordinator runs but accepts no connections (it may have run out of file descriptors); "
    "waiting";

class Client {
 public:
  enum class Start { IfNeeded, Never };

  Client(Place place, Start start) : place_(std::move(place)), start_(start) {}

  /// A greeted connection; starts a coordinator, or replaces an idle one of an older version, where
  /// that is allowed.  ErrorKind::NotFound: none runs and none may be started.
  Result<Connection> connect();

  /// One request (and the lines that follow it), one reply.
  Result<nlohmann::json> call(const nlohmann::json& request,
                              const std::vector<std::string>& more_lines = {},
                              std::optional<std::chrono::milliseconds> wait = std::nullopt);

  /// The same over the connection of the last call.  ErrorKind::Unavailable: that has broken, and
  /// whether the request was taken is not known.
  Result<nlohmann::json> call_unbroken(const nlohmann::json& request);

  /// Before a submit: where the running coordinator can't give its jobs what this shell has, and
  /// one that is started from here can, that takes its place (running jobs go on).  What it lacked,
  /// "" where it stays.
  std::string replace_weaker(const SubmitContext& context);

  const Place& place() const { return place_; }
  /// Of the connection that was opened last.
  const Peer& peer() const { return peer_; }

 private:
  Result<std::string> exchange(const std::string& bytes,
                               std::optional<std::chrono::milliseconds> wait);
  Result<Connection> connect_again();
  /// How long to wait before `request` is tried again; nullopt: no more.
  std::optional<std::chrono::milliseconds> pause_before(const nlohmann::json& request,
                                                        const Error& failed);
  bool replace_if_idle_and_older(Connection& connection);
  bool ask_to_leave(Connection& connection);
  std::optional<Connection> replaced_by_stronger(Connection& connection);

  Place place_;
  Start start_;
  Peer peer_;
  std::optional<Connection> connection_;
  Backoff backoff_;
  bool said_turned_away_ = false;
};

/// Is version `a` ("0.1.0") older than `b`?  False when either is not made of numbers and dots.
bool is_older_version(const std::string& a, const std::string& b);

/// UTF-8 errors replaced: texts for people must not make a request fail.
std::string to_line(const nlohmann::json& value);
/// The same and '\n', for stdout: on a terminal plain ASCII, because some obey control characters
/// beyond it.
std::string output_line(const nlohmann::json& value);

}  // namespace pergpu::cli
