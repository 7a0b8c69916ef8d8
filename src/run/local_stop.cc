// What is to end although its keeper does not see to it: it may be stopped (by the job, as `kill
// -STOP 0` and debuggers do), spin, or wait for a file system that hangs.
//
// A stopped keeper is made to go on as soon as it is seen.  That is looked for, since the kernel
// reports a stop to the parent only, and an adopted keeper's parent is not this process.
#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "os/process/child.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"
#include "run/local.h"

namespace pergpu {
namespace {

constexpr std::int64_t kStopLookNs = 2'000'000'000;
constexpr std::chrono::seconds kUsualGrace{30};

bool is_stopped(pid_t pid) {
  const std::optional<os::ProcStat> stat = os::read_stat(pid);
  return stat && stat->state == 'T';
}

bool let_go_on(pid_t pid) {
  const std::optional<os::ProcStat> stat = os::read_stat(pid);
  return stat && stat->state == 'T' && os::send_signal(pid, stat->start_ticks, SIGCONT);
}

}  // namespace

StopWatch::Parts LocalEngine::watch_parts() {
  return {.loop = &loop_,
          .clock = &clock_,
          .is_pending = [this](AttemptId id) { return is_pending(id); },
          .ask = [this](AttemptId id) { ask_keeper(holder_of(id)); },
          .has_answered = [this](AttemptId id) { return has_answered(holder_of(id)); },
          .end = [this](AttemptId id) { end_keeper(id, holder_of(id)); }};
}

void LocalEngine::watch_stop(AttemptId id, StopHow how) {
  std::chrono::nanoseconds grace{0};
  if (how == StopHow::TermThenKill) {
    const auto tracked = attempts_.find(id);
    const bool is_known = tracked != attempts_.end() && tracked->second.grace;
    grace = is_known           ? *tracked->second.grace
            : config_.grace_of ? config_.grace_of(id)
                               : std::chrono::nanoseconds(kUsualGrace);
  }
  stop_watch_.watch(id, clock_.now().boot_ns + grace.count());
}

/// Whose it is, or by the store was to be.
KeeperId LocalEngine::holder_of(AttemptId id) const {
  if (const auto it = expected_.find(id); it != expected_.end()) return it->second.keeper;
  const auto it = attempts_.find(id);
  return it == attempts_.end() ? KeeperId{} : it->second.keeper;
}

bool LocalEngine::is_pending(AttemptId id) const {
  const KeeperId holder = holder_of(id);
  const auto it = attempts_.find(id);
  if (it != attempts_.end() && (it->second.ended || it->second.is_buried)) return false;
  return keepers_.contains(holder) || unreachable_.contains(holder) ||
         foreign_.earlier(holder) != nullptr;
}

/// HELLO: each is answered, also by keepers of earlier releases.
void LocalEngine::ask_keeper(KeeperId id) {
  const bool goes_on = wake(id);
  const auto it = keepers_.find(id);
  if (it == keepers_.end() || it->second.state_wanted)
    return;  // it was asked, and has not answered
  Keeper& keeper = it->second;
  keeper.was_asked = true;
  keeper.link->send(keeper::Hello{});
  if (keeper.has_less) keeper.link->send(keeper::Yield{});  // HELLO takes that back
  // It was stopped when it should have ended its attempt, and may count the grace from now.
  if (goes_on && keeper.attempt) {
    keeper.link->send(keeper::Stop{.id = *keeper.attempt, .kill = true});
  }
}

/// One that was stopped again since has answered for nothing.
bool LocalEngine::has_answered(KeeperId id) const {
  const auto it = keepers_.find(id);
  if (it == keepers_.end() || it->second.state_wanted || it->second.was_asked) return false;
  return it->second.link->pid() == 0 || !is_stopped(it->second.link->pid());
}

/// Its end shows as that of any keeper, and its attempt is recovered, buried and lost then.
void LocalEngine::end_keeper(AttemptId id, KeeperId keeper) {
  const ForeignKeepers::Keeper* foreign = foreign_.earlier(keeper);
  if (foreign != nullptr && !is_proven_of(*foreign, id)) return;
  if (!being_ended_.insert(keeper).second) return;
  const std::string words =
      "keeper " + std::to_string(keeper.value) + " doesn't respond: ending it and the job";
  if (silent_.insert(keeper).second) {
    std::fprintf(stderr, "pergpu: job %lld: %s\n", static_cast<long long>(id.job.value),
                 words.c_str());
  }
  const auto say = [this, id](const std::string& what) {
    emit(engine_event::Notified{.id = id, .line = std::string(keeper::kResists) + what});
  };
  say(words);
  const auto on_gone = [this, keeper] {
    being_ended_.erase(keeper);  // the helper may not have seen it: again then
    if (keepers_.contains(keeper)) reconnect(keeper);  // no listener is left
  };
  const std::string& home_id = foreign ? foreign->process.words.home_id : site_.home_id;
  undertaker_.end_keeper(config_.home, home_id, keeper, {.on_gone = on_gone, .on_left = say});
}

void LocalEngine::watch_stopped() {
  if (wake_timer_ != 0) return;
  wake_timer_ = loop_.at(clock_.now().boot_ns + kStopLookNs, [this] {
    wake_timer_ = 0;
    wake_keepers();
  });
}

void LocalEngine::wake_keepers() {
  bool any_busy = false;
  const auto see_to = [this](KeeperId id) {
    if (!wake(id) || !woken_.insert(id).second) return;  // said once
    std::fprintf(stderr, "pergpu: keeper %lld was stopped (SIGSTOP) and goes on\n",
                 static_cast<long long>(id.value));
  };
  for (const auto& [id, keeper] : keepers_) {
    if (keeper.is_free()) continue;
    any_busy = true;
    see_to(id);
  }
  for (const KeeperId id : unreachable_) see_to(id);
  if (any_busy || is_adopting_) watch_stopped();
}

/// Whether it was stopped and goes on.
bool LocalEngine::wake(KeeperId id) const {
  const auto it = keepers_.find(id);
  if (it != keepers_.end() && it->second.link->pid() != 0) {
    return let_go_on(it->second.link->pid());
  }
  if (it == keepers_.end() && !unreachable_.contains(id)) return false;
  if (const auto hidden = hidden_.find(id); hidden != hidden_.end()) {
    const LivingKeeper& process = hidden->second.process;
    return os::is_alive(process.pid, process.start_ticks) && let_go_on(process.pid);
  }
  bool goes_on = false;  // it has not said yet which process it is
  for (const LivingKeeper& keeper : living_keepers(config_.home)) {
    if (keeper.id != id || !keeper.words.has_home_id(site_.home_id)) continue;
    goes_on = let_go_on(keeper.pid) || goes_on;
  }
  return goes_on;
}

}  // namespace pergpu
