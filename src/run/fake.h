// The fake engine: starts nothing, ends each attempt after AttemptPlan::fake_duration with
// fake_exit.  For `--engine fake` (trying a sweep without running it), for simulations and tests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "os/clock.h"
#include "run/engine.h"

namespace pergpu {

class FakeEngine final : public Engine {
 public:
  /// Runs a callback once at a boot-time instant; a simulation brings its own.
  using At = std::function<void(std::int64_t boot_ns, std::function<void()> callback)>;
  FakeEngine(os::Clock& clock, At at, std::function<void(EngineEvent)> on_event);

  KeeperId assign(LaneId lane) override;
  void prepare(LaneId lane, const FolderPlan& folder) override;
  void start(LaneId lane, AttemptPlan plan) override;
  void stop(AttemptId id, StopHow how) override;
  void acknowledge(AttemptId id, std::string record_path, std::string final_record) override;
  /// A fake attempt does not outlive its engine: each is reported Lost.
  void adopt(std::vector<ExpectedAttempt> expected) override;
  std::vector<std::int32_t> keeper_pids() const override { return {}; }
  void release(bool revive) override;

 private:
  void end(AttemptId id, std::optional<int> exit_code, std::optional<int> signal);

  os::Clock& clock_;
  At at_;
  std::function<void(EngineEvent)> on_event_;
  std::map<AttemptId, Instant> live_;  // started when
};

}  // namespace pergpu
