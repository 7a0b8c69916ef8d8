// Pure: of a job, only the record of its last attempt is looked at; of its step, what its others
// took; and what was learned of jobs like it.
#include "forecast/expectation.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "forecast/forecast.h"
#include "result.h"
#include "spec/templates/placeholders.h"
#include "spec/text/units.h"

namespace pergpu {
namespace {

/// "" when it cannot be rendered.
std::string rendered(const Template& expect, const RunSpec* run, std::int64_t index) {
  if (!has_placeholders(expect)) return expect;
  RenderScope scope;
  if (run != nullptr) {
    Result<RenderScope> of_run = scope_of(*run);
    if (!of_run) return {};
    scope = std::move(*of_run);
    scope.index = index;
  }
  Result<std::string> text = render(expect, scope);
  return text ? *std::move(text) : std::string();
}

}  // namespace

std::int64_t ns_of(const std::optional<Estimate>& estimate) {
  constexpr double kMostS = 1e9;  // 30 years
  return estimate ? static_cast<std::int64_t>(std::min(estimate->duration_s, kMostS) * 1e9) : 0;
}

std::int64_t expected_ns(const StepSpec& step, const RunSpec* run, std::int64_t index,
                         const Job* job, const Learnt* learnt) {
  if (!step.expect.empty()) {
    const Result<std::chrono::milliseconds> duration =
        parse_duration(rendered(step.expect, run, index));
    return duration ? std::chrono::nanoseconds(*duration).count() : 0;
  }
  if (const std::int64_t took = job == nullptr ? 0 : took_ns(*job); took > 0) return took;
  if (learnt == nullptr) return 0;
  return ns_of(learnt->estimate(step, run));
}

std::int64_t expected_ns(const World& world, const Job& job, const Learnt* learnt) {
  const StepSpec& step = world.step_of(job).spec;
  const std::optional<RunSpec> run =
      has_placeholders(step.expect) ? world.parameters_of(job) : std::nullopt;
  const std::int64_t known = expected_ns(step, run ? &*run : nullptr, std::max(job.run, 0), &job);
  if (known > 0 || learnt == nullptr || !step.expect.empty()) return known;
  return ns_of(learnt_of(world, job, *learnt));
}

std::optional<Estimate> learnt_of(const World& world, const Job& job, const Learnt& learnt) {
  const StepSpec& step = world.step_of(job).spec;
  const std::vector<Run>& runs = world.sweep_of(job).runs;
  if (runs.size() > kMostEstimatedRuns) return learnt.estimate_of_step(step);
  const std::optional<RunSpec> run = world.parameters_of(job);
  return learnt.estimate(step, run ? &*run : nullptr);
}

std::int64_t learnt_ns(const Step& step) {
  if (step.timed <= 0) return 0;
  return static_cast<std::int64_t>(step.timed_ns / static_cast<std::uint64_t>(step.timed));
}

std::int64_t learnt_ns(const Step& step, const std::vector<std::int64_t>& elapsed_ns) {
  const std::int64_t mean = learnt_ns(step);
  if (mean == 0) return 0;
  double total = static_cast<double>(mean) * step.timed;
  double count = step.timed;
  for (const std::int64_t elapsed : elapsed_ns) {
    if (elapsed <= mean) continue;
    total += static_cast<double>(elapsed) + static_cast<double>(left_ns(mean, elapsed));
    ++count;
  }
  return static_cast<std::int64_t>(std::min(total / count, static_cast<double>(kFarthest)));
}

std::int64_t foreseen_ns(const World& world, const Job& job, const Learnt* learnt) {
  const std::int64_t own = expected_ns(world, job, learnt);
  return own > 0 ? own : learnt_ns(world.step_of(job));
}

std::int64_t left_ns(std::int64_t expected_ns, std::int64_t elapsed_ns) {
  const std::int64_t late = elapsed_ns - expected_ns;
  return late <= 0 ? -late : std::min(late, expected_ns / 10);
}

}  // namespace pergpu
