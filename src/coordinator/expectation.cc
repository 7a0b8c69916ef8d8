// Pure: of a job, only the record of its last attempt is looked at.
#include "coordinator/expectation.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "result.h"
#include "spec/placeholders.h"
#include "spec/units.h"

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

std::int64_t expected_ns(const StepSpec& step, const RunSpec* run, std::int64_t index,
                         const Job* job) {
  if (!step.expect.empty()) {
    const Result<std::chrono::milliseconds> duration =
        parse_duration(rendered(step.expect, run, index));
    return duration ? std::chrono::nanoseconds(*duration).count() : 0;
  }
  // Measured by one boot's clock, or not at all.
  if (job == nullptr || !job->last || !job->last->outcome) return 0;
  if (job->last->outcome->cls != OutcomeClass::Ok) return 0;
  return std::max<std::int64_t>(job->last->ended_at.boot_ns - job->last->started_at.boot_ns, 0);
}

std::int64_t expected_ns(const World& world, const Job& job) {
  const StepSpec& step = world.step_of(job).spec;
  if (job.run < 0) return expected_ns(step, nullptr, 0, &job);
  const Run& run = world.sweep_of(job).runs[static_cast<std::size_t>(job.run)];
  return expected_ns(step, &run.spec, job.run, &job);
}

}  // namespace pergpu
