// A row is recognized by its earlier JSON and its text together, so that a 1 is never taken for the
// 1.0 that once had the same JSON.
#include "state/earlier_runs.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "spec/sweep/earlier_reading.h"
#include "state/submit.h"

namespace pergpu {
namespace {

bool is_done_or_live(const World& world, const Sweep& sweep, std::int32_t run) {
  for (std::size_t slot = 0; slot < sweep.steps.size(); ++slot) {
    if (sweep.steps[slot].spec.once) continue;
    const Job* job = world.job(World::current(sweep, static_cast<int>(slot), run));
    if (job != nullptr && (job->state == JobState::Done || is_live(job->state))) return true;
  }
  return false;
}

}  // namespace

void recognize_earlier_runs(const World& world, const SubmitContext& context, SweepSpec& file) {
  if (context.unique_name) return;
  const Sweep* known = world.sweep(world.sweep_at(output_root(file), file.name));
  if (known == nullptr) return;
  const auto is_known = [known](const RunSpec& run) {
    return known->run_index.find(known->runs, run.json).has_value();
  };
  if (std::all_of(file.runs.begin(), file.runs.end(), is_known)) return;
  std::unordered_set<std::string> written;  // no row of the file may be known as another one of it
  for (const RunSpec& run : file.runs) written.insert(run.json);
  for (RunSpec& run : file.runs) {
    if (is_known(run)) continue;
    Result<RunSpec> before = earlier_reading(run, /*of_words=*/file.file.empty());
    if (!before || *before == run || written.contains(before->json)) continue;
    const std::optional<std::int32_t> index = known->run_index.find(known->runs, before->json);
    if (!index || known->runs[static_cast<std::size_t>(*index)].texts() != before->texts) continue;
    if (!is_done_or_live(world, *known, *index)) continue;
    written.insert(before->json);
    run = *std::move(before);
  }
}

}  // namespace pergpu
