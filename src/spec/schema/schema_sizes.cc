// Arguments that no kernel takes: better refused here than by each job.
#include "spec/schema/draft.h"
#include "spec/templates/start_size.h"

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
    visit_start_sizes(step.spec, draft.sweep.runs, [&](const StartOfRun& start) {
      const std::string why = why_too_long(start);
      if (why.empty()) return true;
      draft.report.error(place_of(step, start.size.where), why);
      return false;
    });
  }
}

}  // namespace pergpu
