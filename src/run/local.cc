// Nothing here waits: keepers get requests, and what they say arrives through the loop.
#include "run/local.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "duration.h"
#include "job/folder_in_use.h"
#include "job/not_started.h"
#include "job/output_root.h"
#include "os/fs/file.h"
#include "os/process/paths.h"
#include "run/root_note.h"
#include "storage_errno.h"

namespace pergpu {
namespace {

static_assert(keeper::kFolderInUse == kFolderInUsePhase);
static_assert(keeper::kRootReplaced == kRootReplacedPhase);

constexpr std::int64_t kIdleNs = 60 * kSecond;  // a keeper without an attempt ends after it

keeper::Folder to_wire(const FolderPlan& plan) {
  keeper::Folder out;
  out.out = plan.out;
  out.attempt = plan.attempt;
  out.umask = plan.umask;
  for (const FileToWrite& file : plan.files)
    out.files.push_back({file.path, file.content, file.keep_if_same});
  return out;
}

/// `out`: <root>/<sweep>/<run>/<step>
keeper::Root root_of(const std::string& home, const std::string& out) {
  return {.path = output_root_of(out), .note = root_note(home, os::parent_of(os::parent_of(out)))};
}

keeper::Shell to_wire(const os::ProcessAttributes& shell) {
  keeper::Shell out;
  for (const os::SpawnLimit& limit : shell.limits) {
    const std::uint64_t hard = limit.hard.value_or(limit.soft);
    out.limits.push_back({.resource = limit.resource, .soft = limit.soft, .hard = hard});
  }
  out.nice = shell.nice;
  out.policy = shell.policy;
  out.rt_priority = shell.rt_priority;
  out.io_priority = shell.io_priority;
  out.cpus.assign(shell.cpus.begin(), shell.cpus.end());
  out.ignored = shell.ignored;
  out.blocked = shell.blocked;
  out.timer_slack_ns = shell.timer_slack_ns;
  out.personality = shell.personality;
  out.core_filter = shell.core_filter;
  out.oom_score_adj = shell.oom_score_adj;
  out.group = shell.group;
  out.groups.assign(shell.groups.begin(), shell.groups.end());
  return out;
}

/// A keeper of an earlier release starts nothing where a limit is above its own hard limit.
std::uint64_t soft_limit_for(const ResourceLimit& limit, pid_t keeper) {
  if (keeper == 0) return limit.soft;
  return std::min(limit.soft, os::hard_limit_of(keeper, limit.resource));
}

keeper::Start to_wire(AttemptPlan plan, pid_t keeper) {
  keeper::Start out;
  out.id = plan.id;
  out.folder = to_wire(plan.folder);
  out.argv = std::move(plan.argv);
  out.env = std::move(plan.env);
  out.cwd = std::move(plan.cwd);
  out.log_path = std::move(plan.log_path);
  out.record_path = std::move(plan.record_path);
  out.record_at_start = std::move(plan.record_at_start);
  for (const ResourceLimit& limit : plan.limits)
    out.limits.push_back({limit.resource, soft_limit_for(limit, keeper)});
  if (plan.shell) out.shell = to_wire(*plan.shell);
  out.cpu_list.assign(plan.cpu_list.begin(), plan.cpu_list.end());
  out.lease_count = static_cast<std::uint32_t>(plan.lease_fds.size());
  out.outputs = std::move(plan.outputs);
  out.patterns = std::move(plan.output_patterns);
  out.memory_bytes = plan.memory_bytes;
  out.cpu_milli = plan.cpu_milli;
  out.grace_ns = std::chrono::nanoseconds(plan.grace).count();
  out.ready_path = std::move(plan.ready_path);
  out.idle_ns = std::chrono::nanoseconds(plan.idle).count();
  out.stall_ns = std::chrono::nanoseconds(plan.stall).count();
  out.holder = std::move(plan.holder);
  return out;
}

/// "2 processes that it had left running were ended: sh, sleep"; "": there were none.
std::string left_running(const keeper::Exited& exited) {
  if (exited.left_count <= 0) return "";
  std::string names;
  for (const std::string& name : exited.left_names) names += (names.empty() ? ": " : ", ") + name;
  const bool is_one = exited.left_count == 1;
  return std::to_string(exited.left_count) + (is_one ? " process" : " processes") +
         " that it left running " + (is_one ? "was" : "were") + " ended" + names;
}

engine_event::Exited event_of(const keeper::Exited& exited) {
  engine_event::Exited out;
  out.id = exited.id;
  out.exit_code = exited.exit_code;
  out.signal = exited.signal;
  out.cpu_ns = exited.cpu_ns;
  out.peak_memory_bytes = exited.peak_memory_bytes;
  out.missing_output = exited.missing_output;
  out.missing_why = exited.missing_why;
  out.oom_kills = exited.oom_kills;
  out.oom_at_limit = exited.oom_at_limit;
  out.left_running = left_running(exited);
  out.exited_at = {.wall_ns = exited.wall_ns, .boot_ns = exited.boot_ns};
  return out;
}

}  // namespace

LocalEngine::LocalEngine(os::Loop& loop, os::Clock& clock, Config config)
    : loop_(loop),
      clock_(clock),
      config_(std::move(config)),
      site_{.run_dir = config_.run_dir,
            .keeper_program = config_.keeper_program,
            .pergpu_program = config_.pergpu_program,
            .home = config_.home,
            .home_id = home_identity(config_.home),
            .boot_id = config_.boot_id,
            .groups = config_.groups,
            .keepers_end_alone = config_.keepers_end_alone},
      undertaker_(loop, config_.keeper_program),
      stop_watch_(watch_parts()),
      stack_writer_(loop, config_.pergpu_program),
      alive_(std::make_shared<bool>(true)) {}

LocalEngine::~LocalEngine() {
  *alive_ = false;
  if (trim_timer_ != 0) loop_.cancel(trim_timer_);
  if (adopt_timer_ != 0) loop_.cancel(adopt_timer_);
  if (wake_timer_ != 0) loop_.cancel(wake_timer_);
  if (foreign_timer_ != 0) loop_.cancel(foreign_timer_);
}

// ---- choosing a keeper -----------------------------------------------------------------------

Result<KeeperId> LocalEngine::start_keeper() {
  if (!config_.has_home()) {
    return Error{ErrorKind::Unavailable, 0, "the home " + config_.home + " is gone"};
  }
  // It may have been removed a moment ago.
  if (!os::is_directory(site_.run_dir)) (void)os::private_folder(site_.run_dir, ::geteuid());
  if (Result<void> known = learn_numbers(); !known) return std::move(known).error();
  const KeeperId id = {++last_keeper_};
  write_last_number();
  Result<std::unique_ptr<KeeperLink>> link = KeeperLink::start(loop_, site_, id, callbacks_of(id));
  if (!link) return std::move(link).error();
  Keeper& keeper = keepers_[id];
  keeper.link = *std::move(link);
  keeper.idle_since_ns = clock_.now().boot_ns;
  return id;
}

KeeperLink::Callbacks LocalEngine::callbacks_of(KeeperId id) {
  return {.on_frame = [this, id](os::FrameStream::Frame f) { on_frame(id, std::move(f)); },
          .on_broken = [this, id](const std::string& why) { on_keeper_broken(id, why); },
          .on_gone = [this, id](const std::string& why) { on_keeper_gone(id, why); }};
}

LocalEngine::Keeper* LocalEngine::keeper_of(LaneId lane) {
  const auto of_lane = keeper_of_lane_.find(lane);
  if (of_lane == keeper_of_lane_.end()) return nullptr;
  const auto keeper = keepers_.find(of_lane->second);
  return keeper == keepers_.end() ? nullptr : &keeper->second;
}

LocalEngine::Keeper* LocalEngine::any_free_keeper() {
  const auto it = std::find_if(keepers_.begin(), keepers_.end(),
                               [](const auto& entry) { return entry.second.may_start(); });
  return it == keepers_.end() ? nullptr : &it->second;
}

KeeperId LocalEngine::assign(LaneId lane) {
  Keeper* keeper = keeper_of(lane);
  if (keeper == nullptr || keeper->attempt || keeper->state_wanted || keeper->has_less)
    keeper = any_free_keeper();
  if (keeper == nullptr) {
    const Result<KeeperId> started = start_keeper();
    if (!started) {  // start() tries again and reports
      start_errno_ = started.error().os_errno;
      return {};
    }
    keeper = &keepers_.at(*started);
  }
  if (keeper->lane && keeper->lane != lane) keeper_of_lane_.erase(*keeper->lane);
  keeper->lane = lane;
  keeper->assigned = true;
  keeper_of_lane_[lane] = keeper->link->id();
  return keeper->link->id();
}

void LocalEngine::unassign(LaneId lane) {
  if (Keeper* keeper = keeper_of(lane)) keeper->assigned = false;
}

// ---- what the coordinator asks for -----------------------------------------------------------

void LocalEngine::prepare(LaneId lane, const FolderPlan& folder) {
  Keeper* keeper = keeper_of(lane);
  if (keeper == nullptr) keeper = any_free_keeper();
  if (keeper == nullptr) return;
  keeper->link->send(
      keeper::Prepare{.folder = to_wire(folder), .root = root_of(config_.home, folder.out)});
}

void LocalEngine::start(LaneId lane, AttemptPlan plan) {
  const AttemptId id = plan.id;
  Keeper* keeper = keeper_of(lane);
  if (keeper != nullptr && keeper->state_wanted) {
    // Not sent to another: a coordinator after this one takes the stored one's word, if it lives.
    return emit_later(engine_event::Lost{.id = id, .why = "the connection to its keeper broke"});
  }
  if (keeper == nullptr || !keeper->assigned) {  // it ended in between
    (void)assign(lane);
    keeper = keeper_of(lane);
  }
  if (keeper == nullptr || !keeper->assigned) {
    // Its sockets lie in the run folder.
    const bool is_disk = is_storage_errno(start_errno_);
    return emit_later(
        engine_event::SpawnFailed{.id = id,
                                  .phase = is_disk ? "make a socket in" : "keeper",
                                  .os_errno = is_disk ? start_errno_ : EAGAIN,
                                  .object = is_disk ? site_.run_dir : site_.keeper_program});
  }
  keeper->assigned = false;
  keeper->attempt = id;
  Tracked& tracked = attempts_[id];
  tracked = {.keeper = keeper->link->id(), .log_path = plan.log_path, .grace = plan.grace};
  watch_stopped();
  const std::vector<int> leases = plan.lease_fds;
  keeper::Start wire = to_wire(std::move(plan), keeper->link->pid());
  wire.root = root_of(config_.home, wire.folder.out);
  keeper->link->send(wire, leases);
}

void LocalEngine::stop(AttemptId id, StopHow how) {
  const auto it = attempts_.find(id);
  // Of one that its keeper has not reported yet Started, when it comes, brings the stop again.
  if (expected_.contains(id)) return watch_stop(id, how);
  if (it == attempts_.end() || it->second.ended) return;
  it->second.stop = how;
  const auto keeper = keepers_.find(it->second.keeper);
  if (keeper == keepers_.end()) return;  // its tree is being ended already
  (void)wake(it->second.keeper);
  keeper->second.link->send(keeper::Stop{.id = id, .kill = how == StopHow::Kill});
  watch_stop(id, how);
}

void LocalEngine::signal(AttemptId id, int number) {
  const auto it = attempts_.find(id);
  if (it == attempts_.end() || it->second.ended) return;
  it->second.signal = number;
  const auto keeper = keepers_.find(it->second.keeper);
  if (keeper == keepers_.end()) return;
  keeper->second.link->send(keeper::Signal{.id = id, .number = number});
}

void LocalEngine::write_stacks(AttemptId id, const std::string& path,
                               std::function<void(bool)> done) {
  const auto it = attempts_.find(id);
  const auto keeper = it == attempts_.end() ? keepers_.end() : keepers_.find(it->second.keeper);
  if (keeper != keepers_.end() && keeper->second.link->pid() != 0) {
    return stack_writer_.write(keeper->second.link->pid(), path, std::move(done));
  }
  loop_.at(clock_.now().boot_ns, [done = std::move(done), alive = alive_] {
    if (*alive) done(false);
  });
}

void LocalEngine::acknowledge(AttemptId id, std::string record_path, std::string final_record) {
  KeeperId holder = {};
  if (const auto it = attempts_.find(id); it != attempts_.end()) {
    holder = it->second.keeper;
    attempts_.erase(it);
  }
  auto keeper = keepers_.find(holder);
  if (keeper == keepers_.end()) {
    // Its keeper is gone.  Its record has served; any other keeper can write the file.
    remove_record_of(holder);
    keeper = std::find_if(keepers_.begin(), keepers_.end(),
                          [](const auto& entry) { return !entry.second.state_wanted; });
  }
  if (keeper == keepers_.end() && !record_path.empty()) {
    if (const Result<KeeperId> started = start_keeper(); started) keeper = keepers_.find(*started);
  }
  if (keeper == keepers_.end()) return;
  keeper::Forget wire{
      .id = id, .record_path = std::move(record_path), .final_record = std::move(final_record)};
  if (!wire.record_path.empty()) wire.root = root_of(config_.home, os::parent_of(wire.record_path));
  keeper->second.link->send(wire);
}

std::vector<std::int32_t> LocalEngine::keeper_pids() const {
  std::vector<std::int32_t> out;
  for (const auto& [id, keeper] : keepers_) {
    if (keeper.link->pid() != 0) out.push_back(keeper.link->pid());
  }
  return out;
}

std::int32_t LocalEngine::keeper_pid(AttemptId id) const {
  const auto tracked = attempts_.find(id);
  if (tracked == attempts_.end()) return 0;
  const auto keeper = keepers_.find(tracked->second.keeper);
  return keeper == keepers_.end() ? 0 : keeper->second.link->pid();
}

void LocalEngine::release(bool revive) {
  for (auto& [id, keeper] : keepers_) keeper.link->send(keeper::Quit{.revive = revive});
  keepers_.clear();
  keeper_of_lane_.clear();
  stop_watch_.forget_all();
  attempts_.clear();
  expected_.clear();
  unexpected_.clear();
  is_adopting_ = false;
}

bool LocalEngine::may_start() const {
  const auto is_expected = [this](KeeperId id) {
    return std::any_of(expected_.begin(), expected_.end(),
                       [id](const auto& entry) { return entry.second.keeper == id; });
  };
  return !starts_wait_ && unexpected_.empty() && !foreign_.has_unexpected(is_expected);
}

// ---- what keepers say ------------------------------------------------------------------------

void LocalEngine::on_frame(KeeperId id, os::FrameStream::Frame frame) {
  const auto pass = [&]<typename Message>(std::optional<Message> message, auto handle) {
    if (message) return handle(*message);
    // Whatever it was about, the next STATE will say it again.
    keepers_.at(id).link->break_off("it sent an invalid message");
  };
  const auto sender = keepers_.find(id);
  if (sender == keepers_.end()) return;  // it was asked to leave
  // Whose it is isn't known before its STATE, which says all of it.
  const bool is_new = sender->second.state_wanted && sender->second.link->pid() == 0;
  if (is_new && static_cast<keeper::Type>(frame.type) != keeper::Type::State) return;
  switch (static_cast<keeper::Type>(frame.type)) {
    case keeper::Type::State:
      return pass(keeper::decode<keeper::State>(frame.payload),
                  [&](const keeper::State& m) { on_state(id, m, std::move(frame.fds)); });
    case keeper::Type::Started:
      return pass(keeper::decode<keeper::Started>(frame.payload),
                  [&](const keeper::Started& m) { on_started(m, {}); });
    case keeper::Type::SpawnFailed:
      return pass(keeper::decode<keeper::SpawnFailed>(frame.payload),
                  [&](const keeper::SpawnFailed& m) { on_failed(id, m); });
    case keeper::Type::Exited:
      return pass(keeper::decode<keeper::Exited>(frame.payload),
                  [&](const keeper::Exited& m) { on_exited(id, m); });
    case keeper::Type::Memory:
      return pass(keeper::decode<keeper::Memory>(frame.payload), [&](const keeper::Memory& m) {
        emit(engine_event::MemoryExceeded{.id = m.id, .bytes = m.bytes});
      });
    case keeper::Type::Notify:
      return pass(keeper::decode<keeper::Notify>(frame.payload), [&](const keeper::Notify& m) {
        emit(engine_event::Notified{.id = m.id, .line = m.line});
      });
    case keeper::Type::Quiet:
      return pass(keeper::decode<keeper::Quiet>(frame.payload), [&](const keeper::Quiet& m) {
        emit(engine_event::Quiet{
            .id = m.id, .is_stall = m.is_stall, .silent_ns = m.silent_ns, .cpu_ns = m.cpu_ns});
      });
    case keeper::Type::Hello:
    case keeper::Type::Prepare:
    case keeper::Type::Start:
    case keeper::Type::Stop:
    case keeper::Type::Forget:
    case keeper::Type::Quit:
    case keeper::Type::Signal:
    case keeper::Type::Yield:
    case keeper::Type::Rebind:
      return;  // ours to say; unknown types of later releases are passed over like them
  }
}

void LocalEngine::on_started(const keeper::Started& started, std::vector<os::UniqueFd> leases,
                             bool has_keeper) {
  const auto it = attempts_.find(started.id);
  if (it == attempts_.end()) return;
  it->second.pid = started.pid;
  it->second.start_ticks = started.start_ticks;
  it->second.groups = started.groups;
  if (std::exchange(it->second.started_told, true)) return;
  engine_event::Started event{.id = started.id,
                              .pid = started.pid,
                              .start_ticks = started.start_ticks,
                              .memory_held = started.memory_held,
                              .cpu_held = started.cpu_held,
                              .has_keeper = has_keeper};
  for (os::UniqueFd& lease : leases)
    event.leases.push_back(std::make_shared<os::UniqueFd>(std::move(lease)));
  emit(event);
}

void LocalEngine::on_failed(KeeperId id, const keeper::SpawnFailed& failed) {
  free_keeper(id, failed.id);
  if (end_tracking(id, failed.id)) tell(failed);
}

void LocalEngine::on_exited(KeeperId id, const keeper::Exited& exited) {
  free_keeper(id, exited.id);
  unexpected_.erase(exited.id);
  if (!end_tracking(id, exited.id)) return;
  const bool by_burial = attempts_.at(exited.id).is_buried && exited.signal == SIGKILL;
  if (by_burial) return lose(exited.id, "its keeper was presumed dead");
  tell(exited);
}

void LocalEngine::tell(const keeper::Exited& exited) { emit(event_of(exited)); }

void LocalEngine::tell(const keeper::SpawnFailed& failed) {
  // The keeper itself refused: nothing that the job could help.
  if (failed.phase == "keeper") return lose(failed.id, "its keeper rejected it: " + failed.object);
  emit(engine_event::SpawnFailed{.id = failed.id,
                                 .phase = failed.phase,
                                 .os_errno = failed.os_errno,
                                 .object = failed.object});
}

/// Whether the end is news.  That of an attempt that is not tracked is reported, too: the
/// coordinator before may have died between recording it and acknowledging it.  One that ends
/// before its keeper has said what it holds is waited for no longer.
bool LocalEngine::end_tracking(KeeperId keeper, AttemptId of) {
  expected_.erase(of);
  Tracked& tracked = attempts_[of];
  if (!tracked.keeper) tracked.keeper = keeper;
  return !std::exchange(tracked.ended, true);
}

void LocalEngine::free_keeper(KeeperId id, AttemptId of) {
  Keeper& keeper = keepers_.at(id);
  if (keeper.attempt != of) return;
  keeper.attempt.reset();
  keeper.idle_since_ns = clock_.now().boot_ns;
  schedule_trim();
}

// ---- keepers that are not needed -----------------------------------------------------------

void LocalEngine::schedule_trim() {
  if (trim_timer_ != 0) return;
  trim_timer_ = loop_.at(clock_.now().boot_ns + kIdleNs, [this] {
    trim_timer_ = 0;
    trim();
  });
}

void LocalEngine::trim() {
  const std::int64_t now = clock_.now().boot_ns;
  bool any_idle = false;
  // One of those that are as good as this process stays: it may have to start the next one.
  auto good = std::count_if(keepers_.begin(), keepers_.end(),
                            [](const auto& entry) { return !entry.second.has_less; });
  for (auto it = keepers_.begin(); it != keepers_.end() && keepers_.size() > 1;) {
    const bool is_last = !it->second.has_less && good <= 1;
    const bool is_old =
        it->second.is_free() && it->second.idle_since_ns + kIdleNs <= now && !is_last;
    any_idle = any_idle || it->second.is_free();
    if (!is_old) {
      ++it;
      continue;
    }
    if (!it->second.has_less) --good;
    if (it->second.lane) keeper_of_lane_.erase(*it->second.lane);
    it->second.link->send(keeper::Quit{.revive = false});
    leaving_.push_back(std::move(it->second.link));
    it = keepers_.erase(it);
  }
  if (good == 0) (void)start_keeper();
  if (any_idle) schedule_trim();
}

void LocalEngine::emit(const EngineEvent& event) {
  if (config_.on_event) config_.on_event(event);
}

void LocalEngine::emit_later(EngineEvent event) {
  loop_.at(clock_.now().boot_ns, [this, event = std::move(event), alive = alive_] {
    if (*alive) emit(event);
  });
}

}  // namespace pergpu
