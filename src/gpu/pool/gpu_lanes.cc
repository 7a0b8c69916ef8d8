// Looks are shared: all lanes that wait for one are judged by the next reading that was begun after
// they began to wait (GpuInventory::look).
#include "gpu/pool/gpu_lanes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "gpu/processes.h"
#include "job/gpu_slot.h"

namespace pergpu {
namespace {

constexpr std::int64_t kFirstSearch = kSecond;
constexpr std::int64_t kLastSearch = 60 * kSecond;
constexpr std::int64_t kFirstRelook = 50 * kMillisecond;
constexpr std::int64_t kLookAgain = 2 * kSecond;  // a foreign or dirty GPU: NVML cannot notify
constexpr int kMostDoublings = 5;                 // of that, while no job wants the GPU: 64 s
constexpr const char* kQuarantined = "quarantined";
constexpr const char* kDriverUpdated =
    "the NVIDIA driver was updated: reboot the machine, or reload the driver's kernel module";

}  // namespace

GpuLanes::GpuLanes(Parts parts) : parts_(std::move(parts)) {}
GpuLanes::~GpuLanes() = default;

void GpuLanes::discover(std::function<void()> known) {
  known_ = std::move(known);
  ask_for_look();
}

bool GpuLanes::any() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.seen; });
}

void GpuLanes::search(bool missing) {
  if (!discovered_ || searching_) return;
  if (!missing) {
    search_pause_ns_ = 0;
    return;
  }
  searching_ = true;
  search_pause_ns_ = std::clamp(2 * search_pause_ns_, kFirstSearch, kLastSearch);
  parts_.timers->at(parts_.clock->now().boot_ns + search_pause_ns_, [this] {
    search_look_ = looks_asked_ + 1;
    ask_for_look();
  });
}

/// Looks are answered in the order in which they were asked for.
std::int64_t GpuLanes::ask_for_look(std::function<void(const GpuLook&)> done) {
  const std::int64_t number = ++looks_asked_;
  mind_probe();
  parts_.inventory->look([this, number, done = std::move(done)](const GpuLook& look) {
    on_look(look, number);
    if (done) done(look);
  });
  return number;
}

/// While a job runs, or is about to, its GPU's errors must not be missed.  After the end of one the
/// next may start without another look.
void GpuLanes::mind_probe() {
  parts_.inventory->stay(std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& l) {
    return l.phase == Phase::Looking || l.phase == Phase::Ready || l.phase == Phase::InUse ||
           l.phase == Phase::Settling;
  }));
}

void GpuLanes::examine(std::function<void(const GpuLook&)> done) {
  (void)ask_for_look(std::move(done));
}

void GpuLanes::reconsider(const std::string& uuid) {
  Lane* l = lane(uuid);
  if (l == nullptr || l->phase != Phase::Closed) return;
  l->closures = 0;
  doubt_at(*l, parts_.clock->now().boot_ns);
}

/// "" when it is in use.
std::string GpuLanes::quarantine_words(const Lane& l) const {
  const gpu::Quarantine* q = care_ == nullptr ? nullptr : care_->quarantine(l.facts.uuid);
  if (q == nullptr) return {};
  const std::string name = l.listed ? to_string(place_of(l.facts.id.slot)) : l.facts.uuid;
  return fmt::format("{} (to use it again: {})", q->words, gpu::way_out(*q, name));
}

void GpuLanes::request_look(Lane& l) { l.look = ask_for_look(); }

GpuLanes::Lane* GpuLanes::lane(const std::string& uuid) {
  auto it = std::find_if(lanes_.begin(), lanes_.end(),
                         [&](const Lane& l) { return l.facts.uuid == uuid; });
  return it == lanes_.end() ? nullptr : &*it;
}
const GpuLanes::Lane* GpuLanes::lane(const std::string& uuid) const {
  return const_cast<GpuLanes*>(this)->lane(uuid);
}
const gpu::GpuLane* GpuLanes::facts(const std::string& uuid) const {
  const Lane* l = lane(uuid);
  return l == nullptr ? nullptr : &l->facts;
}

std::uint64_t GpuLanes::largest_memory(const std::function<bool(const GpuLane&)>& suits) const {
  std::uint64_t most = 0;
  for (const Lane& l : lanes_) {
    const GpuLane gpu{.id = l.facts.id,
                      .uuid = l.facts.uuid,
                      .name = l.facts.name,
                      .memory_bytes = l.reading.total_bytes};
    if (!suits || suits(gpu)) most = std::max(most, l.reading.total_bytes);
  }
  return most;
}

/// What keeps every job away, whatever the last look of the lane was for; "": nothing does.
std::string GpuLanes::closed_words(const Lane& l) const {
  const std::string quarantine = quarantine_words(l);
  return quarantine.empty() ? driver_trouble_ : "is quarantined: " + quarantine;
}

void GpuLanes::fill(Capacity& capacity) const {
  std::erase_if(capacity.gpus, [&](const GpuLane& gpu) {
    return is_instance(gpu.id.slot) && lane(gpu.uuid) == nullptr;
  });
  for (const Lane& l : lanes_) {
    auto it = std::find_if(capacity.gpus.begin(), capacity.gpus.end(),
                           [&](const GpuLane& g) { return g.uuid == l.facts.uuid; });
    if (it == capacity.gpus.end()) {
      capacity.gpus.push_back({.uuid = l.facts.uuid});
      it = capacity.gpus.end() - 1;
    }
    // Of an adopted attempt's GPU they are known later than the GPU itself.
    it->id = l.facts.id;
    it->name = l.facts.name;
    it->memory_bytes = l.reading.total_bytes;
    it->free_bytes = gpu::free_bytes(l.reading);
    it->distances = l.reading.distances;
    it->busy.clear();
    it->outsiders.clear();
    it->ends = l.gathers;
    fill_parts(l, *it);
    it->doubtful = l.phase == Phase::Doubtful;
    const std::string closed = closed_words(l);
    switch (l.phase) {
      case Phase::Idle:
      case Phase::Ready:
      case Phase::Doubtful:
        it->busy = closed.empty() && l.gathers ? "is ready, other GPUs are being checked" : closed;
        break;
      case Phase::LeasedByOther:
        it->busy = l.words;
        break;
      case Phase::Looking:
        it->busy = "is being checked";
        it->ends = true;
        if (!l.waiter) it->free_at_ns = parts_.clock->now().boot_ns;
        break;
      case Phase::InUse:
        if (!l.tenants.empty()) {
          fill_shared(l, closed, *it);
          break;
        }
        it->busy = l.words.empty() ? fmt::format("runs job {}", l.job.value)
                                   : fmt::format("is held by job {}: {}", l.job.value, l.words);
        it->ends = l.words.empty();
        break;
      case Phase::Settling:
        it->ends = true;
        it->free_at_ns = l.settling_since;  // in a moment: nothing is to be lent until then
        it->busy = fmt::format("is being cleaned up after job {}", l.job.value);
        break;
      case Phase::Closed:
        if (!closed.empty()) {
          it->busy = closed;
        } else {
          (l.foreign ? it->outsiders : it->busy) = l.words;
        }
        break;
    }
  }
}

void GpuLanes::acquire(const std::vector<std::string>& uuids, JobId job, const Demand& demand,
                       LaneId lane_id, std::function<void(bool)> done) {
  Lane* shared = demand.share > 0 ? lane(uuids.front()) : nullptr;
  if (shared != nullptr) {
    shared->tenants.push_back({.job = job, .part = lane_id.part, .demand = demand});
    auto told = [this, uuid = uuids.front(), job, done = std::move(done)](bool is_ready) {
      Lane* its = lane(uuid);
      if (!is_ready && its != nullptr) leave(*its, job);
      done(is_ready);
    };
    if (shared->phase == Phase::InUse) return join(*shared, job, demand, std::move(told));
    return acquire_one(uuids.front(), job, demand, std::move(told));
  }
  if (uuids.size() == 1) return acquire_one(uuids.front(), job, demand, std::move(done));
  struct Gathering {
    std::size_t pending = 0;
    bool has_failed = false;
    std::function<void(bool)> done;
  };
  auto all =
      std::make_shared<Gathering>(Gathering{.pending = uuids.size(), .done = std::move(done)});
  for (const std::string& uuid : uuids) {
    acquire_one(uuid, job, demand, [this, all, uuids, uuid](bool is_ready) {
      all->has_failed = all->has_failed || !is_ready;
      if (Lane* its = lane(uuid)) its->gathers = is_ready;
      if (--all->pending > 0) return;
      for (const std::string& one : uuids) {
        if (Lane* its = lane(one)) its->gathers = false;
      }
      all->done(!all->has_failed);
    });
  }
}

void GpuLanes::acquire_one(const std::string& uuid, JobId job, const Demand& demand,
                           std::function<void(bool)> done) {
  Lane* l = lane(uuid);
  if (l == nullptr) {
    parts_.timers->at(0, [done = std::move(done)] { done(false); });
    return;
  }
  // A lane that is ready for a job that ignores other processes may have some.
  const bool is_as_strict = l->outsiders == demand.outsiders && l->outsiders != Outsiders::Fit;
  const bool is_strict = is_as_strict || l->outsiders == Outsiders::Avoid;
  l->outsiders = demand.outsiders;
  l->needed_bytes = needed_beside_others(demand);
  if (l->phase == Phase::Ready && is_strict) {
    done(true);
    return;
  }
  l->job = job;
  l->waiter = std::move(done);
  if (Result<void> opened = open_leases(); !opened) {
    close(*l, "unknown", opened.error().message);
    return;
  }
  if (!l->lease) {
    Result<gpu::Lease> lease = folder_->take(uuid);
    if (!lease && lease.error().kind == ErrorKind::Busy) {
      lease_by_other(*l);
      watch_->wait_for(uuid);
      return;
    }
    if (!lease) {
      close(*l, "unknown", lease.error().message);
      return;
    }
    l->lease = std::move(*lease);
  }
  l->phase = Phase::Looking;
  request_look(*l);
}

Result<void> GpuLanes::open_leases() {
  if (folder_) return {};
  Result<gpu::LeaseFolder> folder =
      parts_.locks.empty() ? gpu::LeaseFolder::open() : gpu::LeaseFolder::open_at(parts_.locks);
  if (!folder) return std::move(folder).error();
  folder_ = std::move(*folder);
  auto watch = gpu::LeaseWatch::open(
      *parts_.loop, *parts_.clock, *folder_,
      [this](const std::string& id, Result<gpu::Lease> lease) { on_lease(id, std::move(lease)); });
  if (!watch) {
    folder_.reset();
    return std::move(watch).error();
  }
  watch_ = std::move(*watch);
  return {};
}

void GpuLanes::adopt_lease(const std::string& uuid, os::UniqueFd& fd) {
  Lane* l = lane(uuid);
  if (l == nullptr || l->lease || !fd || !open_leases()) return;
  Result<gpu::Lease> lease = folder_->adopt(uuid, std::move(fd));
  if (lease) l->lease = std::move(*lease);
}

void GpuLanes::lease_by_other(Lane& l) {
  l.phase = Phase::LeasedByOther;
  l.state = "leased";
  const gpu::LeaseHolder holder = folder_->holder(l.facts.uuid);
  l.words = gpu::lease_words(holder, getuid(), holder.uid ? gpu::user_name(*holder.uid) : "");
  answer(l, false);
}

void GpuLanes::on_lease(const std::string& uuid, Result<gpu::Lease> lease) {
  Lane* l = lane(uuid);
  if (l == nullptr || l->phase != Phase::LeasedByOther) return;  // dropped again by RAII
  if (!lease) {
    close(*l, "unknown", lease.error().message);
    return;
  }
  l->lease = std::move(*lease);
  l->phase = Phase::Looking;
  request_look(*l);
}

void GpuLanes::answer(Lane& l, bool ready) {
  if (!l.waiter) return;
  parts_.timers->at(0, [waiter = std::exchange(l.waiter, {}), ready] { waiter(ready); });
}

void GpuLanes::close(Lane& l, std::string state, std::string words) {
  l.phase = Phase::Closed;
  l.state = std::move(state);
  l.words = std::move(words);
  l.foreign = l.state == "foreign";
  l.lease.release();
  answer(l, false);
  l.closed_at = parts_.clock->now().boot_ns;
  doubt_at(l, l.closed_at + (kLookAgain << std::min(l.closures++, kMostDoublings)));
}

void GpuLanes::doubt_at(Lane& l, std::int64_t boot_ns) {
  if (l.doubtful_timer != 0) parts_.timers->cancel(l.doubtful_timer);
  l.doubtful_at = boot_ns;
  const std::string uuid = l.facts.uuid;
  l.doubtful_timer = parts_.timers->at(boot_ns, [this, uuid] {
    Lane* again = lane(uuid);
    again->doubtful_timer = 0;
    if (again->phase != Phase::Closed) return;
    again->phase = Phase::Doubtful;  // a job may try it this turn, else settle() asks for a look
    again->look = 0;
  });
}

void GpuLanes::become_ready(Lane& l) {
  if (l.after_job && folder_->contended(l.facts.uuid)) {
    // Another user waits: it is their turn (gpu/lease.h, "Fairness").
    l.after_job = false;
    watch_->wait_for(l.facts.uuid, gpu::LeaseWatch::Manner::AfterYield);
    l.lease.release();
    l.phase = Phase::LeasedByOther;
    l.state = "leased";
    l.words = "is passed to another user, whose turn it is";
    answer(l, false);  // the job may have another GPU meanwhile
    return;
  }
  l.phase = Phase::Ready;
  l.after_job = false;
  l.looks = 0;
  l.closures = 0;
  if (l.waiter) {
    std::exchange(l.waiter, {})(true);
  }
}

void GpuLanes::on_look(const GpuLook& look, std::int64_t number) {
  bool is_news = !discovered_;
  if (number == search_look_) searching_ = false;
  if (care_ != nullptr) care_->take(look);
  if (look.complete) {
    trouble_.clear();
    is_news = take_readings(look) || is_news;
  } else if (!look.no_driver) {
    trouble_ = look.why;
  }
  discovered_ = true;
  if (is_news && known_) known_();
  if (look.driver_mismatch) driver_trouble_ = kDriverUpdated;
  if (look.complete) driver_trouble_.clear();
  const std::string why = look.driver_mismatch ? driver_trouble_ : look.why;
  const bool is_valid = look.complete && !look.driver_mismatch;
  for (Lane& l : lanes_) {
    judge_joiners(l, number, is_valid, why);
    const bool is_lost = look.complete && !l.listed && l.phase == Phase::Idle;
    // A look that began before the lane was there to be judged may show what was before.
    const bool is_answered = l.look != 0 && l.look <= number;
    const bool is_released =
        l.phase == Phase::Closed && l.state == kQuarantined && quarantine_words(l).empty();
    if (is_lost || is_released || (is_answered && l.phase == Phase::Doubtful)) {
      judge_unleased(l, is_valid);
    } else if (is_answered && (l.phase == Phase::Looking || l.phase == Phase::Settling)) {
      judge_lane(l, is_valid, why);
    }
  }
}

gpu::UseQuestion GpuLanes::question_of(const Lane& l, Outsiders outsiders) const {
  return {.in_container = look_.in_container,
          .running_ours = false,
          .after_job = l.after_job,
          .idle_bytes = idle_.of(l.facts.uuid),
          .outsiders = outsiders,
          .needed_bytes = l.needed_bytes,
          .ours = parts_.ours,
          .user_name = gpu::user_name};
}

gpu::UseVerdict GpuLanes::verdict_of(const Lane& l, Outsiders outsiders) const {
  return gpu::judge(l.reading, question_of(l, outsiders));
}

/// What a verdict that keeps jobs away is called.
std::string GpuLanes::state_of(const gpu::UseVerdict& verdict) {
  if (verdict.use == gpu::GpuUse::UnknownHolder) return "foreign";
  if (verdict.use == gpu::GpuUse::Ours) return "dirty";
  return std::string(gpu::to_string(verdict.use));
}

/// A lane that no job tries: free again, or still not.
void GpuLanes::judge_unleased(Lane& l, bool complete) {
  l.look = 0;
  if (const std::string words = quarantine_words(l); !words.empty()) {
    close(l, kQuarantined, words);
    return;
  }
  if (!complete) {
    close(l, l.state, l.words);
    return;
  }
  l.verdict = verdict_of(l, Outsiders::Avoid);
  if (!l.verdict.startable()) {
    close(l, state_of(l.verdict), l.verdict.words);
    return;
  }
  l.phase = Phase::Idle;
  l.after_job = false;
  l.closures = 0;
}

void GpuLanes::judge_lane(Lane& l, bool complete, const std::string& why) {
  l.look = 0;
  if (const std::string words = quarantine_words(l); !words.empty()) {
    close(l, kQuarantined, words);
    return;
  }
  if (!complete) {
    close(l, "unknown", why.empty() ? "the GPU's state is unknown" : why);
    return;
  }
  l.verdict = verdict_of(l, l.outsiders);
  if (l.verdict.startable()) {
    become_ready(l);
    return;
  }
  const std::int64_t now = parts_.clock->now().boot_ns;
  // Beside others it can't be determined whose memory is still in use.
  const bool may_be_room = l.outsiders == Outsiders::Fit && l.verdict.use == gpu::GpuUse::Foreign;
  const bool may_pass =
      l.verdict.use == gpu::GpuUse::Dirty || l.verdict.use == gpu::GpuUse::Ours || may_be_room;
  const std::int64_t limit = std::chrono::nanoseconds(gpu::kDirtyAfter).count();
  if (l.phase == Phase::Settling && may_pass && now - l.settling_since < limit) {
    const std::int64_t wait = kFirstRelook << std::min(l.looks, 7);
    ++l.looks;
    const std::string uuid = l.facts.uuid;
    parts_.timers->at(std::min(now + wait, l.settling_since + limit), [this, uuid] {
      Lane* again = lane(uuid);
      if (again != nullptr && again->phase == Phase::Settling) request_look(*again);
    });
    return;
  }
  close(l, state_of(l.verdict), l.verdict.words);
}

void GpuLanes::occupy(const std::string& uuid, JobId job, const Demand& demand, LaneId lane_id) {
  Lane* l = lane(uuid);
  if (l == nullptr) {
    // Adopted after a restart, before the first look: facts follow with it.
    l = &lanes_.emplace_back();
    l->facts.uuid = uuid;
    l->facts.id = {.pool = LaneId::Pool::Gpu};
    l->reading = {.uuid = uuid, .health = GpuHealth::Unknown, .note = "not checked yet"};
  }
  if (demand.share > 0) {
    auto own = std::ranges::find(l->tenants, job, &Tenant::job);
    if (own == l->tenants.end()) {
      own = l->tenants.insert(own, {.job = job, .part = lane_id.part, .demand = demand});
    }
    own->runs = true;
  }
  l->phase = Phase::InUse;
  l->job = job;
  l->words.clear();
  l->closures = 0;
}

int GpuLanes::lease_fd(const std::string& uuid) const {
  const Lane* l = lane(uuid);
  return l == nullptr || !l->lease ? -1 : l->lease.fd();
}

void GpuLanes::tell(const std::string& uuid, JobId job, const std::string& words) {
  Lane* l = lane(uuid);
  if (l == nullptr || l->phase != Phase::InUse) return;
  const auto tenant = std::ranges::find(l->tenants, job, &Tenant::job);
  (tenant == l->tenants.end() ? l->words : tenant->words) = words;
}

void GpuLanes::vacate(const std::string& uuid, JobId job, bool gone) {
  Lane* l = lane(uuid);
  if (l == nullptr) return;
  if (!gone) l->remains = fmt::format("processes of job {} may still be running", job.value);
  if (l->tenants.empty()) return settle_lane(*l);
  leave(*l, job);
}

/// None of our jobs is on it any more.
void GpuLanes::settle_lane(Lane& l) {
  l.after_job = true;
  l.looks = 0;
  l.settling_since = parts_.clock->now().boot_ns;
  if (!l.remains.empty()) {
    close(l, "dirty", std::exchange(l.remains, {}));
    return;
  }
  l.phase = Phase::Settling;
  if (!l.lease && open_leases()) {
    // Adopted after a restart: the keeper held the lease until now.
    if (Result<gpu::Lease> lease = folder_->take(l.facts.uuid)) l.lease = std::move(*lease);
  }
  if (!l.lease) {
    l.phase = Phase::Idle;
    return;
  }
  request_look(l);
}

void GpuLanes::settle(const std::function<bool(const std::string&)>& wanted) {
  std::int64_t look = 0;  // one for all
  for (Lane& l : lanes_) {
    if (l.phase == Phase::Ready && !l.gathers) {
      l.phase = Phase::Idle;
      l.lease.release();
    }
    if (l.phase == Phase::LeasedByOther && !l.waiter && !wanted(l.facts.uuid)) {
      watch_->stop(l.facts.uuid);
      l.phase = Phase::Idle;
    }
    const std::int64_t soon = l.closed_at + kLookAgain;
    // Closed without an event; looks are to find out when that is over.
    if (l.phase == Phase::Idle && l.seen) {
      if (const std::string words = quarantine_words(l); !words.empty()) {
        close(l, kQuarantined, words);
      } else if (!driver_trouble_.empty() && wanted(l.facts.uuid)) {
        close(l, "unknown", driver_trouble_);
      }
    }
    const bool may_change = l.phase == Phase::Closed && l.state != kQuarantined;
    if (may_change && l.doubtful_at > soon && wanted(l.facts.uuid)) {
      doubt_at(l, soon);
    }
    if (l.phase == Phase::Doubtful && l.look == 0) {
      if (look == 0) look = ask_for_look();
      l.look = look;
    }
  }
  mind_probe();
}

}  // namespace pergpu
