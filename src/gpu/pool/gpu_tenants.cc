// Jobs that share a GPU: who joins those that are there, who leaves, and what the scheduler gets to
// know.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/pool/gpu_lanes.h"

namespace pergpu {
namespace {

constexpr std::int64_t kTryAgain = 2 * kSecond;

}  // namespace

/// What is not booked here is free: the scheduler's books follow.
void GpuLanes::fill_parts(const Lane& l, GpuLane& gpu) const {
  const GpuParts before = std::exchange(gpu.parts, {});
  for (const Tenant& tenant : l.tenants) {
    gpu.parts.give(tenant.part, {.share = tenant.demand.share,
                                 .bytes = promised_to(tenant.demand, l.reading.total_bytes),
                                 .until_ns = before.of(tenant.part).until_ns});
  }
  if (!gpu.parts.any()) return;
  gpu.ends = true;
  gpu.free_at_ns = gpu.parts.free_at_ns();
}

/// What is left of one of its tenants; "": nothing is known to be.
std::string GpuLanes::remains_words(const Lane& l) const {
  if (!l.remains.empty()) return l.remains;
  for (const Tenant& tenant : l.tenants) {
    if (tenant.words.empty()) continue;
    return fmt::format("is held by job {}: {}", tenant.job.value, tenant.words);
  }
  return {};
}

/// `closed`: what keeps every job away from the GPU.
void GpuLanes::fill_shared(const Lane& l, const std::string& closed, GpuLane& gpu) const {
  const std::string remains = remains_words(l);
  gpu.ends = remains.empty();
  gpu.busy = closed.empty() ? remains : closed;
  if (!gpu.busy.empty() || parts_.clock->now().boot_ns >= l.apart_until) return;
  gpu.busy = l.apart;
  gpu.outsiders = l.beside;
}

void GpuLanes::join(Lane& l, JobId job, const Demand& demand, std::function<void(bool)> done) {
  l.joiners.push_back(
      {.job = job, .demand = demand, .look = ask_for_look(), .done = std::move(done)});
}

/// What keeps everybody from joining now; "": nothing does.
std::string GpuLanes::closed_to_all(const Lane& l, bool is_valid, const std::string& why) const {
  if (l.phase != Phase::InUse) return "its jobs have ended";
  if (!is_valid) return why.empty() ? "the GPU's state is unknown" : why;
  if (l.reading.health != GpuHealth::Ok) return l.reading.note;
  if (!l.lease) return "a job of an earlier coordinator still has its lease";
  if (std::string words = closed_words(l); !words.empty()) return words;
  if (std::string words = remains_words(l); !words.empty()) return words;
  if (folder_ && folder_->contended(l.facts.uuid)) {
    return "is passed to another user when its jobs have ended";
  }
  std::uint64_t promised = 0;
  for (const Tenant& tenant : l.tenants) {
    if (tenant.runs) promised += promised_to(tenant.demand, l.reading.total_bytes);
  }
  std::uint64_t listed = 0;
  for (const GpuProcess& process : l.reading.processes) {
    // Of one that has ended, as a rule: its memory is to be the next one's.
    if (!look_.in_container && process.compute && !process.matched) {
      return fmt::format("still used by pid {} after a job ended", process.pid);
    }
    listed += process.memory_bytes.value_or(0);
  }
  if (look_.in_container && promised > 0 && listed > promised) {
    return fmt::format("{} in use, but only {} reserved for its jobs", gpu::bytes_in_words(listed),
                       gpu::bytes_in_words(promised));
  }
  return {};
}

/// What others on it, or unexplained memory, have against such a job; "": nothing.
std::string GpuLanes::closed_to(const Lane& l, const Demand& demand) const {
  if (demand.outsiders == Outsiders::Ignore) return {};
  // How much others will take is not known: what is promised to several may not be there then.
  gpu::UseQuestion question = question_of(l, Outsiders::Avoid);
  question.running_ours = true;
  question.after_job = false;
  const gpu::UseVerdict verdict = gpu::judge(l.reading, question);
  if (verdict.use != gpu::GpuUse::Ours && !verdict.startable()) return verdict.words;
  const std::uint64_t left =
      gpu::unexplained_bytes(l.reading, idle_.of(l.facts.uuid).value_or(gpu::kMaxIdleBytes));
  if (left <= gpu::kCleanAboveIdleBytes) return {};
  return fmt::format("{} in use that belongs to no known process", gpu::bytes_in_words(left));
}

void GpuLanes::judge_joiners(Lane& l, std::int64_t number, bool is_valid, const std::string& why) {
  std::vector<Joiner> waiting;
  for (Joiner& joiner : std::exchange(l.joiners, {})) {
    if (joiner.look > number) {
      waiting.push_back(std::move(joiner));
      continue;
    }
    l.apart = closed_to_all(l, is_valid, why);
    l.beside = l.apart.empty() ? closed_to(l, joiner.demand) : "";
    const bool may_join = l.apart.empty() && l.beside.empty();
    if (!may_join) {
      l.apart_until = parts_.clock->now().boot_ns + kTryAgain;
      parts_.timers->at(l.apart_until, [] {});  // the turn then tries again
    }
    parts_.timers->at(0, [done = std::move(joiner.done), may_join] { done(may_join); });
  }
  l.joiners = std::move(waiting);
}

void GpuLanes::amend(const std::string& uuid, JobId job, const Demand& demand) {
  Lane* l = lane(uuid);
  if (l == nullptr) return;
  const auto tenant = std::ranges::find(l->tenants, job, &Tenant::job);
  if (tenant != l->tenants.end()) tenant->demand = demand;
}

std::uint64_t GpuLanes::left_for(const std::string& uuid, JobId job) const {
  const Lane* l = lane(uuid);
  if (l == nullptr) return 0;
  std::uint64_t promised = 0;
  for (const Tenant& tenant : l->tenants) {
    if (tenant.job != job) promised += promised_to(tenant.demand, l->reading.total_bytes);
  }
  return l->reading.total_bytes - std::min(promised, l->reading.total_bytes);
}

void GpuLanes::forgo(const std::string& uuid, JobId job) {
  if (Lane* l = lane(uuid)) leave(*l, job);
}

/// It has ended, or does not start after all.
void GpuLanes::leave(Lane& l, JobId job) {
  const bool was_there =
      std::erase_if(l.tenants, [&](const Tenant& tenant) { return tenant.job == job; }) > 0;
  if (was_there && l.tenants.empty() && l.phase == Phase::InUse) settle_lane(l);
}

}  // namespace pergpu
