// Events come from timers, never inside a call: as with real processes.
#include "run/fake.h"

#include <csignal>
#include <utility>

namespace pergpu {

FakeEngine::FakeEngine(os::Clock& clock, At at, std::function<void(EngineEvent)> on_event)
    : clock_(clock), at_(std::move(at)), on_event_(std::move(on_event)) {}

KeeperId FakeEngine::assign(LaneId) { return {}; }
void FakeEngine::prepare(LaneId, const FolderPlan&) {}
void FakeEngine::acknowledge(AttemptId, std::string, std::string) {}
void FakeEngine::release(bool) { live_.clear(); }

void FakeEngine::start(LaneId, AttemptPlan plan) {
  const Instant now = clock_.now();
  live_[plan.id] = now;
  at_(now.boot_ns, [this, id = plan.id] {
    if (live_.contains(id)) on_event_(engine_event::Started{.id = id, .pid = 1, .start_ticks = 1});
  });
  const std::int64_t duration = std::chrono::nanoseconds(plan.fake_duration).count();
  at_(now.boot_ns + duration, [this, id = plan.id, code = plan.fake_exit] { end(id, code, {}); });
}

void FakeEngine::stop(AttemptId id, StopHow how) {
  const int signal = how == StopHow::Kill ? SIGKILL : SIGTERM;
  at_(clock_.now().boot_ns, [this, id, signal] { end(id, {}, signal); });
}

void FakeEngine::end(AttemptId id, std::optional<int> exit_code, std::optional<int> signal) {
  if (live_.erase(id) == 0) return;
  on_event_(engine_event::Exited{.id = id,
                                 .exit_code = exit_code,
                                 .signal = signal,
                                 .missing_output = {},
                                 .missing_why = {},
                                 .exited_at = clock_.now()});
}

void FakeEngine::adopt(std::vector<ExpectedAttempt> expected) {
  for (const ExpectedAttempt& attempt : expected) {
    at_(clock_.now().boot_ns, [this, id = attempt.id] {
      on_event_(engine_event::Lost{.id = id, .why = "the fake engine ended with its coordinator"});
    });
  }
}

}  // namespace pergpu
