// What /proc says may be a moment old: a handler that is set right after it was read is missed, as
// it was when the signal came a moment earlier.
#include "keeper/signal_ahead.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "os/process/proc.h"
#include "os/process/process_tree.h"

namespace pergpu::keeper {
namespace {

constexpr std::array<std::string_view, 8> kShells = {"sh",  "bash", "dash", "zsh",
                                                     "ksh", "mksh", "fish", "busybox"};

/// By the program that runs: a script has its own name.
bool is_shell(std::string_view program) {
  std::string_view name = program.substr(program.rfind('/') + 1);
  constexpr std::string_view kReplaced = " (deleted)";
  if (name.ends_with(kReplaced)) name.remove_suffix(kReplaced.size());
  return std::find(kShells.begin(), kShells.end(), name) != kShells.end();
}

}  // namespace

std::vector<pid_t> signal_targets(const std::vector<GroupMember>& members) {
  std::map<pid_t, const GroupMember*> by_pid;
  for (const GroupMember& member : members) by_pid[member.pid] = &member;
  const auto above = [&](const GroupMember& member) -> const GroupMember* {
    const auto found = by_pid.find(member.parent);
    return found == by_pid.end() ? nullptr : found->second;
  };
  std::set<pid_t> leads_to_handler;
  for (const GroupMember& member : members) {
    if (!member.handles) continue;
    for (const GroupMember* one = above(member); one != nullptr; one = above(*one)) {
      if (!leads_to_handler.insert(one->pid).second) break;
    }
  }
  std::vector<pid_t> targets;
  for (const GroupMember& member : members) {
    const GroupMember* saver = above(member);
    while (saver != nullptr && !saver->handles) saver = above(*saver);
    const bool is_spared = !member.handles && (leads_to_handler.contains(member.pid) ||
                                               (saver != nullptr && !saver->is_shell));
    if (!is_spared) targets.push_back(member.pid);
  }
  return targets;
}

std::vector<GroupMember> members_of(pid_t group, int signal) {
  std::vector<GroupMember> members;
  for (const os::TreeMember& one : os::descendants_of(::getpid())) {
    if (::getpgid(one.pid) != group) continue;
    const std::optional<os::ProcStat> stat = os::read_stat(one.pid);
    if (!stat || stat->ended()) continue;
    members.push_back({.pid = one.pid,
                       .parent = stat->parent,
                       .handles = os::handles(one.pid, signal),
                       .is_shell = is_shell(os::link_of(one.pid, "exe"))});
  }
  return members;
}

}  // namespace pergpu::keeper
