// Nothing here waits: keepers are told, and what they say arrives through the loop.
#include "run/local.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "os/cgroup.h"
#include "os/file.h"

namespace pergpu {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kIdleNs = 60 * kSecondNs;   // a keeper without an attempt ends after it
constexpr std::int64_t kAnswerNs = 5 * kSecondNs;  // what a found keeper has to say who it is
constexpr std::string_view kRecordSuffix = ".rec";

/// "k17" -> 17, also "k17.rec" with `suffix`; 0: another file.
std::int64_t keeper_number(std::string_view name, std::string_view suffix) {
  if (name.size() <= 1 + suffix.size() || name[0] != 'k' || !name.ends_with(suffix)) return 0;
  name = name.substr(1, name.size() - 1 - suffix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() ? number : 0;
}

std::vector<std::int64_t> keepers_in(const std::string& run_dir, std::string_view suffix) {
  std::vector<std::int64_t> out;
  const Result<std::vector<std::string>> names = os::list_dir(run_dir);
  if (!names) return out;
  for (const std::string& name : *names) {
    if (const std::int64_t number = keeper_number(name, suffix); number > 0) out.push_back(number);
  }
  return out;
}

keeper::Folder to_wire(const FolderPlan& plan) {
  keeper::Folder out;
  out.out = plan.out;
  out.attempt = plan.attempt;
  out.umask = plan.umask;
  for (const FileToWrite& file : plan.files)
    out.files.push_back({file.path, file.content, file.keep_if_same});
  return out;
}

keeper::Start to_wire(AttemptPlan plan) {
  keeper::Start out;
  out.id = plan.id;
  out.folder = to_wire(plan.folder);
  out.argv = std::move(plan.argv);
  out.env = std::move(plan.env);
  out.cwd = std::move(plan.cwd);
  out.log_path = std::move(plan.log_path);
  out.record_path = std::move(plan.record_path);
  out.record_at_start = std::move(plan.record_at_start);
  for (const ResourceLimit& limit : plan.limits) out.limits.push_back({limit.resource, limit.soft});
  out.cpu_list.assign(plan.cpu_list.begin(), plan.cpu_list.end());
  out.lease_count = static_cast<std::uint32_t>(plan.lease_fds.size());
  out.outputs = std::move(plan.outputs);
  out.memory_bytes = plan.memory_bytes;
  out.cpu_milli = plan.cpu_milli;
  out.grace_ns = std::chrono::nanoseconds(plan.grace).count();
  out.ready_path = std::move(plan.ready_path);
  out.idle_ns = std::chrono::nanoseconds(plan.idle).count();
  out.stall_ns = std::chrono::nanoseconds(plan.stall).count();
  return out;
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
  out.exited_at = {.wall_ns = exited.wall_ns, .boot_ns = exited.boot_ns};
  return out;
}

/// The recorded state of an attempt whose keeper is gone.
std::optional<keeper::Held> recorded(const KeeperSite& site, AttemptId id) {
  for (const std::int64_t number : keepers_in(site.run_dir, kRecordSuffix)) {
    const std::string path = keeper::record_path(site.run_dir, number);
    for (keeper::Held& held : keeper::read_record(path, site.boot_id)) {
      if (keeper::id_of(held) == id) return std::move(held);
    }
  }
  return std::nullopt;
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
            .boot_id = config_.boot_id,
            .groups = config_.groups},
      undertaker_(loop, config_.keeper_program),
      stack_writer_(loop, config_.pergpu_program),
      alive_(std::make_shared<bool>(true)) {
  for (const std::string_view suffix : {std::string_view(), kRecordSuffix}) {
    for (const std::int64_t number : keepers_in(site_.run_dir, suffix))
      last_keeper_ = std::max(last_keeper_, number);
  }
}

LocalEngine::~LocalEngine() {
  *alive_ = false;
  if (trim_timer_ != 0) loop_.cancel(trim_timer_);
  if (adopt_timer_ != 0) loop_.cancel(adopt_timer_);
}

// ---- choosing a keeper -----------------------------------------------------------------------

Result<KeeperId> LocalEngine::start_keeper() {
  const KeeperId id = {last_keeper_ + 1};
  Result<std::unique_ptr<KeeperLink>> link = KeeperLink::start(loop_, site_, id, callbacks_of(id));
  if (!link) return std::move(link).error();
  last_keeper_ = id.value;
  Keeper& keeper = keepers_[id];
  keeper.link = *std::move(link);
  keeper.idle_since_ns = clock_.now().boot_ns;
  return id;
}

KeeperLink::Callbacks LocalEngine::callbacks_of(KeeperId id) {
  return {.on_frame = [this, id](os::FrameStream::Frame f) { on_frame(id, std::move(f)); },
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
                               [](const auto& entry) { return entry.second.is_free(); });
  return it == keepers_.end() ? nullptr : &it->second;
}

KeeperId LocalEngine::assign(LaneId lane) {
  Keeper* keeper = keeper_of(lane);
  if (keeper == nullptr || keeper->attempt || keeper->state_wanted) keeper = any_free_keeper();
  if (keeper == nullptr) {
    const Result<KeeperId> started = start_keeper();
    if (!started) return {};  // start() tries again and reports
    keeper = &keepers_.at(*started);
  }
  if (keeper->lane && keeper->lane != lane) keeper_of_lane_.erase(*keeper->lane);
  keeper->lane = lane;
  keeper->assigned = true;
  keeper_of_lane_[lane] = keeper->link->id();
  return keeper->link->id();
}

// ---- what the coordinator asks for -----------------------------------------------------------

void LocalEngine::prepare(LaneId lane, const FolderPlan& folder) {
  Keeper* keeper = keeper_of(lane);
  if (keeper == nullptr) keeper = any_free_keeper();
  if (keeper != nullptr) keeper->link->send(keeper::Prepare{.folder = to_wire(folder)});
}

void LocalEngine::start(LaneId lane, AttemptPlan plan) {
  const AttemptId id = plan.id;
  Keeper* keeper = keeper_of(lane);
  if (keeper == nullptr || !keeper->assigned) {  // it ended in between
    (void)assign(lane);
    keeper = keeper_of(lane);
  }
  if (keeper == nullptr || !keeper->assigned) {
    return emit_later(engine_event::SpawnFailed{
        .id = id, .phase = "keeper", .os_errno = EAGAIN, .object = site_.keeper_program});
  }
  keeper->assigned = false;
  keeper->attempt = id;
  Tracked& tracked = attempts_[id];
  tracked = {.keeper = keeper->link->id(), .log_path = plan.log_path};
  const std::vector<int> leases = plan.lease_fds;
  keeper->link->send(to_wire(std::move(plan)), leases);
}

void LocalEngine::stop(AttemptId id, StopHow how) {
  const auto it = attempts_.find(id);
  if (it == attempts_.end() || it->second.ended) return;
  const auto keeper = keepers_.find(it->second.keeper);
  if (keeper == keepers_.end()) return;  // its tree is being ended already
  keeper->second.link->send(keeper::Stop{.id = id, .kill = how == StopHow::Kill});
}

void LocalEngine::signal(AttemptId id, int number) {
  const auto it = attempts_.find(id);
  if (it == attempts_.end() || it->second.ended) return;
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
    const bool has_others = std::any_of(attempts_.begin(), attempts_.end(), [&](const auto& entry) {
      return entry.second.keeper == holder;
    });
    if (holder && !has_others) ::unlink(keeper::record_path(site_.run_dir, holder.value).c_str());
    keeper = std::find_if(keepers_.begin(), keepers_.end(),
                          [](const auto& entry) { return !entry.second.state_wanted; });
  }
  if (keeper == keepers_.end() && !record_path.empty()) {
    if (const Result<KeeperId> started = start_keeper(); started) keeper = keepers_.find(*started);
  }
  if (keeper == keepers_.end()) return;
  keeper->second.link->send(keeper::Forget{
      .id = id, .record_path = std::move(record_path), .final_record = std::move(final_record)});
}

std::vector<std::int32_t> LocalEngine::keeper_pids() const {
  std::vector<std::int32_t> out;
  for (const auto& [id, keeper] : keepers_) {
    if (keeper.link->pid() != 0) out.push_back(keeper.link->pid());
  }
  return out;
}

void LocalEngine::release(bool revive) {
  for (auto& [id, keeper] : keepers_) keeper.link->send(keeper::Quit{.revive = revive});
  keepers_.clear();
  keeper_of_lane_.clear();
  attempts_.clear();
  expected_.clear();
}

// ---- what keepers say ------------------------------------------------------------------------

void LocalEngine::on_frame(KeeperId id, os::FrameStream::Frame frame) {
  const auto pass = [&]<typename Message>(std::optional<Message> message, auto handle) {
    if (message) handle(*message);
  };
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
      return;  // ours to say; unknown types of later releases are passed over like them
  }
}

void LocalEngine::on_started(const keeper::Started& started, std::vector<os::UniqueFd> leases) {
  const auto it = attempts_.find(started.id);
  if (it == attempts_.end() || std::exchange(it->second.started_told, true)) return;
  it->second.pid = started.pid;
  it->second.start_ticks = started.start_ticks;
  it->second.groups = started.groups;
  engine_event::Started event{.id = started.id,
                              .pid = started.pid,
                              .start_ticks = started.start_ticks,
                              .memory_held = started.memory_held,
                              .cpu_held = started.cpu_held};
  for (os::UniqueFd& lease : leases)
    event.leases.push_back(std::make_shared<os::UniqueFd>(std::move(lease)));
  emit(event);
}

void LocalEngine::on_failed(KeeperId id, const keeper::SpawnFailed& failed) {
  free_keeper(id, failed.id);
  if (!end_tracking(id, failed.id)) return;
  emit(engine_event::SpawnFailed{.id = failed.id,
                                 .phase = failed.phase,
                                 .os_errno = failed.os_errno,
                                 .object = failed.object});
}

void LocalEngine::on_exited(KeeperId id, const keeper::Exited& exited) {
  free_keeper(id, exited.id);
  if (end_tracking(id, exited.id)) emit(event_of(exited));
}

/// Whether the end is news.  That of an attempt nobody tracks is told, too: the coordinator before
/// may have died between recording it and acknowledging it.
bool LocalEngine::end_tracking(KeeperId keeper, AttemptId of) {
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

// ---- keepers that end ------------------------------------------------------------------------

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
  for (auto it = keepers_.begin(); it != keepers_.end() && keepers_.size() > 1;) {
    const bool is_old = it->second.is_free() && it->second.idle_since_ns + kIdleNs <= now;
    any_idle = any_idle || it->second.is_free();
    if (!is_old) {
      ++it;
      continue;
    }
    if (it->second.lane) keeper_of_lane_.erase(*it->second.lane);
    it->second.link->send(keeper::Quit{.revive = false});
    leaving_.push_back(std::move(it->second.link));
    it = keepers_.erase(it);
  }
  if (keepers_.empty()) (void)start_keeper();
  if (any_idle) schedule_trim();
}

void LocalEngine::on_keeper_gone(KeeperId id, const std::string& why) {
  remove_keeper_sockets(site_, id);
  std::erase_if(leaving_, [&](const auto& link) { return link->id() == id; });
  const auto it = keepers_.find(id);
  if (it == keepers_.end()) return;
  const Keeper keeper = std::move(it->second);
  keepers_.erase(it);
  if (keeper.lane) keeper_of_lane_.erase(*keeper.lane);
  std::vector<AttemptId> orphans;
  bool record_serves = keeper.state_wanted;  // until what it held is known
  for (const auto& [attempt, tracked] : attempts_) {
    record_serves = record_serves || tracked.keeper == id;
    if (tracked.keeper == id && !tracked.ended) orphans.push_back(attempt);
  }
  if (!record_serves) ::unlink(keeper::record_path(site_.run_dir, id.value).c_str());
  if (orphans.empty()) remove_group_of(id);
  for (const AttemptId attempt : orphans) recover(attempt, why);
  if (keepers_.empty()) schedule_trim();
  if (keeper.state_wanted) adopt_found();
}

/// The end of an attempt whose keeper is gone: recorded, or unknown and made certain.
void LocalEngine::recover(AttemptId id, const std::string& why) {
  Tracked& tracked = attempts_.at(id);
  if (const std::optional<keeper::Held> held = recorded(site_, id)) {
    if (held->started) on_started(*held->started, {});
    if (held->failed || held->exited) {
      tracked.ended = true;
      if (held->exited) return emit(event_of(*held->exited));
      return emit(engine_event::SpawnFailed{.id = id,
                                            .phase = held->failed->phase,
                                            .os_errno = held->failed->os_errno,
                                            .object = held->failed->object});
    }
  }
  bury(id, why);
}

void LocalEngine::bury(AttemptId id, const std::string& why) {
  const Tracked& tracked = attempts_.at(id);
  std::vector<std::string> groups = tracked.groups;
  // Killed before it could tell.  A keeper that lives never got it, and has the group for another.
  if (groups.empty() && keepers_.count(tracked.keeper) == 0)
    groups = os::groups_named(config_.groups, os::cgroup_name(config_.home, tracked.keeper.value));
  const os::TreeMarks marks = {.pid = tracked.pid,
                               .start_ticks = tracked.start_ticks,
                               .marker = config_.home + "/" + to_string(id),
                               .log_path = tracked.log_path,
                               .groups = std::move(groups)};
  undertaker_.end(marks, {.on_gone =
                              [this, id, why] {
                                const auto it = attempts_.find(id);
                                if (it == attempts_.end() || std::exchange(it->second.ended, true))
                                  return;
                                emit(engine_event::Lost{.id = id, .why = why, .proven_gone = true});
                              },
                          .on_left =
                              [this, id](const std::string& resists) {
                                emit(engine_event::Notified{
                                    .id = id, .line = std::string(keeper::kResists) + resists});
                              }});
}

// ---- after a restart -------------------------------------------------------------------------

void LocalEngine::adopt(std::vector<ExpectedAttempt> expected) {
  for (ExpectedAttempt& one : expected) {
    last_keeper_ = std::max(last_keeper_, one.keeper.value);
    const AttemptId id = one.id;
    expected_.emplace(id, std::move(one));
  }
  find_keepers();
  const std::int64_t now = clock_.now().boot_ns;
  adopt_timer_ = loop_.at(now + kAnswerNs, [this] {
    adopt_timer_ = 0;
    give_up_waiting();
  });
  loop_.at(now, [this, alive = alive_] {
    if (*alive) adopt_found();
  });
}

void LocalEngine::find_keepers() {
  const Result<std::vector<std::string>> names = os::list_dir(site_.run_dir);
  unlisted_ = !names && names.error().kind != ErrorKind::NotFound;
  if (unlisted_) return find_again([this] { find_keepers(); });
  for (const std::int64_t number : keepers_in(site_.run_dir, {})) {
    const KeeperId id = {number};
    if (keepers_.count(id) == 0) find_keeper(id);
  }
}

void LocalEngine::find_keeper(KeeperId id) {
  unreachable_.erase(id);
  Result<std::unique_ptr<KeeperLink>> link = KeeperLink::find(loop_, site_, id, callbacks_of(id));
  if (link) {
    Keeper& keeper = keepers_[id];
    keeper.link = *std::move(link);
    keeper.state_wanted = true;
    keeper.link->send(keeper::Hello{});
  } else if (link.error().os_errno == ENOENT || link.error().os_errno == ECONNREFUSED) {
    remove_keeper_sockets(site_, id);  // nobody listens
  } else {
    unreachable_.insert(id);
    find_again([this, id] { find_keeper(id); });
  }
}

/// No descriptor, no memory, too many that connect: the keepers may be well, and their jobs too.
void LocalEngine::find_again(std::function<void()> find) {
  loop_.at(clock_.now().boot_ns + kSecondNs / 2, [this, find = std::move(find), alive = alive_] {
    if (!*alive) return;
    find();
    adopt_found();
  });
}

void LocalEngine::on_state(KeeperId id, const keeper::State& state,
                           std::vector<os::UniqueFd> leases) {
  Keeper& keeper = keepers_.at(id);
  keeper.link->know(state.pid, state.start_ticks);
  keeper.idle_since_ns = clock_.now().boot_ns;
  for (const keeper::Held& held : state.held) {
    const bool runs = held.started && !held.exited;
    on_held(id, held, runs ? std::exchange(leases, {}) : std::vector<os::UniqueFd>());
  }
  if (std::exchange(keeper.state_wanted, false)) adopt_found();
  schedule_trim();
}

void LocalEngine::on_held(KeeperId id, const keeper::Held& held, std::vector<os::UniqueFd> leases) {
  const AttemptId attempt = keeper::id_of(held);
  const auto expected = expected_.find(attempt);
  if (expected != expected_.end()) {
    attempts_[attempt] = {.keeper = id, .log_path = expected->second.out + "/log.txt"};
    expected_.erase(expected);
  }
  const bool runs = held.started && !held.exited;
  if (runs) keepers_.at(id).attempt = attempt;
  if (runs && attempts_.count(attempt) == 0) {
    // The coordinator knows nothing of it: no outcome of it would be recorded.
    keepers_.at(id).link->send(keeper::Stop{.id = attempt, .kill = true});
  }
  if (held.started) on_started(*held.started, std::move(leases));
  if (held.failed) on_failed(id, *held.failed);
  if (held.exited) on_exited(id, *held.exited);
}

/// Once every keeper has said what it holds, what is still expected has none.
void LocalEngine::adopt_found() {
  const bool waits = std::any_of(keepers_.begin(), keepers_.end(),
                                 [](const auto& entry) { return entry.second.state_wanted; });
  if (waits || !unreachable_.empty() || unlisted_) return;
  if (adopt_timer_ != 0) loop_.cancel(std::exchange(adopt_timer_, 0));
  for (auto& [id, one] : std::exchange(expected_, {})) recover_expected(one);
  if (keepers_.empty()) (void)start_keeper();
  for (const std::int64_t number : keepers_in(site_.run_dir, kRecordSuffix)) {
    const bool is_needed = keepers_.count(KeeperId{number}) != 0 ||
                           std::any_of(attempts_.begin(), attempts_.end(), [&](const auto& entry) {
                             return entry.second.keeper.value == number;
                           });
    if (!is_needed) ::unlink(keeper::record_path(site_.run_dir, number).c_str());
  }
  for (const std::string& name : os::groups_of_home(config_.groups, config_.home)) {
    const KeeperId id = {os::keeper_of_cgroup(name, config_.home)};
    if (keepers_.count(id) == 0) remove_group_of(id);
  }
}

/// What a keeper that was killed left behind.  Stays where something lives in it.
void LocalEngine::remove_group_of(KeeperId id) {
  if (!config_.groups) return;
  os::remove_groups(os::groups_named(config_.groups, os::cgroup_name(config_.home, id.value)));
}

/// A keeper that does not answer holds up its own attempts only.
void LocalEngine::give_up_waiting() {
  if (unlisted_) return;
  for (auto it = expected_.begin(); it != expected_.end();) {
    const auto keeper = keepers_.find(it->second.keeper);
    const bool answers_late = keeper != keepers_.end() && keeper->second.state_wanted;
    if (answers_late || unreachable_.count(it->second.keeper) != 0) {
      ++it;
      continue;
    }
    const ExpectedAttempt one = std::move(it->second);
    it = expected_.erase(it);
    recover_expected(one);
  }
}

void LocalEngine::recover_expected(const ExpectedAttempt& one) {
  attempts_[one.id] = {.keeper = one.keeper,
                       .pid = one.pid,
                       .start_ticks = one.start_ticks,
                       .log_path = one.out + "/log.txt"};
  recover(one.id, "its keeper was killed");
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
