// Where no status view is drawn: why nothing of a followed sweep starts.  The coordinator is asked,
// because what is known of a queued job is as old as its last change of state.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "cli/client/asker.h"
#include "cli/client/client.h"
#include "os/loop.h"
#include "result.h"

namespace pergpu::cli {

class WaitReason {
 public:
  /// The reason and the job that has it, of all queued ones the first.
  using Report = std::function<void(const std::string& name, const std::string& why)>;

  /// Constant after construction: the loop outlives this.
  WaitReason(os::Loop& loop, const Place& place, Report report)
      : client_(place, Client::Start::Never), asker_(loop, client_), report_(std::move(report)) {}

  /// Call it once a second.  Nothing has run for some seconds although a job is queued, and it was
  /// not asked within the last minute.
  bool is_due(bool is_waiting, std::int64_t boot_ns);

  /// Asks for the reason of a queued job, and reports it if it is another than before.
  void ask(std::int64_t job);

 private:
  void on_answer(const Result<nlohmann::json>& reply);

  Client client_;
  Asker asker_;
  Report report_;
  std::int64_t due_ns_ = 0;    // 0: nothing waits
  std::string reported_ = {};  // without its figures, which change
};

}  // namespace pergpu::cli
