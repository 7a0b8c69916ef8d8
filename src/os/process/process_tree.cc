// Why plain kill() is right below a keeper: a direct child's pid stays taken until the keeper reaps
// it, and the walk goes top-down, so a deeper child's parent is stopped, so it cannot reap it,
// before that child is signaled.  In a tree without a keeper nothing holds the pids: there every
// signal goes through a pidfd whose process was compared with the start time that was found (where
// the kernel has none: to the number, right after that).
#include "os/process/process_tree.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "os/process/cgroup.h"
#include "os/process/child.h"
#include "os/process/keeper_words.h"
#include "os/process/proc.h"

namespace pergpu::os {
namespace {

constexpr int kMostStopRounds = 64;  // against a tree that forks faster than it can be stopped

/// Pids below `root`, parents before children.  `visit` is called with each before its children are
/// looked for.
template <typename Visit>
std::vector<pid_t> walk(pid_t root, Visit visit) {
  std::vector<pid_t> found = children_of(root);
  std::unordered_set<pid_t> seen(found.begin(), found.end());
  for (const pid_t pid : found) visit(pid);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const pid_t child : children_of(found[i])) {
      if (!seen.insert(child).second) continue;
      visit(child);
      found.push_back(child);
    }
  }
  return found;
}

TreeMember member_of(ProcStat stat) {
  return TreeMember{.pid = stat.pid,
                    .start_ticks = stat.start_ticks,
                    .state = stat.state,
                    .cpu_ns = stat.cpu_ns,
                    .name = std::move(stat.name)};
}

/// Signals exactly the process that was found.
void signal_member(const TreeMember& member, int signal) {
  (void)send_signal(member.pid, member.start_ticks, signal);
}

using Snapshot = std::unordered_map<pid_t, ProcStat>;

Snapshot snapshot_of_all() {
  Snapshot out;
  for (const pid_t pid : all_processes()) {
    if (std::optional<ProcStat> stat = read_stat(pid)) out.emplace(pid, *std::move(stat));
  }
  return out;
}

std::unordered_set<pid_t> self_and_ancestors(const Snapshot& all) {
  std::unordered_set<pid_t> out;
  pid_t pid = ::getpid();
  while (pid > 0 && out.insert(pid).second) {
    const auto it = all.find(pid);
    if (it == all.end()) break;
    pid = it->second.parent;
  }
  return out;
}

enum class Claim { None, Weak, Strong };

/// While a process executes another program its environment is not there for a moment, and it must
/// not be taken for a stranger.
std::optional<std::string> marker_of(const ProcStat& stat) {
  constexpr int kMostReadings = 40;
  constexpr int kPauseUs = 50;
  std::string environment = environment_of(stat.pid);
  for (int reading = 1; environment.empty() && reading < kMostReadings; ++reading) {
    const bool may_come = !stat.is_kernel_thread && may_tell_environment(stat.pid) &&
                          is_alive(stat.pid, stat.start_ticks);
    if (!may_come) break;
    const bool was_there = has_environment(stat.pid);
    if (!was_there) ::usleep(kPauseUs);
    environment = environment_of(stat.pid);
    if (was_there && has_environment(stat.pid)) break;  // it is one, and empty
  }
  return value_in(environment, kMarkerName);
}

/// Which mark `stat` carries; one that only shows where a process came from, or where it
/// writes, is weak.  A session keeps its number from being given to a new process, so members of
/// session `marks.pid` are ours unless another process has that pid now or the member says itself
/// that it belongs to another attempt.
Claim claim_of(const ProcStat& stat, const TreeMarks& marks, bool session_is_ours) {
  if (marks.pid != 0 && stat.pid == marks.pid && stat.start_ticks == marks.start_ticks)
    return Claim::Strong;
  const std::optional<std::string> marker = marker_of(stat);
  if (marker) return !marks.marker.empty() && *marker == marks.marker ? Claim::Strong : Claim::None;
  if (session_is_ours && stat.session == marks.pid && stat.start_ticks >= marks.start_ticks)
    return Claim::Weak;
  if (marks.log_path.empty()) return Claim::None;
  const bool writes_log =
      link_of(stat.pid, "fd/1") == marks.log_path || link_of(stat.pid, "fd/2") == marks.log_path;
  return writes_log ? Claim::Weak : Claim::None;
}

/// Which processes belong to an attempt that has a living keeper.  No burial may hit one, whatever
/// marks it carries: the next attempt of the same job writes the same log, and between fork and
/// exec it has its keeper's environment.
class LivingKeepers {
 public:
  /// The home is the marker's, up to the attempt.
  explicit LivingKeepers(const std::string& marker) : home_(marker.substr(0, marker.rfind('/'))) {}

  /// `pid` is such a keeper.
  bool has(pid_t pid) {
    const auto [known, is_new] = is_keeper_.try_emplace(pid, false);
    if (!is_new) return known->second;
    if (home_.empty()) return false;
    const std::optional<KeeperWords> words = keeper_words(pid);
    known->second = words && words->has_home(home_);
    return known->second;
  }

  /// `pid` is one or below one.  Read afresh: an orphan found a moment ago may have been given to
  /// its keeper, which is its sub-reaper, since.
  bool have(pid_t pid) {
    constexpr int kMostReadings = 64;
    if (home_.empty()) return false;
    pid_t missing = 0;
    for (int reading = 0; reading < kMostReadings; ++reading) {
      pid_t at = pid;
      while (at > 1 && !has(at)) {
        const std::optional<ProcStat> stat = read_stat(at);
        if (!stat) break;
        at = stat->parent;
      }
      if (at <= 1 || at == missing) return false;  // hidden from us: another user's
      if (has(at)) return true;
      if (at == pid) return false;  // it is gone itself
      missing = at;
    }
    return true;
  }

 private:
  std::string home_;
  std::unordered_map<pid_t, bool> is_keeper_;
};

}  // namespace

std::vector<TreeMember> descendants_of(pid_t root) {
  std::vector<TreeMember> out;
  for (const pid_t pid : walk(root, [](pid_t) {})) {
    std::optional<ProcStat> stat = read_stat(pid);
    if (stat && !stat->ended()) out.push_back(member_of(*std::move(stat)));
  }
  return out;
}

std::string why_left(const TreeMember& member) {
  std::string out = "process " + std::to_string(member.pid) + " (" + member.name + ") ";
  if (!member.spared.empty()) return out + member.spared;
  switch (member.state) {
    case 'D':
      return out + "cannot be killed: uninterruptible sleep";
    case 'Z':
    case 'X':
      return out + "has ended, but process " + std::to_string(tracer_of(member.pid)) +
             " is tracing it";
    default:
      return out + "was killed and is still there (state " + member.state + ")";
  }
}

std::string why_left(const std::vector<TreeMember>& members) {
  constexpr std::size_t kMostNamed = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(members.size(), kMostNamed); ++i)
    out += (i == 0 ? "" : "; ") + why_left(members[i]);
  if (members.size() > kMostNamed)
    out += "; and " + std::to_string(members.size() - kMostNamed) + " more";
  return out;
}

std::string why_left_below(pid_t root) {
  std::vector<TreeMember> left = descendants_of(root);
  for (const pid_t pid : children_of(root)) {
    std::optional<ProcStat> stat = read_stat(pid);
    if (stat && stat->ended() && tracer_of(pid) != 0) left.push_back(member_of(*std::move(stat)));
  }
  return why_left(left);
}

void signal_descendants(int signal) {
  walk(::getpid(), [signal](pid_t pid) { ::kill(pid, signal); });
}

void kill_descendants() {
  std::unordered_set<pid_t> stopped;
  std::vector<pid_t> found;
  for (int round = 0; round < kMostStopRounds; ++round) {
    bool any_new = false;
    found = walk(::getpid(), [&](pid_t pid) {
      if (!stopped.insert(pid).second) return;
      any_new = true;
      ::kill(pid, SIGSTOP);
    });
    if (!any_new) break;
  }
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
}

std::vector<TreeMember> find_keepers(const std::string& home, const std::string& home_id,
                                     std::int64_t number) {
  std::vector<TreeMember> out;
  for (const pid_t pid : all_processes()) {
    struct stat owner = {};
    const std::string folder = "/proc/" + std::to_string(pid);
    if (::stat(folder.c_str(), &owner) < 0 || owner.st_uid != ::geteuid()) continue;
    const std::optional<KeeperWords> words = keeper_words(pid);
    if (!words || words->number != number || !words->has_home(home) || !words->has_home_id(home_id))
      continue;
    std::optional<ProcStat> stat = read_stat(pid);
    if (stat && !stat->ended()) out.push_back(member_of(*std::move(stat)));
  }
  return out;
}

void kill_from_root(const TreeMember& root) {
  std::set<std::pair<pid_t, std::uint64_t>> stopped;
  std::vector<TreeMember> below;
  signal_member(root, SIGSTOP);
  for (int round = 0; round < kMostStopRounds; ++round) {
    bool any_new = false;
    below = descendants_of(root.pid);
    for (const TreeMember& member : below) {
      if (!stopped.insert({member.pid, member.start_ticks}).second) continue;
      any_new = true;
      signal_member(member, SIGSTOP);
    }
    if (!any_new) break;
  }
  for (const TreeMember& member : below) signal_member(member, SIGKILL);
  signal_member(root, SIGKILL);
}

std::vector<TreeMember> find_tree(const TreeMarks& marks) {
  const Snapshot all = snapshot_of_all();
  const std::unordered_set<pid_t> spared = self_and_ancestors(all);
  const auto leader = all.find(marks.pid);
  const bool session_is_ours =
      marks.pid != 0 && (leader == all.end() || leader->second.start_ticks == marks.start_ticks);

  const std::vector<pid_t> grouped = processes_in(marks.groups);
  const std::unordered_set<pid_t> in_group(grouped.begin(), grouped.end());

  std::unordered_multimap<pid_t, pid_t> children;
  std::vector<pid_t> found;
  std::vector<TreeMember> out;
  std::unordered_set<pid_t> seen = spared;
  LivingKeepers keepers(marks.marker);
  const auto spare = [&](const ProcStat& stat, std::string why) {
    if (stat.ended()) return;
    out.push_back(member_of(stat));
    out.back().spared = std::move(why);
  };
  for (const auto& [pid, stat] : all) {
    children.emplace(stat.parent, pid);
    if (spared.count(pid) != 0) continue;
    const Claim claim = claim_of(stat, marks, session_is_ours);
    if (claim == Claim::None && in_group.count(pid) == 0) continue;
    if (keepers.have(pid)) {
      if (claim == Claim::Strong) spare(stat, "has a running keeper");
    } else if (claim == Claim::Weak && !has_environment(pid)) {
      spare(stat, "is just starting or ending, so its owner is unknown");
    } else if (seen.insert(pid).second) {
      found.push_back(pid);
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto it = first; it != last; ++it) {
      if (!keepers.has(it->second) && seen.insert(it->second).second) found.push_back(it->second);
    }
  }
  for (const pid_t pid : found) {
    const ProcStat& stat = all.at(pid);
    if (!stat.ended()) out.push_back(member_of(stat));
  }
  return out;
}

std::vector<TreeMember> kill_tree(const TreeMarks& marks) {
  const std::vector<pid_t> grouped = processes_in(marks.groups);
  LivingKeepers keepers(marks.marker);
  // A job may have started us, or a keeper that lives have the group: then one process after the
  // other.
  if (std::none_of(grouped.begin(), grouped.end(),
                   [&](pid_t pid) { return pid == ::getpid() || keepers.have(pid); }))
    kill_groups(marks.groups);
  std::map<std::pair<pid_t, std::uint64_t>, TreeMember> stopped;
  std::vector<TreeMember> found;
  for (int round = 0; round < kMostStopRounds; ++round) {
    bool any_new = false;
    found = find_tree(marks);
    for (const TreeMember& member : found) {
      if (!member.spared.empty()) continue;
      if (!stopped.try_emplace({member.pid, member.start_ticks}, member).second) continue;
      any_new = true;
      signal_member(member, SIGSTOP);
    }
    if (!any_new) break;
  }
  // Found again when it had been stopped: only that is killed.
  for (const TreeMember& member : found) {
    if (!member.spared.empty()) continue;
    signal_member(member, SIGKILL);
    stopped.erase({member.pid, member.start_ticks});
  }
  for (const auto& [key, member] : stopped) {
    if (member.state != 'T') signal_member(member, SIGCONT);
  }
  return found;
}

}  // namespace pergpu::os
