// Ctrl-C while a sweep is followed (docs/commands.md): first hold what is queued, then stop what
// runs, then kill it.  The words say what is left and what the next Ctrl-C does.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/client/client.h"
#include "result.h"

namespace pergpu::cli {

class Interrupts {
 public:
  /// `single`: a single `run -- CMD`, where the first Ctrl-C stops.
  /// `wait`: how long the coordinator may take to record it.
  Interrupts(Place place, std::int64_t sweep_id, bool single,
             std::chrono::milliseconds wait = std::chrono::seconds(10))
      : client_(std::move(place), Client::Start::IfNeeded),
        sweep_id_(sweep_id),
        single_(single),
        wait_(wait) {}

  /// Asks for the next level; what to say about it.  After the last level the error Busy means:
  /// leave now.  Unavailable: the coordinator does not answer; the level was not reached.
  Result<std::string> next();

  bool any() const { return level_ > 0; }

 private:
  Client client_;
  std::int64_t sweep_id_;
  bool single_;
  std::chrono::milliseconds wait_;
  int level_ = 0;
};

}  // namespace pergpu::cli
