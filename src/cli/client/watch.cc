// Connecting blocks the loop for as long as a coordinator needs to start (well under a second);
// the pauses between the tries are timers, so signals are answered in them.
#include "cli/client/watch.h"

#include <utility>

#include "coordinator/stop_mark.h"
#include "os/clock.h"
#include "os/process/child.h"

namespace pergpu::cli {

using nlohmann::json;

namespace {

constexpr char kGoneWords[] = "the coordinator has ended; another one takes over";

}  // namespace

Watch::Watch(os::Loop& loop, Client& client, const json& request, Callbacks callbacks)
    : loop_(loop), client_(client), request_(to_line(request)), callbacks_(std::move(callbacks)) {}

Watch::~Watch() {
  if (retry_ != 0) loop_.cancel(retry_);
}

void Watch::start() {
  retry_ = 0;
  while (os::reap_any().child) {
  }  // coordinators that we started and that have ended
  const bool was_connected = client_.peer().pid != 0;
  Result<Connection> connection = client_.connect();
  if (!connection && connection.error().kind == ErrorKind::Io) {
    return try_again();
  }
  if (!connection && connection.error().kind == ErrorKind::NotFound && was_connected) {
    return await_command();
  }
  if (!connection) {
    over_ = true;
    return callbacks_.on_failed(connection.error());
  }
  auto stream = os::LineStream::open(loop_, connection->release(),
                                     {.on_line = [this](std::string_view line) { on_line(line); },
                                      .on_close = [this](const Error&) { on_close(); }},
                                     std::size_t{1} << 31);
  if (!stream) {
    over_ = true;
    return callbacks_.on_failed(stream.error());
  }
  stream_ = std::move(*stream);
  is_stopped_ = is_turned_away_ = false;
  stream_->send(request_);
}

void Watch::on_line(std::string_view line) {
  if (over_) return;
  json event = json::parse(line, nullptr, false);
  if (event.is_object() && event.contains("ok")) {
    const Result<json> reply = unwrap_reply(line);
    if (reply && !reply->contains("event")) return;
    if (!reply) {
      over_ = true;
      return callbacks_.on_failed(reply.error());
    }
    event = *reply;
  }
  if (event.is_object() && event.contains("event")) callbacks_.on_event(event);
}

void Watch::on_close() {
  stream_.reset();
  if (!over_) try_again();
}

void Watch::try_again() {
  if (!stop_mark(client_.place().home).empty()) return await_command();
  os::RealClock clock;
  const Instant now = clock.now();
  auto pause = backoff_.next(now.boot_ns);
  if (pause) {
    callbacks_.on_gap(kGoneWords);
  } else if (is_served(client_.place())) {
    pause = kTurnedAwayPause;
    if (!std::exchange(is_turned_away_, true)) callbacks_.on_gap(kTurnedAwayWords);
  } else {
    over_ = true;
    return callbacks_.on_failed(
        {ErrorKind::Unavailable, 0,
         "the coordinator has ended; gave up after 5 restarts in a minute; see " +
             client_.place().log()});
  }
  retry_ = loop_.at(now.boot_ns + pause->count() * 1'000'000, [this] { start(); });
}

/// It was stopped: only another command starts a new one, which is followed then.
void Watch::await_command() {
  constexpr std::int64_t kPauseNs = 500'000'000;
  if (!std::exchange(is_stopped_, true)) callbacks_.on_gap(kStoppedWords);
  retry_ = loop_.at(os::boot_now_ns() + kPauseNs, [this] { start(); });
}

}  // namespace pergpu::cli
