// The request goes over its own connection: the watching one carries a stream.
#include "cli/follow/interrupts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plural.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr int kHold = 1;
constexpr int kStop = 2;
constexpr int kKill = 3;

}  // namespace

Result<std::string> Interrupts::next() {
  if (level_ == kKill) return Error{ErrorKind::Busy, 0, "exiting; SIGKILL was sent"};
  const int level = level_ == 0 && single_ ? kStop : level_ + 1;
  const Result<json> reply =
      client_.call({{"op", "interrupt"}, {"sweep_id", sweep_id_}, {"level", level}}, {}, wait_);
  if (!reply && reply.error().kind == ErrorKind::Busy) {
    return Error{ErrorKind::Unavailable, 0,
                 fmt::format("the coordinator has not confirmed it within {} s (a full or stalled "
                             "disk?); press Ctrl-C to try again",
                             wait_.count() / 1000)};
  }
  if (!reply) return reply.error();
  level_ = level;
  const std::int64_t running = reply->value("running", std::int64_t{0});
  const std::int64_t held = reply->value("held", std::int64_t{0});
  if (level == kHold) {
    return fmt::format("{} held; waiting for {} running. Ctrl-C again: stop them. q: detach",
                       counted(held, "job"), running);
  }
  if (level == kStop) {
    return fmt::format(
        "stopping {} (SIGTERM, then SIGKILL after the grace), {} held. Ctrl-C "
        "again: SIGKILL now",
        counted(running, "job"), held);
  }
  return fmt::format("killing {} (SIGKILL), {} held. Ctrl-C again: exit at once",
                     counted(running, "job"), held);
}

}  // namespace pergpu::cli
