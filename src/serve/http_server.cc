// A browser opens six connections at most to one host; who opens many more is not one.
#include "serve/http_server.h"

#include <sys/epoll.h>

#include <map>
#include <utility>

#include "os/tcp.h"
#include "serve/connection.h"

namespace pergpu::serve {
namespace {

constexpr std::size_t kMostConnections = 128;

}  // namespace

struct HttpServer::Impl {
  Impl(os::Loop& on, os::UniqueFd socket, Handler call)
      : loop(on), listener(std::move(socket)), handler(std::move(call)) {}

  os::Loop& loop;
  os::UniqueFd listener;
  Handler handler;
  std::map<Connection*, std::shared_ptr<Connection>> connections;

  void accept() {
    for (;;) {
      Result<os::UniqueFd> fd = os::accept_tcp(listener.get());
      if (!fd) return;  // none waits; or no descriptor is left, and one was turned away
      if (connections.size() >= kMostConnections) continue;
      auto connection = std::make_shared<Connection>(
          loop, std::move(*fd),
          Connection::Callbacks{.on_request = handler,
                                .on_close = [this](Connection& c) { connections.erase(&c); }});
      if (connection->start()) connections.emplace(connection.get(), connection);
    }
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  impl_->loop.unwatch(impl_->listener.get());
  // Each tells its exchange, whose owner may look at the map.
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
