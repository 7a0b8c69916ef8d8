// One stream of the coordinator as a topic that tabs read from (serve/topic.h).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/client/client.h"
#include "cli/client/watch.h"
#include "os/loop.h"
#include "result.h"
#include "serve/topic.h"

namespace pergpu::cli {

class WebFeed {
 public:
  /// Loop and client outlive it.  `on_change`: from the loop, when there is something to send.
  WebFeed(os::Loop& loop, Client& client, std::string name, const nlohmann::json& request,
          std::function<void()> on_change);

  void start() { watch_.start(); }
  const serve::Topic& topic() const { return topic_; }
  /// Not empty: it was refused, or given up; nothing more comes.
  const std::string& failure() const { return failure_; }
  /// Each event as the coordinator sent it.
  std::function<void(const nlohmann::json& event)> on_event = {};

 private:
  serve::Topic topic_;
  std::string failure_;
  std::function<void()> on_change_;
  Watch watch_;  // last: its callbacks use the others
};

}  // namespace pergpu::cli
