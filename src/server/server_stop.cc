// `pergpu coordinator stop`: what the client has to wait for, and that the time has come.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/server.h"
#include "server/server_client.h"

namespace pergpu {

using nlohmann::json;

namespace {

/// From SIGTERM to SIGKILL, of the live job that has most.
std::int64_t longest_grace_s(const Coordinator& coordinator) {
  std::chrono::milliseconds longest{0};
  for (const auto& [id, live] : coordinator.live()) {
    const World& world = coordinator.world();
    longest = std::max(longest, world.step_of(*world.job(id)).spec.grace);
  }
  return std::chrono::ceil<std::chrono::seconds>(longest).count();
}

}  // namespace

void Server::stop(std::uint64_t id, const Request& request) {
  const Leaving leaving = options_.leave(request.kill, request.replaced);
  Client* client = find(id);
  if (request.waits && client != nullptr) {
    client->stopping = true;
    stopping_.push_back(id);
  }
  reply(id, {{"pid", getpid()},
             {"kill", leaving.kills},
             {"unmarked", leaving.unmarked},
             {"jobs", coordinator_.live_count()},
             {"longest_s", longest_grace_s(coordinator_)}});
}

void Server::tell_left() {
  for (const std::uint64_t id : std::exchange(stopping_, {})) {
    reply(id, {{"event", "left"}, {"running", coordinator_.live_count()}});
  }
}

}  // namespace pergpu
