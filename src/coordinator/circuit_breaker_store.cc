// What a restart takes up: who failed and how shows in the jobs, the rest in a row of the store.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/circuit_breaker.h"
#include "job/failures.h"
#include "job/json_fields.h"
#include "state/earlier_success.h"

namespace pergpu {
namespace {

using nlohmann::json;

constexpr std::string_view kBreakerPrefix = "breaker.";
constexpr int kMostSuccesses = 4096;  // that are looked at

std::string reset_key(StepKey key) {
  return fmt::format("breaker-reset.{}.{}", key.sweep.value, key.step);
}

std::string row_key(StepKey key) {
  return fmt::format("{}{}.{}", kBreakerPrefix, key.sweep.value, key.step);
}

}  // namespace

void CircuitBreaker::note(StepKey key, State& state) {
  std::string text;
  if (state.phase != Phase::Closed) {
    json row = {{"phase", state.phase == Phase::Holding ? "holding"
                          : state.phase == Phase::Open  ? "open"
                                                        : "last"},
                {"since", state.since_wall_ns}};
    if (state.probe) row["probe"] = state.probe.value;
    if (state.failed_probes > 0) row["failed"] = state.failed_probes;
    if (state.due.wall_ns > 0) row["due"] = state.due.wall_ns;
    text = row.dump();
  }
  if (text == state.noted) return;
  state.noted = text;
  parts_.note({.key = row_key(key), .value = std::move(text)});
}

/// What has failed until now counts no more, also after a restart.
void CircuitBreaker::note_reset(StepKey key) {
  if (step_of(key).in_state[static_cast<std::size_t>(JobState::Failed)] == 0) return;
  parts_.note({.key = reset_key(key), .value = fmt::format("{}", parts_.clock->now().wall_ns)});
}

std::int64_t CircuitBreaker::reset_wall_ns(StepKey key) const {
  const auto found = parts_.world->meta().find(reset_key(key));
  if (found == parts_.world->meta().end()) return 0;
  return std::strtoll(found->second.c_str(), nullptr, 10);
}

/// Who failed, and who succeeded, by the step's jobs.
void CircuitBreaker::rebuild(StepKey key, State& state) {
  const Step& step = step_of(key);
  const std::int64_t reset_ns = reset_wall_ns(key);
  std::vector<const Job*> done;
  for (const JobId id : step.current) {
    const Job* job = parts_.world->job(id);
    if (job == nullptr || !parts_.world->is_listed(id)) continue;
    if (job->state == JobState::Done && done.size() < kMostSuccesses) done.push_back(job);
    if (!has_failed_by_mistake(*job) || step.spec.breaker <= 0) continue;
    count_failure(key, *job, job->last->ended_at.wall_ns > reset_ns);
  }
  for (const Job* job : done) count_success(state, *job);
  state.has_success = !done.empty();
}

void CircuitBreaker::restore(State& state, const std::string& row) {
  const json known = json::parse(row, nullptr, false);
  if (!known.is_object()) return;
  const Instant now = parts_.clock->now();
  const auto phase = known.find("phase");
  if (phase != known.end() && *phase == "holding") state.phase = Phase::Holding;
  if (phase != known.end() && *phase == "last") {
    state.phase = Phase::Last;
    state.has_success = true;
    state.releases = true;
  }
  state.since_wall_ns = integer_at(known, "since").value_or(0);
  state.probe = JobId{integer_at(known, "probe").value_or(0)};
  state.failed_probes =
      static_cast<int>(std::clamp<std::int64_t>(integer_at(known, "failed").value_or(0), 0, 99));
  const std::int64_t due = integer_at(known, "due").value_or(0);
  if (due > now.wall_ns) {
    const std::int64_t wait = std::min(due - now.wall_ns, kLongestProbeWait);
    state.due = {.wall_ns = now.wall_ns + wait, .boot_ns = now.boot_ns + wait};
  }
  state.noted = row;
}

void CircuitBreaker::recover() {
  const World& world = *parts_.world;
  world.held_jobs().for_each([&](JobId id) {
    const Job& job = *world.job(id);
    if (!is_held_by_breaker(job)) return;
    State& state = states_[{job.sweep, job.step}];
    state.reason = job.reason;
    state.phase = Phase::Open;
  });
  for (const auto& [id, sweep] : world.sweeps()) {
    if (sweep.open == 0) continue;
    for (std::size_t slot = 0; slot < sweep.steps.size(); ++slot) {
      const StepKey key{id, static_cast<std::int16_t>(slot)};
      const Step& step = sweep.steps[slot];
      const bool has_failed = step.in_state[static_cast<std::size_t>(JobState::Failed)] > 0;
      const bool may_trip = step.spec.breaker > 0 && has_failed && !has_succeeded(world, key);
      if (!states_.contains(key) && !may_trip) continue;
      State& state = states_[key];
      const bool is_tripped = state.phase != Phase::Closed;
      rebuild(key, state);
      if (!is_tripped) {
        dirty_.insert(key);
        continue;
      }
      for (auto& [signature, kind] : state.kinds) {
        kind.is_tripped = std::cmp_greater_equal(kind.pattern.failures(), step.spec.breaker);
        kind.recent = 0;
      }
      state.failed_probes = 0;
      state.due = {};
      const auto row = world.meta().find(row_key(key));
      if (row != world.meta().end()) restore(state, row->second);
      if (state.since_wall_ns == 0) state.since_wall_ns = parts_.clock->now().wall_ns;
      if (state.phase == Phase::Holding) hold_rest(key, state);
      dirty_.insert(key);
    }
  }
}

}  // namespace pergpu
