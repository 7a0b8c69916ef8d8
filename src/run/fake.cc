// Events are always scheduled, never reported inside a call, as with real processes.
#include "run/fake.h"

#include <signal.h>

#include <algorithm>

namespace pergpu {

FakeEngine::FakeEngine(os::Clock& clock, Schedule schedule,
                       std::function<void(const EngineEvent&)> on_event)
    : clock_(clock),
      schedule_(std::move(schedule)),
      on_event_(std::move(on_event)),
      alive_(std::make_shared<bool>(true)) {}

FakeEngine::~FakeEngine() { *alive_ = false; }

void FakeEngine::at(std::int64_t boot_ns, std::function<void()> callback) {
  schedule_(boot_ns, [callback = std::move(callback), alive = alive_] {
    if (*alive) callback();
  });
}

KeeperId FakeEngine::assign(LaneId) { return {}; }

void FakeEngine::prepare(LaneId, const FolderPlan&) {}

void FakeEngine::start(LaneId, AttemptPlan plan) {
  const std::int64_t now = clock_.now().boot_ns;
  const std::int64_t duration = std::chrono::nanoseconds(plan.fake_duration).count();
  const AttemptId id = plan.id;
  const std::int32_t pid = ++last_pid_;
  running_[id] = {.started_ns = now,
                  .end_ns = now + std::max<std::int64_t>(duration, 0),
                  .exit_code = plan.fake_exit};
  at(now, [this, id, pid] {
    if (running_.count(id) != 0)
      on_event_(engine_event::Started{
          .id = id, .pid = pid, .start_ticks = static_cast<std::uint64_t>(pid)});
  });
  at(running_[id].end_ns, [this, id] { finish(id); });
}

void FakeEngine::stop(AttemptId id, StopHow how) {
  const auto it = running_.find(id);
  if (it == running_.end() || it->second.signal) return;
  it->second.signal = how == StopHow::Kill ? SIGKILL : SIGTERM;
  it->second.end_ns = clock_.now().boot_ns;
  at(it->second.end_ns, [this, id] { finish(id); });
}

void FakeEngine::signal(AttemptId id, int number) {
  signalled_.push_back({.id = id, .number = number, .boot_ns = clock_.now().boot_ns});
}

void FakeEngine::write_stacks(AttemptId, const std::string&, std::function<void(bool)> done) {
  at(clock_.now().boot_ns, [done = std::move(done)] { done(false); });
}

void FakeEngine::finish(AttemptId id) {
  const auto it = running_.find(id);
  if (it == running_.end()) return;
  const Running ended = it->second;
  running_.erase(it);
  engine_event::Exited event;
  event.id = id;
  if (ended.signal)
    event.signal = ended.signal;
  else
    event.exit_code = ended.exit_code;
  event.exited_at = clock_.now();
  on_event_(event);
}

void FakeEngine::acknowledge(AttemptId, std::string, std::string) {}

void FakeEngine::adopt(std::vector<ExpectedAttempt> expected) {
  for (const ExpectedAttempt& one : expected) {
    at(clock_.now().boot_ns, [this, id = one.id] {
      on_event_(engine_event::Lost{
          .id = id, .why = "simulated attempts end with the coordinator", .proven_gone = true});
    });
  }
}

std::vector<std::int32_t> FakeEngine::keeper_pids() const { return {}; }

}  // namespace pergpu
