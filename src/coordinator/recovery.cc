// After a restart: what was live is adopted or brought to an end.  Nothing else differs from a
// start without a past, because the world was rebuilt by the same rows.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/unheard.h"
#include "forecast/expectation.h"
#include "gpu/pool/mps_daemons.h"
#include "slurm/cluster.h"

namespace pergpu {
namespace {

constexpr std::int64_t kToAnswer = 15 * kSecond;

}  // namespace

void Coordinator::recover() {
  const World& world = *parts_.world;
  const auto known_boot = world.meta().find("boot_id");
  const bool same_boot = known_boot != world.meta().end() && known_boot->second == parts_.boot_id;
  if (!same_boot) parts_.journal->record(row::Meta{"boot_id", parts_.boot_id});

  std::vector<SweepId> on_cluster;
  for (const auto& [id, sweep] : world.sweeps()) {
    declare(sweep);
    if (sweep.context.engine == kSlurm) on_cluster.push_back(id);
    // A cluster still had some of it, or the store did not know of archived ones.
    if (sweep.open == 0) rest_.insert(id);
  }
  std::vector<ExpectedAttempt> local;
  std::vector<ExpectedAttempt> fake;
  world.open_jobs().for_each([&](JobId id) {
    const Job& job = *world.job(id);
    if (!is_live(job.state) || is_on_cluster(job)) return;
    const Sweep& sweep = world.sweep_of(job);
    const Attempt& attempt = *job.last;
    LiveAttempt live{.id = {job.id, attempt.number},
                     .engine = &engine_of(sweep),
                     .key = {job.sweep, job.step},
                     .lane = attempt.placement.lane,
                     .gpus = attempt.placement.gpus,
                     .cpus = attempt.placement.cpus,
                     .cpu_list = attempt.placement.cpu_list,
                     .record_path = world.out_of(job) + "/attempt.json"};
    live.demand = grown(*queue_.demand(live.key), growths_of(job));
    live.demand.pool = live.lane.pool;
    live.demand.share = attempt.placement.share;  // of its start
    live.demand.promise_bytes = attempt.placement.promise_bytes;
    live.had_company = live.demand.share > 0;
    if (attempt.placement.mps && parts_.mps != nullptr) {
      parts_.mps->adopt(live.gpus.front(), live.id);
    }
    for (const std::string& uuid : live.gpus) {
      parts_.gpus->occupy(uuid, job.id, live.demand, live.lane);
    }
    if (!live.gpus.empty()) parts_.gpus->fill(capacity_);  // so that there is what is booked
    capacity_.now_ns = parts_.clock->now().boot_ns;
    capacity_.occupy(
        live.key, live.demand, live.lane, live.gpus, fmt::format("runs job {}", job.id.value),
        expected_end_ns(attempt.starting_at.boot_ns, expected_ns(*parts_.world, job, &learnt_)));
    for (const LaneId& lane : pergpu::lanes_of(attempt.placement)) {
      lane_use_.occupy(lane, capacity_.now_ns);
    }
    (live.engine == parts_.fake ? fake : local)
        .push_back({.id = live.id,
                    .keeper = attempt.keeper,
                    .pid = attempt.pid,
                    .start_ticks = attempt.start_ticks,
                    .out = world.out_of(job)});
    live_.emplace(job.id, std::move(live));
  });
  if (!same_boot) {
    std::vector<JobId> all;
    for (const auto& [id, live] : live_) all.push_back(id);
    for (JobId id : all) {
      end_attempt(id, Evidence{.lost = true, .lost_why = parts_.interruption});
    }
    local.clear();
    fake.clear();
  }
  if (parts_.mps != nullptr) parts_.mps->end_left();
  if (cluster_) cluster_->recover(on_cluster);
  refresh_all();
  breaker_.recover();
  notices_->recover();
  parts_.local->adopt(std::move(local));
  parts_.fake->adopt(std::move(fake));
  // By then a keeper that lives has answered, as a rule.  The limits of what it has hold anyway,
  // and what was to stop still is.  What resists its burial has no keeper: it is lost, not late.
  if (live_.empty()) return;
  parts_.timers->at(parts_.clock->now().boot_ns + kToAnswer, [this] {
    for (auto& [id, live] : live_) {
      if (!is_unheard(live) || !live.resists.empty()) continue;
      const Attempt& attempt = *parts_.world->job(id)->last;
      if (attempt.started_at.boot_ns != 0) arm_timers(live);
      if (attempt.stop) {
        live.engine->stop(live.id, attempt.stop_at_once ? StopHow::Kill : StopHow::TermThenKill);
      }
    }
  });
}

}  // namespace pergpu
