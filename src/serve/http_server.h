// HTTP on an event loop: connections, requests one after the other, answers of one piece and
// answers without an end (server-sent events).
//
// What is asked is not its concern, nor who asks: a handler gets each request and answers through
// the Exchange, at once or later.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "os/loop.h"
#include "result.h"
#include "serve/http.h"

namespace pergpu::serve {

class Connection;

/// One request and its answer.  Outlives its connection where a handler keeps it: then nothing that
/// is done here has an effect.
class Exchange {
 public:
  explicit Exchange(HttpRequest request) : request_(std::move(request)) {}

  const HttpRequest& request() const { return request_; }

  /// Once, unless begin_stream() was called.
  void reply(const HttpResponse& response);

  /// Once: an answer whose body goes on until the client leaves or the server ends.
  void begin_stream(std::string_view type);
  void write(std::string_view bytes);
  /// Bytes that were written and that the kernel has not taken.
  std::size_t pending() const;

  /// The client has shown that it may ask: its connection isn't closed to make room for others.
  void let_in();

  bool is_gone() const { return connection_ == nullptr; }
  /// Called from the loop, once, when the client has gone or the server ends.
  std::function<void()> on_gone = {};
  /// Called from the loop when pending() has come down to nothing.
  std::function<void()> on_drained = {};

 private:
  friend class Connection;
  HttpRequest request_;
  Connection* connection_ = nullptr;  // null: gone
};

class HttpServer {
 public:
  using Handler = std::function<void(const std::shared_ptr<Exchange>& exchange)>;

  /// Serves what connects to `listener`.  The loop outlives the server.  Of too many connections
  /// those of other users that weren't let in are closed, the oldest first (serve/crowd.h).
  static Result<std::unique_ptr<HttpServer>> open(os::Loop& loop, os::UniqueFd listener,
                                                  Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pergpu::serve
