// Attempts that share their GPU by MPS (mps_daemons.h): who is to be a client, and how one leaves
// without taking the others with it.
//
// An attempt whose CUDA context broke while others were on its GPU may have been the one that broke
// it, or may not: no reading shows it.  Its next one takes turns instead, where what breaks is its
// own.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "coordinator/coordinator.h"
#include "gpu/pool/mps_daemons.h"
#include "job/gpu_parts.h"
#include "job/schedule/schedule.h"
#include "run/environment.h"

namespace pergpu {
namespace {

/// Shares need not sum to the whole at every moment: who has a quarter of a GPU may use half of its
/// multiprocessors while others leave them free, as NVIDIA's manual advises.
constexpr int kTimesItsShare = 2;

/// How long before it is killed an attempt that is being stopped is disconnected; of one whose
/// first process ends at once the keeper kills the others after two seconds.
constexpr std::int64_t kAheadOfKill = kSecond;

/// For the control program, before an attempt is stopped all the same.
constexpr std::int64_t kStopPatience = 2 * kSecond;
constexpr std::int64_t kKillPatience = kSecond;

}  // namespace

bool Coordinator::joins_mps(const Job& job, const LiveAttempt& live) const {
  const bool may = live.demand.sharing == Sharing::Mps && live.demand.share > 0 &&
                   live.engine == parts_.local && parts_.mps != nullptr;
  // Since a person last queued it.
  const bool is_next = job.moves > 0 || job.retries_used > 0 || job.gpu_memory_growths > 0;
  if (!may || !is_next || !job.last || !job.last->outcome) return may;
  return job.last->placement.mps && job.last->outcome->cls != OutcomeClass::Neighbour;
}

/// What the attempt finds in its environment; nullopt: it is no client.
std::optional<MpsClient> Coordinator::mps_client(const LiveAttempt& live) const {
  if (!parts_.world->job(live.id.job)->last->placement.mps) return std::nullopt;
  const std::string& gpu = live.gpus.front();
  MpsClient client{.folder = parts_.mps->folder_of(gpu)};
  if (live.demand.is_auto) return client;  // what it may use changes while it runs
  client.percent = std::min(100, kTimesItsShare * live.demand.share / (kWholeGpu / 100));
  const gpu::GpuLane* facts = parts_.gpus->facts(gpu);
  client.memory_bytes = promised_to(live.demand, facts == nullptr ? 0 : facts->total_bytes);
  return client;
}

/// `then` runs with the daemon there.  Without it the attempt runs all the same, by time slicing:
/// it is slower then, and `why` says so.
void Coordinator::hold_mps(const LiveAttempt& live, std::function<void(LiveAttempt&)> then) {
  parts_.mps->hold(live.gpus.front(), live.id,
                   [this, id = live.id, then = std::move(then)](const Result<void>& up) {
                     const auto it = live_.find(id.job);
                     if (it == live_.end() || it->second.id != id) return;
                     if (!up) it->second.mps_trouble = up.error().message;
                     then(it->second);
                   });
}

TreeRoots Coordinator::roots_of(const LiveAttempt& live) const {
  TreeRoots roots;
  const std::int32_t pid = parts_.world->job(live.id.job)->last->pid;
  for (const std::int32_t root : {pid, live.engine->keeper_pid(live.id)}) {
    if (root > 0) roots.push_back(root);
  }
  return roots;
}

/// Stops the attempt when it is no client any more: a client that is killed in a kernel takes all
/// clients of that GPU with it.  Those of its processes that have a handler for SIGTERM may still
/// want their GPU: they go a moment before they would be killed.
void Coordinator::stop_mps_client(LiveAttempt& live, StopHow how) {
  const std::string gpu = live.gpus.front();
  const bool at_once = how == StopHow::Kill;
  // Once: to many programs a second SIGTERM means at once.
  const auto stop = [engine = live.engine, id = live.id, how, done = std::make_shared<bool>()] {
    if (!std::exchange(*done, true)) engine->stop(id, how);
  };
  // A control program that hangs keeps no job alive.
  const std::int64_t now = parts_.clock->now().boot_ns;
  const std::int64_t patience = at_once ? kKillPatience : kStopPatience;
  attempt_timer(live.id, now + patience, [stop](LiveAttempt&) { stop(); });
  const TreeRoots roots = roots_of(live);
  if (at_once) {
    parts_.mps->disconnect(gpu, roots, MpsControl::Whom::All, [stop](bool) { stop(); });
    return;
  }
  parts_.mps->disconnect(gpu, roots, MpsControl::Whom::WouldDie,
                         [this, id = live.id, stop](bool leads) {
                           stop();
                           const auto it = live_.find(id.job);
                           if (it == live_.end() || it->second.id != id) return;
                           disconnect_before_kill(it->second, leads);
                         });
}

/// `leads`: its first process goes on for the whole of `grace`.  What outlives that one is killed
/// soon after it.
void Coordinator::disconnect_before_kill(LiveAttempt& live, bool leads) {
  if (live.disconnect_timer != 0) return;
  const Job& job = *parts_.world->job(live.id.job);
  const StepSpec& step = parts_.world->step_of(job).spec;
  const std::int64_t grace = std::chrono::nanoseconds(step.grace).count();
  const bool had_notice = step.signal && job.last->stop == StopCause::Cancel;
  const std::int64_t ahead = had_notice ? std::chrono::nanoseconds(step.signal->ahead).count() : 0;
  const std::int64_t wait =
      leads ? std::max(grace - kAheadOfKill, grace / 2) : std::min(grace / 2, kAheadOfKill);
  // From the same moment as the keeper counts, over restarts.
  const std::int64_t at = job.last->stop_at.boot_ns + ahead + wait;
  live.disconnect_timer = attempt_timer(live.id, at, [this](LiveAttempt& late) {
    late.disconnect_timer = 0;
    parts_.mps->disconnect(late.gpus.front(), roots_of(late), MpsControl::Whom::All, [](bool) {});
  });
}

/// It computes: is it a client?  A program that does not find its daemon runs without, and says
/// nothing.  Reported when it was not one twice: its first program may just have ended.
void Coordinator::check_mps(LiveAttempt& live) {
  constexpr int kMisses = 2;
  const bool is_known = live.is_mps_client || live.mps_misses >= kMisses;
  if (!parts_.world->job(live.id.job)->last->placement.mps || is_known || live.checks_mps) return;
  live.checks_mps = true;
  parts_.mps->check(live.gpus.front(), roots_of(live),
                    [this, id = live.id](std::optional<bool> is_client) {
                      const auto it = live_.find(id.job);
                      if (it == live_.end() || it->second.id != id) return;
                      LiveAttempt& its = it->second;
                      its.checks_mps = false;
                      its.is_mps_client = is_client.value_or(false);
                      if (is_client && !*is_client && ++its.mps_misses == kMisses) {
                        its.mps_trouble = "none of its processes is an MPS client";
                        touch(id.job);
                      }
                    });
}

}  // namespace pergpu
