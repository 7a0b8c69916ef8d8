// A browser opens six connections at most to one host; who opens many more is not one.
#include "serve/http_server.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "os/ipc/tcp.h"
#include "os/ipc/tcp_owners.h"
#include "serve/connection.h"
#include "serve/crowd.h"

namespace pergpu::serve {
namespace {

constexpr std::size_t kMostConnections = 128;
/// Those that wait longer are taken in the next turn of the loop.
constexpr int kMostAtOnce = 64;

}  // namespace

struct HttpServer::Impl {
  Impl(os::Loop& on, os::UniqueFd socket, Handler call)
      : loop(on), listener(std::move(socket)), handler(std::move(call)) {}

  struct Held {
    std::shared_ptr<Connection> connection;
    std::optional<uid_t> uid = std::nullopt;  // of the client; found out when it is needed
  };

  os::Loop& loop;
  os::UniqueFd listener;
  Handler handler;
  std::uint64_t last_number = 0;
  std::map<std::uint64_t, Held> connections;  // the oldest first

  void accept() {
    for (int i = 0; i < kMostAtOnce; ++i) {
      Result<os::UniqueFd> fd = os::accept_tcp(listener.get());
      if (!fd) {
        // None waits; or no descriptor is left, and one was turned away: the next one has room.
        const int why = fd.error().os_errno;
        if (why == EMFILE || why == ENFILE) make_room();
        return;
      }
      add(std::move(*fd));
      if (connections.size() <= kMostConnections || make_room()) continue;
      const std::shared_ptr<Connection> newest = connections.rbegin()->second.connection;
      newest->close();
    }
  }

  void add(os::UniqueFd fd) {
    const std::uint64_t number = ++last_number;
    auto connection = std::make_shared<Connection>(
        loop, std::move(fd),
        Connection::Callbacks{.on_request = handler, .on_close = [this, number](Connection&) {
                                connections.erase(number);
                              }});
    if (connection->start()) connections.emplace(number, Held{.connection = connection});
  }

  /// False: there is no connection to close.
  bool make_room() {
    const os::TcpOwners owners = os::TcpOwners::read();
    std::vector<Guest> guests;
    std::vector<std::shared_ptr<Connection>> all;
    for (auto& [number, held] : connections) {
      if (!held.uid) held.uid = owners.of_peer(held.connection->fd());
      guests.push_back({.uid = held.uid, .is_let_in = held.connection->is_let_in()});
      all.push_back(held.connection);
    }
    const std::vector<std::size_t> leaving = to_close(guests, ::geteuid());
    for (const std::size_t index : leaving) all[index]->close();
    return !leaving.empty();
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  impl_->loop.unwatch(impl_->listener.get());
  // Each notifies its exchange, whose owner may look at the map.
  const auto connections = std::exchange(impl_->connections, {});
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(os::Loop& loop, os::UniqueFd listener,
                                                     Handler handler) {
  auto impl = std::make_unique<Impl>(loop, std::move(listener), std::move(handler));
  Impl* self = impl.get();
  Result<void> watched =
      loop.watch(self->listener.get(), EPOLLIN, [self](std::uint32_t) { self->accept(); });
  if (!watched) return std::move(watched).error();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace pergpu::serve
