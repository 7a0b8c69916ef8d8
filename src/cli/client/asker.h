// Requests on an event loop: nothing waits while the coordinator thinks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/client/client.h"
#include "os/ipc/socket.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu::cli {

class Asker {
 public:
  using Answer = std::function<void(const Result<nlohmann::json>& reply)>;

  /// Constant after construction: loop and client outlive this.
  Asker(os::Loop& loop, Client& client) : loop_(loop), client_(client) {}

  /// Connects if need be, which may start a coordinator, and sends.  `answer` is called once: from
  /// the loop, or at once when no connection can be made.  A connection that breaks is its error;
  /// nothing is sent twice.
  void ask(const nlohmann::json& request, Answer answer);

 private:
  Result<void> connect();
  void on_line(std::string_view line);
  void on_close(const Error& why);

  os::Loop& loop_;
  Client& client_;
  std::unique_ptr<os::LineStream> stream_;
  std::deque<Answer> waiting_;  // in the order of the requests
};

}  // namespace pergpu::cli
