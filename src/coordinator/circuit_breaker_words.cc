// What people see of what the breaker holds: since when, and what it tries next.
#include <fmt/format.h>

#include <limits>

#include "coordinator/circuit_breaker.h"
#include "forecast/learnt.h"
#include "job/redact.h"
#include "job/text.h"
#include "plural.h"
#include "spec/templates/run_parameters.h"
#include "state/clock_text.h"

namespace pergpu {

/// "job 21 (05-lr=0.1)"
std::string CircuitBreaker::name_of(JobId id) const {
  const Job* job = parts_.world->job(id);
  if (job == nullptr || job->run < 0) return fmt::format("job {}", id.value);
  const Run& run = parts_.world->sweep_of(*job).runs[static_cast<std::size_t>(job->run)];
  return fmt::format("job {} ({})", id.value, redact_text(std::string(run.folder())));
}

/// "lr=0.5": what all that failed have in common; "": nothing is known to be.
std::string CircuitBreaker::blamed_words(const State& state) const {
  constexpr std::size_t kMost = 3;
  std::string words;
  for (const auto& [signature, kind] : state.kinds) {
    const Job* example = parts_.world->job(kind.example);
    if (!kind.is_tripped || example == nullptr) continue;
    const std::optional<RunSpec> run = parts_.world->parameters_of(*example);
    const Result<RunParameters> parameters =
        run ? RunParameters::parse(*run) : Result<RunParameters>(RunParameters{});
    if (!run || !parameters) continue;
    const std::vector<ParameterMark> all = marks_of(*run);  // in the same order
    std::size_t named = 0;
    for (std::size_t i = 0; i < all.size() && named < kMost; ++i) {
      if (!kind.pattern.blamed().contains(all[i])) continue;
      const auto& [name, text] = parameters->all()[i];
      const bool is_secret = is_secret_name(name);
      words += fmt::format("{}{}={}",
                           words.empty() ? ""
                           : named == 0  ? " or "
                                         : ", ",
                           name, is_secret ? std::string(kRedacted) : redact_text(text));
      ++named;
    }
  }
  return words;
}

/// `job`: that is asked about; null: all that is held.
std::string CircuitBreaker::next_words(StepKey key, const State& state, const Job* job) const {
  if (!parts_.probes) return {};
  const Instant now = parts_.clock->now();
  if (state.probe) {
    const Job* probe = parts_.world->job(state.probe);
    const bool runs = probe != nullptr && is_live(probe->state);
    return fmt::format("{} is tried {}", name_of(state.probe), runs ? "now" : "next");
  }
  if (state.phase == Phase::Holding || state.scan != 0)
    return "the circuit breaker is choosing the next job to try";
  if (!state.next && state.choose_at_ns != 0) return "the next job is tried when it can start";
  if (!state.next) return "the next job is tried when the jobs it needs are done";
  const bool is_it = job != nullptr && job->id == state.next->job;
  const std::string name = is_it ? "this job" : name_of(state.next->job);
  if (state.phase == Phase::Last && state.next->is_alike && others_go_on(key)) {
    const std::string blamed = blamed_words(state);
    return fmt::format("{} is tried when the other runs are done{}", name,
                       blamed.empty() ? "" : ": the failed ones have " + blamed);
  }
  const std::int64_t left = state.due.boot_ns - now.boot_ns;
  return left > 0 ? fmt::format("{} is tried in {}", name, duration_text(left))
                  : fmt::format("{} is tried next", name);
}

std::string CircuitBreaker::words_of(const Job& job) const {
  const auto it = states_.find({job.sweep, job.step});
  if (it == states_.end() || !is_held_by_breaker(job)) return {};
  const std::string next = next_words(it->first, it->second, &job);
  const std::int64_t now = parts_.clock->now().wall_ns;
  const std::int64_t since = it->second.since_wall_ns;
  return fmt::format("; held since {}{}{}; to start this job now: `pergpu release {}`",
                     clock_text(since == 0 ? now : since, now), next.empty() ? "" : "; ", next,
                     job.id.value);
}

std::string CircuitBreaker::words_of(const Sweep& sweep) const {
  std::string words;
  const std::int64_t now = parts_.clock->now().wall_ns;
  for (auto it = states_.lower_bound({sweep.id, std::numeric_limits<std::int16_t>::min()});
       it != states_.end() && it->first.sweep == sweep.id; ++it) {
    const Step& step = step_of(it->first);
    if (it->second.phase == Phase::Closed || step.held_by_breaker == 0) continue;
    const std::string next = next_words(it->first, it->second, nullptr);
    words += fmt::format("{}{} of step {} held since {}{}{}", words.empty() ? "" : "; ",
                         counted(step.held_by_breaker, "job"), step.spec.name,
                         clock_text(it->second.since_wall_ns, now), next.empty() ? "" : "; ", next);
  }
  return words;
}

std::string CircuitBreaker::words_of_queued(const Job& job) const {
  const auto it = states_.find({job.sweep, job.step});
  if (it == states_.end()) return {};
  const State& state = it->second;
  if (state.probe == job.id)
    return "; the circuit breaker tries it before the other jobs of its step";
  if (state.phase != Phase::Closed || !state.pauses) return {};
  if (parts_.clock->now().boot_ns < state.slow_start_until_ns) {
    return "; no job of its step has succeeded yet, so pergpu watches the first jobs for 2 s "
           "before it starts more";
  }
  return "; a job of its step just failed, so pergpu waits up to 10 s for the running ones";
}

}  // namespace pergpu
