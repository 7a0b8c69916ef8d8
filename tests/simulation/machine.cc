// The simulated machine (machine.h).
#include "simulation/machine.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace pergpu::simulation {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::int64_t kProbeRests = 60 * kSecond;

/// Those that may happen here: hardware, ended by a reset or by a reboot, and of the program.
constexpr std::int64_t kFatalXid = 79;
constexpr std::int64_t kHardwareXids[] = {kFatalXid, 48, 119};

bool is_of_hardware(std::int64_t xid) {
  return std::find(std::begin(kHardwareXids), std::end(kHardwareXids), xid) !=
         std::end(kHardwareXids);
}

bool is_ill(const GpuReading& reading) {
  return reading.health == GpuHealth::Lost || reading.repair_pending.value_or(false) ||
         reading.recovery_action.value_or(0) != 0;
}

[[noreturn]] void violated(AttemptId id, const std::string& what) {
  throw Violation("attempt " + to_string(id) + ": " + what);
}

}  // namespace

Machine::Machine(Clock& clock, Agenda& agenda, Dice& dice, Faults& faults, int gpus)
    : clock_(clock), agenda_(agenda), dice_(dice), faults_(faults) {
  for (int i = 0; i < gpus; ++i) {
    gpus_.push_back(
        {.reading = {.uuid = "GPU-" + std::to_string(i) + "1111111-0000-0000-0000-000000000000",
                     .name = i % 2 == 0 ? "Fake A" : "Fake B",
                     .index = i,
                     .total_bytes = 80 * kGiB,
                     .repair_pending = false,
                     .repair_failed = false,
                     .recovery_action = 0}});
  }
}

Gpu& Machine::gpu(const std::string& uuid) {
  return *std::find_if(gpus_.begin(), gpus_.end(),
                       [&](const Gpu& one) { return one.reading.uuid == uuid; });
}

std::size_t Machine::alive() const {
  return static_cast<std::size_t>(std::count_if(
      trees_.begin(), trees_.end(), [](const auto& entry) { return entry.second.alive(); }));
}

void Machine::tell(EngineEvent event) {
  if (!tell_) return;
  told_until_ = std::max(told_until_, clock_.boot_ns + dice_.spread(10'000, kMillisecond));
  agenda_.at(told_until_, Owner::Coordinator, [this, event = std::move(event)] { tell_(event); });
}

// ---- attempts --------------------------------------------------------------------------------

void Machine::check_may_use(const std::string& uuid, bool avoids_outsiders, bool shares) const {
  for (const Gpu& one : gpus_) {
    if (one.reading.uuid != uuid) continue;
    if (avoids_outsiders && one.leftover != 0) {
      throw Violation("a start on " + uuid + ", where memory of job " +
                      std::to_string(one.leftover) + " is not back");
    }
    if (one.told_fatal) throw Violation("a start on " + uuid + ", which only a reboot mends");
    if (!one.shown_well) throw Violation("a start on " + uuid + ", which is not well");
    if (avoids_outsiders && one.shown_foreign) {
      throw Violation("a start on " + uuid + ", where a process of others was seen");
    }
  }
  for (const auto& [id, tree] : trees_) {
    const bool is_there = std::find(tree.gpus.begin(), tree.gpus.end(), uuid) != tree.gpus.end();
    const bool is_neighbour = shares && tree.shares;  // the history counts what they have
    if (is_there && !is_neighbour && (tree.alive() || tree.phase == Tree::Phase::Sent)) {
      violated(id, "is alive on " + uuid + " where another is to start");
    }
  }
}

void Machine::start(LaneId lane, AttemptPlan plan, const std::vector<std::string>& gpus) {
  if (trees_.contains(plan.id)) violated(plan.id, "was started twice");
  if (truths_[plan.id].received) violated(plan.id, "was started again");
  for (const auto& [id, other] : trees_) {
    const bool may_run = other.alive() || other.phase == Tree::Phase::Sent;
    if (may_run && id.job == plan.id.job) violated(plan.id, "starts beside " + to_string(id));
    if (may_run && gpus.empty() && other.lane == lane) {
      violated(plan.id, "starts on " + to_string(lane) + ", where " + to_string(id) + " is");
    }
  }
  for (const std::string& uuid : gpus) {
    if (plan.lease_fds.empty()) violated(plan.id, "starts without the lease of " + uuid);
  }
  Tree& tree = trees_[plan.id];
  tree.id = plan.id;
  tree.lane = lane;
  tree.gpus = gpus;
  tree.shares = std::any_of(plan.env.begin(), plan.env.end(), [](const std::string& variable) {
    return variable.starts_with("PERGPU_GPU_SHARE=");
  });
  tree.grace_ns = std::chrono::nanoseconds(plan.grace).count();
  for (const int fd : plan.lease_fds) tree.leases.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  truths_[plan.id].received = true;
  tree.next = agenda_.in(dice_.spread(50'000, 20 * kMillisecond), Owner::Machine,
                         [this, id = plan.id] { execute(id); });
}

void Machine::execute(AttemptId id) {
  Tree& tree = trees_.at(id);
  tree.next = 0;
  if (faults_.bad_starts && dice_.percent(10)) {
    tree.phase = Tree::Phase::NotStarted;
    tree.leases.clear();
    truths_[id].status_known = true;
    truths_[id].not_started = true;
    const int code = dice_.pick({ENOENT, EAGAIN, ENOSPC, EACCES, EIO});
    tree.failure = {.id = id, .phase = "exec", .os_errno = code, .object = "program"};
    return report(tree);
  }
  tree.phase = Tree::Phase::Running;
  tree.pid = ++last_pid_;
  for (const std::string& uuid : tree.gpus) {
    if (is_ill(gpu(uuid).reading)) mark_ill(gpu(uuid));
  }
  tree.stubborn = faults_.stubborn && dice_.percent(20);
  tree.polite = dice_.percent(20);
  report_start(tree);
  if (tree.term_asked) return stop(id, StopHow::TermThenKill);
  const bool fails = dice_.percent(faults_.failing_percent);
  const std::int64_t lasts = dice_.spread(kMillisecond, 4 * kHour);
  tree.next = agenda_.in(lasts, Owner::Machine, [this, id, fails] {
    if (!fails) return end(id, 0, {});
    if (dice_.percent(20)) return end(id, {}, dice_.pick({6, 9, 11, 15}));
    if (dice_.percent(10)) {
      trees_.at(id).missing_output = "model.pt";
      truths_[id].output_missing = true;
      return end(id, 0, {});
    }
    end(id, dice_.pick({1, 1, 1, 2, 3, 75, 137}), {});
  });
  if (dice_.percent(3)) tell(engine_event::MemoryExceeded{.id = id, .bytes = 9 * kGiB});
  if (dice_.percent(5)) {
    tell(engine_event::Quiet{.id = id, .is_stall = dice_.one_in(2), .silent_ns = kHour});
  }
  if (dice_.percent(10)) tell(engine_event::Notified{.id = id, .line = "READY=1"});
}

void Machine::end(AttemptId id, std::optional<int> exit_code, std::optional<int> signal) {
  Tree& tree = trees_.at(id);
  if (tree.next != 0) agenda_.cancel(std::exchange(tree.next, 0));
  tree.phase = Tree::Phase::Ended;
  tree.ended_at = clock_.boot_ns;
  tree.exit_code = exit_code;
  tree.signal = signal;
  tree.leases.clear();
  Truth& truth = truths_[id];
  if (tree.keeper_lives) {
    truth.status_known = true;
    truth.exit_code = exit_code;
    truth.signal = signal;
  }
  for (const std::string& uuid : tree.gpus) {
    if (!faults_.slow_memory || !dice_.percent(30)) continue;
    Gpu& left = gpu(uuid);
    left.leftover = id.job.value;
    left.reading.used_bytes = 8 * kGiB;
    agenda_.in(dice_.spread(kMillisecond, 100 * kSecond), Owner::Machine, [this, uuid] {
      gpu(uuid).leftover = 0;
      gpu(uuid).reading.used_bytes = 0;
    });
  }
  if (tree.keeper_lives) report(tree);
}

void Machine::stop(AttemptId id, StopHow how) {
  const auto it = trees_.find(id);
  if (it == trees_.end()) return;
  Tree& tree = it->second;
  if (!tree.keeper_lives) return;
  if (tree.phase == Tree::Phase::Sent) tree.term_asked = true;
  if (!tree.alive()) return;
  const bool ends_at_once = how == StopHow::Kill;
  if (ends_at_once || tree.stubborn) {
    const std::int64_t wait = ends_at_once ? 0 : (tree.term_asked ? 0 : tree.grace_ns);
    tree.term_asked = true;
    agenda_.in(wait + dice_.spread(10'000, kMillisecond), Owner::Machine, [this, id] {
      const auto again = trees_.find(id);
      if (again != trees_.end() && again->second.alive()) end(id, {}, 9);
    });
    return;
  }
  tree.term_asked = true;
  agenda_.in(dice_.spread(100'000, kSecond), Owner::Machine, [this, id] {
    const auto again = trees_.find(id);
    if (again == trees_.end() || !again->second.alive()) return;
    if (again->second.polite) return end(id, 0, {});
    end(id, {}, 15);
  });
}

/// Programs that know the signal save what they have and ask for another start; others end by it.
void Machine::signal(AttemptId id, int number) {
  const auto it = trees_.find(id);
  if (it == trees_.end()) return;
  Tree& tree = it->second;
  if (!tree.keeper_lives || !tree.alive() || std::exchange(tree.signalled, true)) return;
  const int what = static_cast<int>(dice_.below(4));
  if (what == 0) return;
  agenda_.in(dice_.spread(100'000, 10 * kSecond), Owner::Machine, [this, id, what, number] {
    const auto again = trees_.find(id);
    if (again == trees_.end() || !again->second.alive()) return;
    if (what == 1) return end(id, 75, {});
    if (what == 2) return end(id, 0, {});
    end(id, {}, number);
  });
}

void Machine::acknowledge(AttemptId id) {
  const auto it = trees_.find(id);
  if (it == trees_.end()) return;
  if (it->second.alive() || it->second.phase == Tree::Phase::Sent) {
    violated(id, "is forgotten while it runs");
  }
  trees_.erase(it);
}

void Machine::report_start(const Tree& tree) {
  tell(engine_event::Started{
      .id = tree.id, .pid = tree.pid, .start_ticks = static_cast<std::uint64_t>(tree.pid)});
}

void Machine::report(const Tree& tree) {
  if (tree.phase == Tree::Phase::NotStarted) return tell(tree.failure);
  if (tree.phase != Tree::Phase::Ended) return;
  const engine_event::Exited exited{
      .id = tree.id,
      .exit_code = tree.exit_code,
      .signal = tree.signal,
      .missing_output = tree.missing_output,
      .exited_at = {.wall_ns = tree.ended_at + clock_.wall_offset, .boot_ns = tree.ended_at}};
  tell(exited);
  if (dice_.one_in(10)) tell(exited);  // a keeper that is asked what it holds says it once more
}

// ---- faults ----------------------------------------------------------------------------------

/// The keeper of an attempt is gone: its tree is ended, which may take long, and then it is lost.
void Machine::bury(AttemptId id) {
  const std::int64_t wait =
      dice_.one_in(10) ? dice_.spread(kSecond, kHour) : dice_.spread(kMillisecond, 3 * kSecond);
  agenda_.in(wait, Owner::Coordinator, [this, id] {
    const auto it = trees_.find(id);
    if (it != trees_.end() && it->second.alive()) end(id, {}, 9);
    if (it != trees_.end()) it->second.phase = Tree::Phase::Ended;
    tell(engine_event::Lost{.id = id, .why = "its keeper was killed", .proven_gone = true});
  });
}

void Machine::kill_a_keeper() {
  std::vector<AttemptId> held;
  for (const auto& [id, tree] : trees_) {
    if (tree.keeper_lives && tree.phase != Tree::Phase::Ended) held.push_back(id);
  }
  if (held.empty()) return;
  Tree& tree = trees_.at(dice_.of(held));
  if (tree.phase == Tree::Phase::NotStarted) return;  // recorded: what is known stays known
  tree.keeper_lives = false;
  truths_[tree.id].keeper_killed = true;
  if (tree.phase == Tree::Phase::Sent) {  // nothing was executed yet
    agenda_.cancel(std::exchange(tree.next, 0));
    tree.phase = Tree::Phase::Ended;
    tree.leases.clear();
  }
  if (tell_) bury(tree.id);
}

void Machine::disconnect() {
  tell_ = {};
  agenda_.cancel_all(Owner::Coordinator);
  told_until_ = 0;
  probe_stays_ = false;
  last_look_ = -kHour;
  for (auto& [id, truth] : truths_) truth.told_broken_ns = -1;
  for (Gpu& one : gpus_) {  // what a coordinator does not know of is lost with its probe
    one.xids.clear();
    one.told_fatal = false;
  }
  for (auto it = trees_.begin(); it != trees_.end();) {
    Tree& tree = it->second;
    if (tree.phase != Tree::Phase::Sent || dice_.one_in(2)) {
      ++it;
      continue;
    }
    agenda_.cancel(tree.next);
    truths_[tree.id].received = false;
    it = trees_.erase(it);
  }
}

void Machine::adopt(const std::vector<ExpectedAttempt>& expected) {
  std::vector<AttemptId> known;
  for (const ExpectedAttempt& one : expected) {
    known.push_back(one.id);
    const auto it = trees_.find(one.id);
    if (it == trees_.end()) {
      tell(engine_event::Lost{.id = one.id, .why = "its keeper was killed", .proven_gone = true});
      continue;
    }
    const Tree& tree = it->second;
    if (!tree.keeper_lives) {
      bury(one.id);
    } else if (tree.alive()) {
      engine_event::Started started{
          .id = one.id, .pid = tree.pid, .start_ticks = static_cast<std::uint64_t>(tree.pid)};
      for (const os::UniqueFd& lease : tree.leases) {
        started.leases.push_back(
            std::make_shared<os::UniqueFd>(::fcntl(lease.get(), F_DUPFD_CLOEXEC, 3)));
      }
      tell(started);
    } else {
      report(tree);
    }
  }
  for (const auto& [id, tree] : trees_) {
    if (std::find(known.begin(), known.end(), id) != known.end()) continue;
    if (tree.alive() || tree.phase == Tree::Phase::Sent) violated(id, "runs and is not known of");
    if (tree.keeper_lives) report(tree);  // recorded, but its keeper was not told
  }
  // A keeper that is gone says nothing: what it held is remembered by nobody.
  std::erase_if(trees_, [&](const auto& entry) {
    return !entry.second.keeper_lives &&
           std::find(known.begin(), known.end(), entry.first) == known.end();
  });
}

void Machine::restart() {
  for (auto& [id, tree] : trees_) {
    truths_[id].machine_restarted = true;
    if (tree.next != 0) agenda_.cancel(tree.next);
  }
  trees_.clear();
  agenda_.cancel_all(Owner::Machine);
  for (Gpu& one : gpus_) {
    one.leftover = 0;
    one.reading.used_bytes = 0;
    one.reading.processes.clear();
    one.needs_a_person = one.reading.recovery_action == 2;
  }
}

void Machine::released(const std::string& uuid) {
  gpu(uuid).told_fatal = false;
  gpu(uuid).needs_a_person = false;
}

std::vector<AttemptId> Machine::attempts_on(const Gpu& gpu) const {
  std::vector<AttemptId> there;
  for (const auto& [id, tree] : trees_) {
    const std::string& uuid = gpu.reading.uuid;
    if (std::find(tree.gpus.begin(), tree.gpus.end(), uuid) != tree.gpus.end()) {
      there.push_back(id);
    }
  }
  return there;
}

void Machine::mark_ill(const Gpu& gpu) {
  for (const AttemptId id : attempts_on(gpu)) truths_[id].gpu_was_ill = true;
}

/// The driver keeps it for a probe that is there.
void Machine::happen(Gpu& gpu, std::int64_t xid) {
  if (is_of_hardware(xid)) mark_ill(gpu);
  if (!tell_) return;
  if (probe_stays_ || clock_.boot_ns - last_look_ < kProbeRests) {
    gpu.xids.push_back(xid);
    return;
  }
  for (const AttemptId id : attempts_on(gpu)) {
    // In the time of a coordinator that has looked: one that has just begun is about to.
    if (trees_.at(id).alive() && last_look_ >= 0) {
      violated(id, "runs, and nobody listens for errors of its GPU");
    }
  }
}

void Machine::tell_xids(Gpu& gpu, GpuLook& look) {
  for (const std::int64_t number : std::exchange(gpu.xids, {})) {
    look.xids.push_back({gpu.reading.uuid, number, clock_.boot_ns});
    if (!is_of_hardware(number)) continue;
    gpu.needs_a_person = true;
    gpu.told_fatal = gpu.told_fatal || number == kFatalXid;
    mark_ill(gpu);
    for (const AttemptId id : attempts_on(gpu)) {
      const Tree::Phase phase = trees_.at(id).phase;
      if (phase != Tree::Phase::Running && phase != Tree::Phase::Ended) continue;
      if (truths_[id].told_broken_ns < 0) truths_[id].told_broken_ns = clock_.boot_ns;
    }
  }
}

void Machine::shake_gpus() {
  if (gpus_.empty()) return;
  Gpu& one = gpus_[static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(gpus_.size())))];
  if (faults_.foreign && dice_.one_in(2)) {
    if (one.reading.processes.empty()) {
      one.reading.processes.push_back(
          {.pid = 77, .memory_bytes = 3 * kGiB, .uid = 4242, .command = "python3"});
    } else {
      one.reading.processes.clear();
    }
  }
  if (faults_.lost_gpus && dice_.one_in(2)) {
    switch (dice_.below(5)) {
      case 0:
        one.reading.repair_pending = !*one.reading.repair_pending;  // or: it was reset
        break;
      case 1:
        one.listed = !one.listed;
        break;
      case 2:
        one.reading.recovery_action = *one.reading.recovery_action != 0 ? 0 : dice_.pick({1, 2, 4});
        one.needs_a_person = one.needs_a_person || one.reading.recovery_action == 2;
        break;
      case 3:
        happen(one, dice_.pick<std::int64_t>({kFatalXid, 48, 119, 13, 31}));
        break;
      default: {
        const bool is_well = one.reading.health == GpuHealth::Ok;
        one.reading.health =
            is_well ? dice_.pick({GpuHealth::Lost, GpuHealth::Error, GpuHealth::Unknown})
                    : GpuHealth::Ok;
        one.reading.note = is_well ? "fell off the bus" : "";
      }
    }
    if (is_ill(one.reading)) mark_ill(one);
  }
}

void Machine::heal() {
  for (Gpu& one : gpus_) {
    one.listed = true;
    one.reading.health = GpuHealth::Ok;
    one.reading.repair_pending = false;
    one.reading.recovery_action = 0;
    one.reading.note.clear();
    one.reading.processes.clear();
  }
}

GpuLook Machine::look(bool is_reticent) {
  if (gpus_.empty()) return {.complete = true, .no_driver = true};
  last_look_ = clock_.boot_ns;
  GpuLook look{.complete = true};
  for (Gpu& one : gpus_) {
    GpuReading reading = one.reading;
    if (is_reticent) {
      reading.repair_pending.reset();
      reading.repair_failed.reset();
      reading.recovery_action.reset();
    }
    one.shown_foreign = one.listed && !one.reading.processes.empty();
    one.shown_well = one.listed && reading.health == GpuHealth::Ok && !is_ill(reading);
    if (!one.listed) continue;
    tell_xids(one, look);
    for (const auto& [id, tree] : trees_) {
      const bool is_there =
          std::find(tree.gpus.begin(), tree.gpus.end(), reading.uuid) != tree.gpus.end();
      if (!is_there || !tree.alive()) continue;
      reading.processes.push_back({.pid = tree.pid, .memory_bytes = 2 * kGiB, .uid = 1000});
      reading.used_bytes += 2 * kGiB;
    }
    look.gpus.push_back(std::move(reading));
  }
  return look;
}

}  // namespace pergpu::simulation
