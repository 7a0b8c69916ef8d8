// Batches keep both sides short: rendering paths holds up no other decision for long, and nothing
// large travels.
#include "state/lost_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "os/fs/expected_files.h"

namespace pergpu {
namespace {

constexpr std::size_t kBatch = 256;                    // jobs
constexpr std::int64_t kBatchPatience = 10 * kSecond;  // for a batch
constexpr std::int64_t kWalkPatience = 30 * kSecond;   // for all: no other submit goes on meanwhile

}  // namespace

std::vector<LostOutput> find_lost(const std::vector<OutputsOfJob>& jobs) {
  std::vector<LostOutput> out;
  for (const OutputsOfJob& job : jobs) {
    const auto look = [&](const std::vector<std::string>& names, const auto& why_of) {
      for (const std::string& name : names) {
        const std::string why = why_of(name, std::nullopt);
        if (why.empty()) continue;
        out.push_back(
            {.job = job.job, .what = name + " " + why, .is_certain = os::is_known_missing(why)});
        return true;
      }
      return false;
    };
    if (!look(job.outputs.paths, os::why_not_there)) look(job.outputs.patterns, os::why_no_match);
  }
  return out;
}

struct OutputSurvey::Walk {
  std::vector<JobId> jobs = {};
  std::size_t next = 0;
  LostOutputs found = {};
  std::function<void(LostOutputs)> done = {};
  Timers::Id timer = 0;
  std::size_t batch = 0;  // the answers of earlier ones come too late
  std::size_t seen = 0;   // jobs
  std::int64_t end_ns = 0;
};

/// Those of the file's rows that may have lost something.
std::vector<JobId> OutputSurvey::done_jobs(const SweepSpec& file,
                                           const SubmitContext& context) const {
  const World& world = *parts_.world;
  std::vector<JobId> jobs;
  const Sweep* sweep = world.sweep(world.sweep_at(output_root(file), file.name));
  if (!parts_.look || sweep == nullptr || context.unique_name || context.rerun) return jobs;
  const auto add = [&](JobId id) {
    const Job* job = world.job(id);
    if (job != nullptr && job->state == JobState::Done) jobs.push_back(id);
  };
  for (std::size_t slot = 0; slot < sweep->steps.size(); ++slot) {
    const Step& step = sweep->steps[slot];
    if (step.spec.outputs.empty()) continue;
    if (!context.add || step.spec.once) {
      for (const JobId id : step.current) add(id);
      continue;
    }
    for (const RunSpec& run : file.runs) {
      const auto known = sweep->run_index.find(sweep->runs, run.json);
      if (known) add(World::current(*sweep, static_cast<int>(slot), *known));
    }
  }
  return jobs;
}

void OutputSurvey::begin(const SweepSpec& file, const SubmitContext& context,
                         std::function<void(LostOutputs)> done) const {
  auto walk = std::make_shared<Walk>();
  walk->jobs = done_jobs(file, context);
  walk->done = std::move(done);
  walk->end_ns = parts_.clock->now().boot_ns + kWalkPatience;
  go_on(walk);
}

void OutputSurvey::go_on(const std::shared_ptr<Walk>& walk) const {
  std::vector<OutputsOfJob> batch;
  while (walk->next < walk->jobs.size() && batch.size() < kBatch) {
    const Job* job = parts_.world->job(walk->jobs[walk->next++]);
    if (job == nullptr || job->state != JobState::Done) continue;
    if (Result<DeclaredOutputs> outputs = outputs_of(*parts_.world, *job)) {
      batch.push_back({.job = job->id, .outputs = *std::move(outputs)});
    }
  }
  if (batch.empty()) return walk->done(std::move(walk->found));

  const std::size_t number = ++walk->batch;
  const std::int64_t end_of_batch = parts_.clock->now().boot_ns + kBatchPatience;
  const bool is_last = walk->end_ns <= end_of_batch;
  walk->timer = parts_.timers->at(std::min(end_of_batch, walk->end_ns), [walk, number, is_last] {
    if (walk->batch != number) return;
    ++walk->batch;
    walk->found.unseen =
        is_last
            ? fmt::format("only {} of {} jobs could be checked within {} s", walk->seen,
                          walk->jobs.size(), kWalkPatience / kSecond)
            : fmt::format("the file system didn't respond within {} s", kBatchPatience / kSecond);
    walk->done(std::move(walk->found));
  });
  const std::size_t count = batch.size();
  parts_.look(std::move(batch), [this, walk, number, count](std::vector<LostOutput> lost) {
    if (walk->batch != number) return;
    ++walk->batch;
    walk->seen += count;
    parts_.timers->cancel(walk->timer);
    for (LostOutput& one : lost) {
      if (one.is_certain) {
        walk->found.jobs.emplace(one.job, std::move(one.what));
      } else if (walk->found.unseen.empty()) {
        walk->found.unseen = std::move(one.what);
      }
    }
    go_on(walk);
  });
}

}  // namespace pergpu
