// Jobs with `gpus = "auto"`: those whose need is not known have a GPU alone and are watched; when
// it is, what they do not need is given back, and others join them.  A job that then needs more
// than similar ones did has it if it is there; else it is ended, as one that passes its limit.
#include <algorithm>

#include "coordinator/coordinator.h"
#include "forecast/expectation.h"
#include "job/gpu_parts.h"
#include "job/schedule/examine.h"

namespace pergpu {
namespace {

constexpr std::int64_t kReadingSpan = 2 * kSecond;  // at most; who came before is in a reading
/// With MPS a GPU did 1.7 and 2.8 times as much as by time slicing (docs/measurements.md).
constexpr double kKernelsAtOnce = 2;
constexpr double kMostCoresWanted =
    1;  // helpers have fewer threads where the share of the cores is less

}  // namespace

/// What similar jobs were seen to need; all that a GPU has, if nothing was.
void Coordinator::fit_to_need(Demand& demand, const GpuNeed* need) const {
  demand.most_gpu_memory =
      parts_.gpus->largest_memory([&](const GpuLane& gpu) { return allows(demand, gpu); });
  GpuRoom room{.bytes = demand.most_gpu_memory};
  if (parts_.gpus->any()) {
    room.cores = parts_.machine.core_count() / static_cast<double>(parts_.gpus->count());
  }
  if (demand.sharing == Sharing::Mps) room.kernels = kKernelsAtOnce;
  fit(demand, need, room);
}

/// Those of a very large sweep are all of one.
GpuShape Coordinator::shape_of(const Job& job) const {
  const StepSpec& step = parts_.world->step_of(job).spec;
  const Sweep& sweep = parts_.world->sweep_of(job);
  if (!step.gpu_auto || sweep.runs.size() > kMostEstimatedRuns) return 0;
  if (pool_of(sweep, step) != LaneId::Pool::Gpu) return 0;
  const std::optional<RunSpec> run = parts_.world->parameters_of(job);
  return learnt_.gpu_shape(step, run ? &*run : nullptr);
}

/// Groups what is ready by shapes as they are known now.
void Coordinator::sort_by_shape(const Sweep& sweep) {
  for (std::size_t slot = 0; slot < sweep.steps.size(); ++slot) {
    if (!sweep.steps[slot].spec.gpu_auto) continue;
    for (const ReadyJob& job : queue_.ready({sweep.id, static_cast<std::int16_t>(slot)})) {
      const GpuShape shape = shape_of(*parts_.world->job(job.id));
      if (shape == job.shape) continue;
      queue_.move(job, shape);
      Standing standing = *ready_.find(job.id);
      standing.shape = shape;
      ready_.put(job.id, standing);
    }
  }
}

/// It starts where others are: none of them is alone any more.
void Coordinator::meet(LiveAttempt& joining) {
  if (joining.demand.share == 0) return;
  for (auto& [id, other] : live_) {
    if (other.demand.share == 0 || other.gpus != joining.gpus) continue;
    joining.had_company = true;
    if (std::exchange(other.had_company, true) || parts_.telemetry == nullptr) continue;
    parts_.telemetry->share_gpu(other.id);
  }
}

/// A look showed `bytes` of it on its GPU.
void Coordinator::watch_need(LiveAttempt& live, std::uint64_t bytes) {
  const std::string& uuid = live.gpus.front();
  std::optional<GpuTrial::Busy> busy;
  const bool is_alone = !live.had_company && live.demand.outsiders == Outsiders::Avoid;
  if (is_alone && parts_.telemetry != nullptr) {
    const GpuUsage* usage = parts_.telemetry->gpu(uuid);
    const std::int64_t read_ns = parts_.telemetry->gpu_read_ns(uuid);
    const Instant started = parts_.world->job(live.id.job)->last->started_at;
    if (usage != nullptr && usage->busy_percent && read_ns >= started.boot_ns + kReadingSpan) {
      busy = {.part = *usage->busy_percent / 100.0, .read_ns = read_ns};
    }
  }
  live.trial.saw(parts_.clock->now().boot_ns, bytes, busy);
  if (!live.is_tried && live.trial.is_settled()) {
    const CpuShare* share = parts_.telemetry->share(live.id);
    learn_need(live, share == nullptr ? CpuShare() : *share);
  }
  shrink(live);
}

/// Similar jobs that start from now on are taken to need as much.
void Coordinator::learn_need(LiveAttempt& live, const CpuShare& share) {
  GpuNeed need = live.trial.need();
  if (std::exchange(live.is_tried, true)) need.measured = 0;  // it counts once
  need.cores = std::min(share.cores_wanted(), kMostCoresWanted);
  learn_need(live.id.job, need);
}

void Coordinator::learn_need(JobId id, const GpuNeed& need) {
  const Job& job = *parts_.world->job(id);
  const StepSpec& its = parts_.world->step_of(job).spec;
  const std::optional<RunSpec> run = parts_.world->parameters_of(job);
  const GpuShapes::News news = learnt_.add(its, run ? &*run : nullptr, need);
  if (news < GpuShapes::News::Needs) return;
  for (const auto& [key, sweep] : parts_.world->sweeps()) {
    const bool asks = sweep.open > 0 && std::ranges::any_of(sweep.steps, [&](const Step& step) {
                        return step.spec.gpu_auto && Learnt::are_alike(step.spec, its);
                      });
    if (!asks) continue;
    declare(sweep, queue_, capacity_);
    if (news == GpuShapes::News::Shapes) sort_by_shape(sweep);
  }
}

/// Gives back what it does not need of the GPU that it had alone.
void Coordinator::shrink(LiveAttempt& live) {
  const bool has_all = live.demand.is_auto && live.demand.share == kWholeGpu;
  if (!has_all || growths_of(*parts_.world->job(live.id.job)).gpu_memory > 0) return;
  const Demand* asked = queue_.demand({live.key, {}, shape_of(*parts_.world->job(live.id.job))});
  if (asked == nullptr || !asked->is_auto || asked->share == kWholeGpu) return;
  if (live.trial.need().bytes > promised_to(*asked, asked->most_gpu_memory)) return;
  capacity_.now_ns = parts_.clock->now().boot_ns;
  capacity_.shares.give_back(live.key.sweep, live.demand, capacity_.now_ns);
  live.demand.share = asked->share;
  live.demand.promise_bytes = asked->promise_bytes;
  capacity_.shares.take(live.key.sweep, live.demand, capacity_.now_ns);
  parts_.gpus->amend(live.gpus.front(), live.id.job, live.demand);
  parts_.gpus->fill(capacity_);
}

/// False: what it uses now was promised to others, or its step says what it may use.
bool Coordinator::make_room(LiveAttempt& live, std::uint64_t bytes) {
  if (live.demand.promise_bytes == 0 || live.demand.gpu_memory_bytes) return false;
  if (promise_of(bytes) > parts_.gpus->left_for(live.gpus.front(), live.id.job)) return false;
  live.demand.promise_bytes = promise_of(bytes);
  parts_.gpus->amend(live.gpus.front(), live.id.job, live.demand);
  parts_.gpus->fill(capacity_);
  learn_need(live.id.job, {.bytes = bytes});
  return true;
}

}  // namespace pergpu
