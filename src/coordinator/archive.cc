// Sweeps that rest: when the last job of one has ended, the store gets a note that a start need not
// read it any more; what asks for one of them later waits until it is back.
#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "slurm/cluster.h"

namespace pergpu {
namespace {

bool learns_needs(const Sweep& sweep) {
  return std::ranges::any_of(sweep.steps, [](const Step& step) { return step.spec.gpu_auto; });
}

}  // namespace

/// In the transaction in which its last job ended.
void Coordinator::archive_ended() {
  std::set<SweepId> later;
  for (const SweepId id : rest_) {
    // A submit of it is on its way to the disk, and no row may follow it yet; or a cluster is still
    // to be notified that it has ended.
    if (id == frozen_ || (cluster_ && cluster_->has_open(id))) later.insert(id);
  }
  if (later.size() < rest_.size()) learnt_.save();
  for (const SweepId id : std::exchange(rest_, std::move(later))) {
    if (rest_.contains(id)) continue;
    const Sweep& sweep = *parts_.world->sweep(id);
    if (sweep.open == 0) {
      if (learns_needs(sweep)) declare(sweep);  // without its shapes
      parts_.journal->record(World::archived_row(sweep));
    }
    lane_use_.forget(id);
  }
}

void Coordinator::fetch(std::vector<SweepId> archived, std::function<void(Result<void>)> done) {
  std::vector<SweepId> sweeps = archived;
  parts_.journal->fetch(std::move(sweeps), [this, archived = std::move(archived),
                                            done = std::move(done)](Result<void> fetched) {
    for (const SweepId id : archived) {
      if (const Sweep* sweep = parts_.world->sweep(id); sweep != nullptr && fetched) {
        declare(*sweep);
      }
    }
    done(std::move(fetched));
  });
}

std::vector<SweepId> Coordinator::archived_for(const SweepSpec& file,
                                               const SubmitContext& context) const {
  const World& world = *parts_.world;
  std::vector<SweepId> found;
  if (!context.unique_name) {
    const SweepId same = world.sweep_at(output_root(file), file.name);
    if (world.archived().contains(same)) found.push_back(same);
  }
  if (context.key.empty()) return found;
  for (const auto& [id, archived] : world.archived()) {
    if (archived.key == context.key) found.push_back(id);
  }
  return found;
}

}  // namespace pergpu
