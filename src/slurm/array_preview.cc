// Arrays have no numbers yet, so the first one is called ARRAY_1, also where another one waits for
// it.
#include "slurm/array_preview.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "slurm/array_call.h"
#include "slurm/cluster.h"
#include "slurm/cluster_fit.h"
#include "slurm/handover_plan.h"
#include "slurm/slurm_script.h"
#include "state/submit.h"

namespace pergpu {
namespace {

/// "aftercorr:1,afterok:2:3" with names in the place of numbers.
std::string named(const std::string& dependency) {
  std::string out;
  for (const char c : dependency) {
    out += c;
    if (c == ':') out += "ARRAY_";
  }
  return out;
}

struct Previewed {
  World world = {};
  SweepId sweep = {};
};

/// The sweep as if it had not been known, with the states that its jobs would have.
Result<void> fill(Previewed& out, const SweepSpec& file, const SubmitContext& context,
                  const std::function<JobState(std::size_t, std::size_t)>& becomes) {
  Result<SubmitPlan> plan = plan_submit(out.world, file, context, {1, 1});
  if (!plan) return std::move(plan).error();
  out.sweep = plan->sweep;
  for (const Row& row : plan->rows) {
    if (Result<void> taken = out.world.absorb(row); !taken) return taken;
    const auto* job = std::get_if<row::NewJob>(&row);
    if (job == nullptr) continue;
    const auto at = static_cast<std::size_t>(job->run < 0 ? 0 : job->run);
    const JobState state = becomes(static_cast<std::size_t>(job->step), at);
    if (state == JobState::Queued) continue;
    const row::Event known{.job = job->id, .event = event::Folded{.state = state}, .at = {1, 1}};
    if (Result<void> taken = out.world.absorb(known); !taken) return taken;
  }
  return {};
}

}  // namespace

Result<std::vector<ArraySnapshot>> preview_arrays(
    const SweepSpec& file, const SubmitContext& context,
    const std::function<JobState(std::size_t step, std::size_t row)>& becomes,
    std::int32_t array_size, const std::string& pergpu) {
  if (Result<void> fits = check_for_cluster(file); !fits) return std::move(fits).error();
  Previewed previewed;
  if (Result<void> filled = fill(previewed, file, context, becomes); !filled) {
    return std::move(filled).error();
  }
  const World& world = previewed.world;
  const Sweep& sweep = *world.sweep(previewed.sweep);
  std::vector<JobId> wanted;
  for (const Step& step : sweep.steps) {
    for (const JobId id : step.current) {
      if (id && world.job(id)->state == JobState::Queued) wanted.push_back(id);
    }
  }
  std::map<JobId, HandedPlace> places;
  std::map<StepKey, std::vector<std::int64_t>> arrays;
  const ClusterSite site{.array_size = array_size,
                         .place = [&](JobId id) -> std::optional<HandedPlace> {
                           const auto it = places.find(id);
                           if (it == places.end()) return std::nullopt;
                           return it->second;
                         },
                         .arrays =
                             [&](StepKey step) {
                               const auto it = arrays.find(step);
                               return it == arrays.end() ? std::vector<std::int64_t>{} : it->second;
                             }};
  std::vector<ArraySnapshot> out;
  for (;;) {
    std::optional<ArrayPlan> plan = next_array(world, sweep, wanted, site);
    if (!plan && places.empty()) break;
    if (!plan) {  // what is handed over only when those are done
      for (const auto& [id, place] : places) {
        const row::Event done{
            .job = id, .event = event::Folded{.state = JobState::Done}, .at = {1, 1}};
        if (Result<void> taken = previewed.world.absorb(done); !taken) {
          return std::move(taken).error();
        }
      }
      places.clear();
      arrays.clear();
      continue;
    }
    const auto number = static_cast<std::int64_t>(out.size()) + 1;
    for (const store::HandedJob& job : plan->handover.jobs) {
      places[job.job.id] = {number, job.task, plan->handover.jobs_each};
    }
    std::erase_if(wanted, [&](JobId id) { return places.contains(id); });
    arrays[plan->step].push_back(number);
    const std::string name = fmt::format("ARRAY_{}", number);
    plan->dependency = named(plan->dependency);
    plan->handover.key = fmt::format("{}-{}", sweep.name, name);
    const ArrayCall call = array_call(
        sweep, *plan, fmt::format("{}/{}/{}", sweep.folder(), Cluster::kFolder, plan->handover.key),
        pergpu, "");
    out.push_back({.name = name,
                   .step = sweep.steps[static_cast<std::size_t>(plan->step.step)].spec.name,
                   .tasks = static_cast<std::int64_t>(plan->tasks.size()),
                   .jobs = static_cast<std::int64_t>(plan->handover.jobs.size()),
                   .script = script_text(call.request)});
  }
  return out;
}

}  // namespace pergpu
