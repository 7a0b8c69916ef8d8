// What outlives its connection: keepers that are gone, keepers that must be connected to again, and
// those that an earlier coordinator left.
//
// No path from here may end a tree whose keeper lives.  So an attempt is buried only when the
// keeper that got it is gone, or when every keeper that can be found has said that it has not got
// it; its keeper's own record, left in the run folder, decides before that.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "duration.h"
#include "number.h"
#include "os/fs/file.h"
#include "os/process/cgroup.h"
#include "os/process/child.h"
#include "os/process/paths.h"
#include "os/process/proc.h"
#include "run/local.h"

namespace pergpu {
namespace {

constexpr std::int64_t kShortestPauseNs = kSecond / 50;
constexpr std::int64_t kLongestPauseNs = 30 * kSecond;
constexpr std::string_view kRecordSuffix = ".rec";
const std::string kSilent = "its keeper didn't respond, so pergpu ended it and the job";
/// Times Config::answer_ns: how long a keeper that lives has to make its socket again.
constexpr std::int64_t kPatienceFactor = 12;

/// "k17" -> 17, also "k17.rec" with `suffix`; 0: another file.
std::int64_t keeper_number(std::string_view name, std::string_view suffix) {
  if (name.size() <= 1 + suffix.size() || name[0] != 'k' || !name.ends_with(suffix)) return 0;
  return whole_number<std::int64_t>(name.substr(1, name.size() - 1 - suffix.size())).value_or(0);
}

/// Of the files in the run folder; none where there is no such folder.
Result<std::vector<KeeperId>> keepers_in(const std::string& run_dir, std::string_view suffix) {
  std::vector<KeeperId> out;
  Result<std::vector<std::string>> names = os::list_dir(run_dir);
  if (!names && names.error().kind == ErrorKind::NotFound) return out;
  if (!names) return std::move(names).error();
  for (const std::string& name : *names) {
    if (const std::int64_t number = keeper_number(name, suffix); number > 0)
      out.push_back({number});
  }
  return out;
}

bool runs(const keeper::Held& held) { return held.started && !held.exited; }

}  // namespace

/// A number names sockets, records and control groups: it is never given twice, because something
/// may still act on the name of a keeper that is gone.
Result<void> LocalEngine::learn_numbers() {
  if (knows_numbers_) return {};
  for (const std::string_view suffix : {std::string_view(), kRecordSuffix}) {
    Result<std::vector<KeeperId>> found = list_keepers(suffix);
    if (!found) return std::move(found).error();
    for (const KeeperId id : *found) last_keeper_ = std::max(last_keeper_, id.value);
  }
  Result<std::string> last = os::read_file(site_.run_dir + kLastNumber, 32);
  if (!last && last.error().kind != ErrorKind::NotFound) return std::move(last).error();
  if (last) last_keeper_ = std::max(last_keeper_, whole_number<std::int64_t>(*last).value_or(0));
  if (!last) {  // a new run folder, or it was emptied
    for (const LivingKeeper& living : living_keepers(config_.home))
      last_keeper_ = std::max(last_keeper_, living.id.value);
  }
  knows_numbers_ = true;
  return {};
}

/// Best effort: the files of the keepers themselves show it, too, as long as they are there.
void LocalEngine::write_last_number() const {
  if (!config_.has_home()) return;
  const std::string number = std::to_string(last_keeper_);
  (void)os::write_file_atomic(site_.run_dir + kLastNumber, number, 0600, false);
}

// ---- files that are gone -----------------------------------------------------------------------

void LocalEngine::restore_files(const std::string& run_dir) {
  site_.run_dir = run_dir;
  if (knows_numbers_ && !os::exists(run_dir + kLastNumber)) write_last_number();
  for (const auto& [id, keeper] : keepers_) {
    const bool is_whole = os::exists(keeper::socket_path(run_dir, id.value)) &&
                          os::exists(keeper::notify_path(run_dir, id.value)) &&
                          os::exists(keeper::record_path(run_dir, id.value));
    if (!is_whole) keeper.link->send(keeper::Rebind{.run_folder = run_dir});
  }
}

/// Where keepers have their files: <home>/run is the last resort.  None: what lies there now is
/// another home's.
std::vector<std::string> LocalEngine::run_folders() const {
  if (!config_.has_home()) return {};
  const std::string last = os::run_folder_in(config_.home);
  return last == site_.run_dir ? std::vector{last} : std::vector{site_.run_dir, last};
}

Result<std::vector<KeeperId>> LocalEngine::list_keepers(std::string_view suffix) const {
  std::set<KeeperId> all;
  for (const std::string& folder : run_folders()) {
    Result<std::vector<KeeperId>> found = keepers_in(folder, suffix);
    if (!found) return std::move(found).error();
    all.insert(found->begin(), found->end());
  }
  return std::vector<KeeperId>(all.begin(), all.end());
}

void LocalEngine::remove_sockets(KeeperId id) const {
  for (const std::string& folder : run_folders()) remove_keeper_sockets(folder, id);
}

void LocalEngine::unlink_record(KeeperId id) const {
  for (const std::string& folder : run_folders())
    ::unlink(keeper::record_path(folder, id.value).c_str());
}

// ---- keepers that are gone, and those that only seem so ----------------------------------------

void LocalEngine::on_keeper_gone(KeeperId id, const std::string& why) {
  remove_sockets(id);
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
  Records records;
  read_record(id, records);
  const std::string& reason = silent_.contains(id) ? kSilent : why;
  if (!record_serves) unlink_record(id);
  if (orphans.empty()) remove_group_of(id);
  for (const AttemptId attempt : orphans) recover(attempt, reason, records);
  if (keepers_.empty()) schedule_trim();
  adopt_found();
}

void LocalEngine::on_keeper_broken(KeeperId id, const std::string& why) {
  const auto it = keepers_.find(id);
  if (it == keepers_.end()) return;  // it leaves
  Keeper& keeper = it->second;
  keeper.state_wanted = true;
  keeper.assigned = false;
  if (keeper.pause_ns > kShortestPauseNs) {  // not the end of a keeper, nor an accident
    std::fprintf(stderr, "pergpu: keeper %lld: %s; reconnecting\n",
                 static_cast<long long>(id.value), why.c_str());
  }
  keeper.pause_ns = std::clamp(2 * keeper.pause_ns, kShortestPauseNs, kLongestPauseNs);
  loop_.at(clock_.now().boot_ns + keeper.pause_ns, [this, id, alive = alive_] {
    if (*alive) reconnect(id);
  });
}

void LocalEngine::reconnect(KeeperId id) {
  const auto it = keepers_.find(id);
  if (it == keepers_.end()) return;
  const Result<void> connected = it->second.link->reconnect(site_);
  Keeper& keeper = it->second;
  if (connected) return keeper.link->send(keeper::Hello{});
  if (nobody_listens(connected.error())) {
    const std::int64_t now = clock_.now().boot_ns;
    if (keeper.unheard_since_ns == 0) keeper.unheard_since_ns = now;
    const bool is_waited_for = now < keeper.unheard_since_ns + kPatienceFactor * config_.answer_ns;
    if (!keeper.link->is_alive() || !is_waited_for) return keeper.link->end_unreachable();
    keeper.pause_ns = std::min(keeper.pause_ns, kSecond / 2);  // it makes its socket again
  }
  on_keeper_broken(id, connected.error().message);
}

/// The end of an attempt whose keeper is gone: recorded, or unknown and made certain.
void LocalEngine::recover(AttemptId id, const std::string& why, const Records& records) {
  Tracked& tracked = attempts_.at(id);
  if (const auto recorded = records.find(id); recorded != records.end()) {
    const keeper::Held& last = recorded->second.held;
    tracked.keeper = recorded->second.keeper;
    if (last.started) on_started(*last.started, {}, false);
    tracked.ended = last.failed || last.exited;
    if (last.exited) return tell(*last.exited);
    if (last.failed) return tell(*last.failed);
  }
  bury(id, why);
}

bool LocalEngine::is_known(KeeperId id) const {
  return keepers_.count(id) != 0 || unreachable_.count(id) != 0 || foreign_.contains(id) ||
         std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const auto& link) { return link->id() == id; });
}

/// Never those of a keeper that lives: it has them for another attempt.
std::vector<std::string> LocalEngine::groups_to_bury(const Tracked& tracked) const {
  std::vector<std::string> out = tracked.groups;
  if (out.empty()) {  // killed before it could report that
    out = os::groups_named(config_.groups, os::cgroup_name(config_.home, tracked.keeper.value));
  }
  std::erase_if(out, [&](const std::string& folder) {
    const std::string name = folder.substr(folder.rfind('/') + 1);
    const KeeperId owner = {os::keeper_of_cgroup(name, config_.home)};
    return !owner || is_known(owner);
  });
  return out;
}

void LocalEngine::bury(AttemptId id, const std::string& why) {
  Tracked& tracked = attempts_.at(id);
  tracked.is_buried = true;
  const os::TreeMarks marks = {.pid = tracked.pid,
                               .start_ticks = tracked.start_ticks,
                               .marker = marker_of(id),
                               .log_path = tracked.log_path,
                               .groups = groups_to_bury(tracked)};
  const auto on_gone = [this, id, why] {
    const auto it = attempts_.find(id);
    if (it == attempts_.end() || std::exchange(it->second.ended, true)) return;
    lose(id, why);
  };
  const auto on_left = [this, id](const std::string& resists) {
    emit(engine_event::Notified{.id = id, .line = std::string(keeper::kResists) + resists});
  };
  undertaker_.end(marks, {.on_gone = on_gone, .on_left = on_left});
}

void LocalEngine::lose(AttemptId id, const std::string& why) {
  if (unexpected_.erase(id) != 0) {  // so it will not be acknowledged
    const KeeperId holder = attempts_.extract(id).mapped().keeper;
    return remove_record_of(holder);
  }
  emit(engine_event::Lost{.id = id, .why = why, .proven_gone = true});
}

// ---- after a restart -------------------------------------------------------------------------

void LocalEngine::adopt(std::vector<ExpectedAttempt> expected) {
  for (ExpectedAttempt& one : expected) {
    last_keeper_ = std::max(last_keeper_, one.keeper.value);
    const AttemptId id = one.id;
    expected_.emplace(id, std::move(one));
  }
  is_adopting_ = true;
  starts_wait_ = true;
  find_keepers();
  watch_stopped();
  const std::int64_t now = clock_.now().boot_ns;
  adopt_timer_ = loop_.at(now + config_.answer_ns, [this] {
    adopt_timer_ = 0;
    give_up_waiting();
  });
  loop_.at(now, [this, alive = alive_] {
    if (*alive) adopt_found();
  });
}

void LocalEngine::find_keepers() {
  const Result<std::vector<KeeperId>> found = list_keepers({});
  unlisted_ = !found;
  if (unlisted_) return find_again([this] { find_keepers(); });
  for (const KeeperId id : *found) {
    if (keepers_.count(id) == 0 && !foreign_.contains(id)) find_keeper(id);
  }
  await_hidden();
}

/// Keepers of expected attempts that live although nothing in the run folder shows them.
void LocalEngine::await_hidden() {
  const auto is_missing = [this](const auto& entry) {
    return entry.second.keeper && !is_known(entry.second.keeper);
  };
  if (std::none_of(expected_.begin(), expected_.end(), is_missing)) return;
  for (LivingKeeper& living : living_keepers(config_.home)) {
    const KeeperId id = living.id;
    if (is_known(id)) continue;
    if (!living.words.has_home_id(site_.home_id)) {
      const bool is_busy = !os::children_of(living.pid).empty();
      foreign_.add({.process = std::move(living), .is_earlier = true, .is_busy = is_busy});
      watch_foreign();
      continue;
    }
    hidden_[id] = {.process = std::move(living), .since_ns = clock_.now().boot_ns};
    find_keeper(id);
    (void)wake(id);  // a stopped one makes no socket
  }
}

/// One that lives and can't be spoken to for long is killed, as KeeperLink::end_unreachable() does.
bool LocalEngine::is_hidden(KeeperId id) {
  const auto it = hidden_.find(id);
  if (it == hidden_.end()) return false;
  const LivingKeeper& process = it->second.process;
  if (!os::is_alive(process.pid, process.start_ticks)) {
    hidden_.erase(it);
    return false;
  }
  const std::int64_t end = it->second.since_ns + kPatienceFactor * config_.answer_ns;
  if (clock_.now().boot_ns >= end) (void)os::send_signal(process.pid, process.start_ticks, SIGKILL);
  return true;
}

void LocalEngine::find_keeper(KeeperId id) {
  unreachable_.erase(id);
  const auto hidden = hidden_.find(id);
  const std::string born_in =
      hidden == hidden_.end() ? "" : hidden->second.process.words.run_folder;
  Result<std::unique_ptr<KeeperLink>> link =
      KeeperLink::find(loop_, site_, id, callbacks_of(id), born_in);
  if (link) {
    hidden_.erase(id);
    Keeper& keeper = keepers_[id];
    keeper.link = *std::move(link);
    keeper.state_wanted = true;
    keeper.link->send(keeper::Hello{});
  } else if (nobody_listens(link.error()) && !is_hidden(id)) {
    remove_sockets(id);
  } else {
    unreachable_.insert(id);
    find_again([this, id] { find_keeper(id); });
  }
}

/// No descriptor, no memory, too many that connect: the keepers may be well, and their jobs too.
void LocalEngine::find_again(std::function<void()> find) {
  loop_.at(clock_.now().boot_ns + kSecond / 2, [this, find = std::move(find), alive = alive_] {
    if (!*alive) return;
    find();
    adopt_found();
  });
}

void LocalEngine::on_state(KeeperId id, const keeper::State& state,
                           std::vector<os::UniqueFd> leases) {
  Keeper& keeper = keepers_.at(id);
  keeper.was_asked = false;
  if (!being_ended_.contains(id)) silent_.erase(id);
  if (!keeper.state_wanted) return;  // a sign of life: what it holds is known
  if (const auto foreign = foreign_of(id, state)) return leave_alone(id, *foreign);
  keeper.link->know(state.pid, state.start_ticks);
  keeper.idle_since_ns = clock_.now().boot_ns;
  keeper.pause_ns = 0;
  keeper.unheard_since_ns = 0;
  if (keeper.link->folder() != site_.run_dir)
    keeper.link->send(keeper::Rebind{.run_folder = site_.run_dir});
  keeper.has_less = state.version < keeper::kProtocolVersion || os::has_less(state.pid);
  if (keeper.has_less) keeper.link->send(keeper::Yield{});
  for (const keeper::Held& held : state.held)
    on_held(id, held, runs(held) ? std::exchange(leases, {}) : std::vector<os::UniqueFd>());
  lose_undelivered(id, state);
  say_again(id);
  keeper.state_wanted = false;
  adopt_found();
  schedule_trim();
}

void LocalEngine::on_held(KeeperId id, const keeper::Held& held, std::vector<os::UniqueFd> leases) {
  const AttemptId attempt = keeper::id_of(held);
  if (const auto expected = expected_.find(attempt); expected != expected_.end()) {
    attempts_[attempt] = {.keeper = id, .log_path = expected->second.out + "/log.txt"};
    expected_.erase(expected);
  }
  if (runs(held)) keepers_.at(id).attempt = attempt;
  const auto tracked = attempts_.find(attempt);
  if (tracked != attempts_.end()) {
    tracked->second.keeper = id;
    // Not one that was hit: no burial hits what has a living keeper.
    if (runs(held) && std::exchange(tracked->second.is_buried, false))
      undertaker_.cancel(marker_of(attempt));
  } else if (runs(held)) {
    // The coordinator knows nothing of it: no outcome of it would be recorded.
    attempts_[attempt] = {.keeper = id, .started_told = true, .stop = StopHow::Kill};
    unexpected_.insert(attempt);
  }
  if (held.started) on_started(*held.started, std::move(leases));
  if (held.failed) on_failed(id, *held.failed);
  if (held.exited) on_exited(id, *held.exited);
}

/// What was sent to it and is not there was lost with the connection: nothing of it runs, since a
/// keeper reads one connection to its end before the next.
void LocalEngine::lose_undelivered(KeeperId id, const keeper::State& state) {
  std::vector<AttemptId> lost;
  for (auto& [attempt, tracked] : attempts_) {
    if (tracked.keeper != id || tracked.ended || tracked.is_buried) continue;
    const bool is_held = std::any_of(
        state.held.begin(), state.held.end(),
        [attempt = attempt](const keeper::Held& held) { return keeper::id_of(held) == attempt; });
    if (!is_held) lost.push_back(attempt);
  }
  for (const AttemptId attempt : lost) {
    free_keeper(id, attempt);
    attempts_.at(attempt).ended = true;
    lose(attempt, "its keeper never received the request to start it");
  }
}

/// Both are done once, however often they are asked for.
void LocalEngine::say_again(KeeperId id) {
  const Keeper& keeper = keepers_.at(id);
  if (!keeper.attempt) return;
  const auto it = attempts_.find(*keeper.attempt);
  if (it == attempts_.end()) return;
  const Tracked& tracked = it->second;
  if (tracked.signal != 0)
    keeper.link->send(keeper::Signal{.id = it->first, .number = tracked.signal});
  if (tracked.stop)
    keeper.link->send(keeper::Stop{.id = it->first, .kill = *tracked.stop == StopHow::Kill});
}

/// Once every keeper has said what it holds, what is still expected has none.
void LocalEngine::adopt_found() {
  if (!is_adopting_) return;
  const bool waits = std::any_of(keepers_.begin(), keepers_.end(),
                                 [](const auto& entry) { return entry.second.state_wanted; });
  if (waits || !unreachable_.empty() || unlisted_) return;
  const Result<Records> records = records_of_the_gone();
  if (!records) return find_again([] {});
  is_adopting_ = false;
  starts_wait_ = false;
  if (adopt_timer_ != 0) loop_.cancel(std::exchange(adopt_timer_, 0));
  end_unexpected(*records);
  for (auto& [id, one] : std::exchange(expected_, {})) {
    if (foreign_.earlier(one.keeper) != nullptr) {
      expected_.emplace(id, std::move(one));  // until that has ended
    } else {
      recover_expected(one, *records, "its keeper was killed");
    }
  }
  if (keepers_.empty()) (void)start_keeper();
  remove_leftovers();
}

Result<LocalEngine::Records> LocalEngine::records_of_the_gone() const {
  Records out;
  Result<std::vector<KeeperId>> found = list_keepers(kRecordSuffix);
  if (!found) return std::move(found).error();
  for (const KeeperId id : *found) {
    if (!is_known(id)) read_record(id, out);
  }
  return out;
}

void LocalEngine::read_record(KeeperId id, Records& into) const {
  for (const std::string& folder : run_folders()) {
    const std::string path = keeper::record_path(folder, id.value);
    for (keeper::Held& held : keeper::read_record(path, site_.boot_id)) {
      const AttemptId attempt = keeper::id_of(held);
      into.emplace(attempt, Recorded{.keeper = id, .held = std::move(held)});
    }
  }
}

/// The record of a keeper that is gone goes when none of its attempts needs it any more: also none
/// that is still waited for.
void LocalEngine::remove_record_of(KeeperId id) {
  const bool is_needed = !id || is_known(id) || !foreign_.empty() || is_adopting_ ||
                         std::any_of(attempts_.begin(), attempts_.end(),
                                     [&](const auto& entry) { return entry.second.keeper == id; });
  if (!is_needed) unlink_record(id);
}

/// Ran under a keeper that is gone, and the store knows nothing of it (an older copy of it was put
/// back, say).
void LocalEngine::end_unexpected(const Records& records) {
  if (!foreign_.empty()) return;  // records do not say whose they are
  for (const auto& [id, recorded] : records) {
    if (!runs(recorded.held) || expected_.count(id) != 0 || attempts_.count(id) != 0) continue;
    attempts_[id] = {
        .keeper = recorded.keeper, .groups = recorded.held.started->groups, .started_told = true};
    unexpected_.insert(id);
    bury(id, "its keeper was killed");
  }
}

/// Files and groups of keepers that were killed.
void LocalEngine::remove_leftovers() {
  const Result<std::vector<KeeperId>> found = list_keepers(kRecordSuffix);
  for (const KeeperId id : found ? *found : std::vector<KeeperId>()) remove_record_of(id);
  for (const std::string& name : os::groups_of_home(config_.groups, config_.home)) {
    const KeeperId id = {os::keeper_of_cgroup(name, config_.home)};
    if (!is_known(id)) remove_group_of(id);
  }
}

/// What a keeper that was killed left behind.  Stays where something lives in it.
void LocalEngine::remove_group_of(KeeperId id) {
  if (!config_.groups) return;
  os::remove_groups(os::groups_named(config_.groups, os::cgroup_name(config_.home, id.value)));
}

/// A keeper that does not answer holds up its own attempts, and those of which nothing shows that
/// it has not got them.
void LocalEngine::give_up_waiting() {
  if (!is_adopting_) return;
  adopt_timer_ = loop_.at(clock_.now().boot_ns + config_.answer_ns, [this] {
    adopt_timer_ = 0;
    give_up_waiting();
  });
  const Result<Records> records = unlisted_ ? Result<Records>(Records{}) : records_of_the_gone();
  if (unlisted_ || !records) return;
  end_unexpected(*records);
  for (auto it = expected_.begin(); it != expected_.end();) {
    if (!is_settled(it->second, *records)) {
      ++it;
      continue;
    }
    const ExpectedAttempt one = std::move(it->second);
    it = expected_.erase(it);
    recover_expected(one, *records, "its keeper was killed");
  }
  starts_wait_ = std::any_of(unreachable_.begin(), unreachable_.end(),
                             [this](KeeperId id) { return holds_up_starts(id); }) ||
                 std::any_of(keepers_.begin(), keepers_.end(), [this](const auto& entry) {
                   return entry.second.state_wanted && holds_up_starts(entry.first);
                 });
}

/// No keeper that has not answered can have it.  The keeper that was journalled need not be the one
/// that got it: it may have ended before the start.
bool LocalEngine::is_settled(const ExpectedAttempt& one, const Records& records) const {
  const auto keeper = keepers_.find(one.keeper);
  if (keeper != keepers_.end()) return !keeper->second.state_wanted;
  return unreachable_.count(one.keeper) == 0 && foreign_.earlier(one.keeper) == nullptr &&
         records.count(one.id) != 0;
}

/// A keeper that does not answer runs, by its record, what the store knows nothing of.
bool LocalEngine::holds_up_starts(KeeperId id) const {
  Records records;
  read_record(id, records);
  return std::any_of(records.begin(), records.end(), [this](const auto& entry) {
    const auto& [attempt, recorded] = entry;
    return runs(recorded.held) && expected_.count(attempt) == 0 && attempts_.count(attempt) == 0;
  });
}

void LocalEngine::recover_expected(const ExpectedAttempt& one, const Records& records,
                                   const std::string& why) {
  attempts_[one.id] = {.keeper = one.keeper,
                       .pid = one.pid,
                       .start_ticks = one.start_ticks,
                       .log_path = one.out + "/log.txt"};
  recover(one.id, silent_.contains(one.keeper) ? kSilent : why, records);
}

}  // namespace pergpu
