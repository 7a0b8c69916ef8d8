// The fake engine: attempts that take as long and end as their plan says, and do nothing.  Runs on
// any clock: the real loop's, or a simulation's, where an hour takes no time.
//
// Nothing of it survives a restart: adopt() reports every attempt as Lost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/clock.h"
#include "run/engine.h"

namespace pergpu {

class FakeEngine final : public Engine {
 public:
  /// Runs a callback once at a boot-clock instant, later than the call that asked for it.
  using Schedule = std::function<void(std::int64_t boot_ns, std::function<void()> callback)>;

  FakeEngine(os::Clock& clock, Schedule schedule, std::function<void(const EngineEvent&)> on_event);
  ~FakeEngine() override;

  KeeperId assign(LaneId lane) override;
  void prepare(LaneId lane, const FolderPlan& folder) override;
  void start(LaneId lane, AttemptPlan plan) override;
  void stop(AttemptId id, StopHow how) override;
  void signal(AttemptId id, int number) override;
  void write_stacks(AttemptId id, const std::string& path,
                    std::function<void(bool written)> done) override;
  void acknowledge(AttemptId id, std::string record_path, std::string final_record) override;
  void adopt(std::vector<ExpectedAttempt> expected) override;
  std::vector<std::int32_t> keeper_pids() const override;

  /// What was asked of signal(), in order.  Pretended programs do not hear it.
  struct Signalled {
    AttemptId id = {};
    int number = 0;
    std::int64_t boot_ns = 0;
  };
  const std::vector<Signalled>& signalled() const { return signalled_; }
  /// Attempts that run now.
  std::size_t running() const { return running_.size(); }

 private:
  struct Running {
    std::int64_t started_ns = 0;
    std::int64_t end_ns = 0;
    int exit_code = 0;
    std::optional<int> signal = std::nullopt;
  };
  void finish(AttemptId id);
  void at(std::int64_t boot_ns, std::function<void()> callback);

  os::Clock& clock_;
  Schedule schedule_;
  std::function<void(const EngineEvent&)> on_event_;
  std::map<AttemptId, Running> running_;
  std::vector<Signalled> signalled_;
  std::int32_t last_pid_ = 0;
  std::shared_ptr<bool> alive_;
};

}  // namespace pergpu
