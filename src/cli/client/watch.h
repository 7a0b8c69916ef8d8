// A stream of changes from the coordinator, on an event loop, that outlives coordinators: when the
// connection breaks it connects again (starting a new coordinator if need be, with the back-off of
// cli/client/client.h, but none after `pergpu coordinator stop`: then it waits for one), sends its
// request again and goes on with a fresh snapshot.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/client/client.h"
#include "os/ipc/socket.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu::cli {

class Watch {
 public:
  struct Callbacks {
    std::function<void(const nlohmann::json& event)> on_event;
    /// The connection broke; connecting again is under way.  `words`: for people.
    std::function<void(const std::string& words)> on_gap;
    /// Connecting again failed, or the request was refused.  The watch is over.
    std::function<void(const Error& why)> on_failed;
  };

  /// Constant after construction: loop, client and callbacks outlive the watch.
  Watch(os::Loop& loop, Client& client, const nlohmann::json& request, Callbacks callbacks);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Connects and sends the request; what follows comes by callback.
  void start();
  bool connected() const { return stream_ != nullptr; }

 private:
  void on_line(std::string_view line);
  void on_close();
  void try_again();
  void await_command();

  os::Loop& loop_;
  Client& client_;
  std::string request_;
  Callbacks callbacks_;
  Backoff backoff_;
  std::unique_ptr<os::LineStream> stream_;
  os::Loop::TimerId retry_ = 0;
  bool over_ = false;
  bool is_turned_away_ = false;
  bool is_stopped_ = false;  // by `pergpu coordinator stop`: no other is started
};

}  // namespace pergpu::cli
