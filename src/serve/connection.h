// One connection of the HTTP server: reads requests, hands them out one at a time, writes answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "os/loop.h"
#include "result.h"
#include "serve/http_parser.h"
#include "serve/http_server.h"

namespace pergpu::serve {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Callbacks {
    std::function<void(const std::shared_ptr<Exchange>& exchange)> on_request;
    std::function<void(Connection& connection)> on_close;  // last: it may be destroyed in it
  };

  Connection(os::Loop& loop, os::UniqueFd fd, Callbacks callbacks)
      : loop_(loop), fd_(std::move(fd)), callbacks_(std::move(callbacks)) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Result<void> start();

  // For the exchange that is under way.
  void reply(const HttpResponse& response);
  void begin_stream(std::string_view type);
  void write(std::string_view bytes);
  std::size_t pending() const { return out_.size() - sent_; }

  /// Its client has sent the session or the token.
  void let_in() { is_let_in_ = true; }
  bool is_let_in() const { return is_let_in_; }
  int fd() const { return fd_.get(); }
  /// At once.  REQUIRES: the caller holds it until this returns.
  void close();

 private:
  void on_ready(std::uint32_t events);
  void read();
  void flush();
  void take_request();
  void set_interest();
  void arm();
  void drain();

  os::Loop& loop_;
  os::UniqueFd fd_;
  Callbacks callbacks_;
  HttpParser parser_;
  std::shared_ptr<Exchange> exchange_;  // null: waiting for a request
  std::string out_;
  std::size_t sent_ = 0;  // of out_
  std::uint32_t interest_ = 0;
  os::Loop::TimerId deadline_ = 0;
  bool is_streaming_ = false;
  bool is_last_ = false;      // close when everything is written
  bool is_draining_ = false;  // everything is written; what the client still sends is thrown away
  bool is_let_in_ = false;
  bool is_closed_ = false;
};

}  // namespace pergpu::serve
