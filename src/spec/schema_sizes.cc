// Arguments that no kernel takes: better refused here than by each job.
#include <fmt/core.h>

#include "spec/draft.h"
#include "spec/run_parameters.h"
#include "spec/start_size.h"

namespace pergpu {
namespace {

Place place_of(const StepDraft& step, const std::string& key) {
  for (const PlacedTemplate& t : step.templates)
    if (t.key == key || t.key.starts_with(key + ".")) return t.at;
  return step.at;
}

}  // namespace

void check_start_sizes(Draft& draft) {
  for (const StepDraft& step : draft.steps) {
    if (step.spec.once) continue;
    visit_large_runs(draft.sweep.runs, [&](std::size_t run) {
      const Result<StartSize> size = start_size(step.spec, draft.sweep.runs[run]);
      if (!size || size->longest <= kMostArgumentBytes) return true;
      const std::string why =
          size->parameter.empty() ? "" : fmt::format(" (`{}` of run {})", size->parameter, run);
      draft.report.error(
          place_of(step, size->where),
          fmt::format(
              "`{}`: one argument or variable would have {} bytes{}, and the kernel takes {} "
              "at most: let the program read {}, the file of the parameters",
              size->where, size->longest, why, kMostArgumentBytes,
              size->where == "shell" ? "$PERGPU_CONFIG" : "{config}"));
      return false;
    });
  }
}

}  // namespace pergpu
