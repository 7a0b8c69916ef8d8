// Whose a found keeper is, and what becomes of attempts that a keeper of another home has.
//
// Such an attempt is neither adopted nor buried: it runs to its end, and what its keeper recorded
// of that counts then.  Only who stops it by this home's commands ends it, with its keeper, where
// the store's own words prove that it is this one.
#include <algorithm>

#include "keeper/protocol.h"
#include "os/fs/real_path.h"
#include "os/process/keeper_words.h"
#include "os/process/proc.h"
#include "run/local.h"

namespace pergpu {
namespace {

constexpr std::int64_t kForeignLookNs = 1'000'000'000;

bool is_busy(const keeper::State& state) {
  return std::any_of(state.held.begin(), state.held.end(),
                     [](const keeper::Held& held) { return held.started && !held.exited; });
}

}  // namespace

/// nullopt: it is of this home.
std::optional<ForeignKeepers::Keeper> LocalEngine::foreign_of(KeeperId id,
                                                              const keeper::State& state) const {
  std::optional<os::KeeperWords> words = os::keeper_words(state.pid);
  if (!words || words->number != state.keeper) words.emplace();  // it can't be seen from here
  // Releases that gave two homes one run folder had it in the command line only.
  if (!state.home.empty()) words->home = state.home;
  // A release before may have spelled it through a link.
  const bool has_path = words->home.empty() || words->has_home(config_.home);
  if (has_path && words->has_home_id(site_.home_id)) return std::nullopt;
  const LivingKeeper process = {
      .id = id, .pid = state.pid, .start_ticks = state.start_ticks, .words = *words};
  return ForeignKeepers::Keeper{
      .process = process, .is_earlier = has_path, .is_busy = is_busy(state)};
}

void LocalEngine::leave_alone(KeeperId id, const ForeignKeepers::Keeper& foreign) {
  foreign_.add(foreign);
  watch_foreign();
  auto node = keepers_.extract(id);
  // What it said is still being read: its connection goes later.
  loop_.at(clock_.now().boot_ns,
           [link = std::shared_ptr<KeeperLink>(std::move(node.mapped().link))] {});
  adopt_found();
}

void LocalEngine::watch_foreign() {
  if (foreign_timer_ != 0 || !foreign_.has_earlier()) return;
  foreign_timer_ = loop_.at(clock_.now().boot_ns + kForeignLookNs, [this] {
    foreign_timer_ = 0;
    look_at_foreign();
    watch_foreign();
  });
}

void LocalEngine::look_at_foreign() {
  const std::vector<KeeperId> ended = foreign_.take_ended();
  for (const KeeperId id : ended) {
    Records records;
    read_record(id, records);
    std::vector<ExpectedAttempt> its;
    for (const auto& [attempt, one] : expected_) {
      if (one.keeper == id) its.push_back(one);
    }
    for (const ExpectedAttempt& one : its) {
      expected_.erase(one.id);
      recover_expected(one, records,
                       "it ended under a keeper of the home before that was moved or replaced: how "
                       "is not known");
    }
    remove_sockets(id);
  }
  if (!ended.empty() && foreign_.empty() && !is_adopting_) remove_leftovers();
}

/// Its keeper is the parent of the very process that the store names.
bool LocalEngine::is_proven_of(const ForeignKeepers::Keeper& foreign, AttemptId id) const {
  const auto it = expected_.find(id);
  if (it == expected_.end() || it->second.pid == 0) return false;
  const std::optional<os::ProcStat> stat = os::read_stat(it->second.pid);
  return stat && stat->start_ticks == it->second.start_ticks && stat->parent == foreign.process.pid;
}

}  // namespace pergpu
