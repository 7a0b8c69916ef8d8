// Connecting blocks the loop for as long as a coordinator needs to start (well under a second);
// the pauses between the tries are timers, so signals are answered in them.
#include "cli/watch.h"

#include "os/child.h"
#include "os/clock.h"

namespace pergpu::cli {

using nlohmann::json;

Watch::Watch(os::Loop& loop, Client& client, const json& request, Callbacks callbacks)
    : loop_(loop), client_(client), request_(to_line(request)), callbacks_(std::move(callbacks)) {}

Watch::~Watch() {
  if (retry_ != 0) loop_.cancel(retry_);
}

void Watch::start() {
  retry_ = 0;
  while (os::reap_any().child) {
  }  // coordinators that we started and that have ended
  Result<Connection> connection = client_.connect();
  if (!connection && connection.error().kind == ErrorKind::Io) {
    return try_again(connection.error());
  }
  if (!connection) {
    over_ = true;
    return callbacks_.on_failed(connection.error());
  }
  auto stream = os::LineStream::open(loop_, connection->release(),
                                     {.on_line = [this](std::string_view line) { on_line(line); },
                                      .on_close = [this](const Error& why) { on_close(why); }},
                                     std::size_t{1} << 31);
  if (!stream) {
    over_ = true;
    return callbacks_.on_failed(stream.error());
  }
  stream_ = std::move(*stream);
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

void Watch::on_close(const Error& why) {
  stream_.reset();
  if (!over_) try_again(why);
}

void Watch::try_again(const Error& why) {
  callbacks_.on_gap(why.message);
  os::RealClock clock;
  const Instant now = clock.now();
  const auto pause = backoff_.next(now.boot_ns);
  if (!pause) {
    over_ = true;
    return callbacks_.on_failed(
        {ErrorKind::Unavailable, 0,
         "the coordinator is gone and five new ones in a minute did not help; see " +
             client_.place().log()});
  }
  retry_ = loop_.at(now.boot_ns + pause->count() * 1'000'000, [this] { start(); });
}

}  // namespace pergpu::cli
