// All processes of one attempt: those below its keeper, or, when the keeper is dead, those that can
// still be recognized.  A tree is ended by stopping everything first, until nothing new appears,
// and then killing it, so that nothing forks away while the list is being read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pergpu::os {

struct TreeMember {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  char state = '?';         // 'D': cannot be ended before the kernel lets go of it
  std::int64_t cpu_ns = 0;  // user and system, with that of children it has waited for
  std::string name = {};
  std::string spared = {};  // why it is not signaled although it may be part of the tree; "": it is
};

/// Living processes below `root` (without it), parents before children.  Complete when `root` is a
/// sub-reaper: processes whose parent ended are its children then.
std::vector<TreeMember> descendants_of(pid_t root);

/// Sends `signal` to every process below the calling process.
void signal_descendants(int signal);

/// Stops, then kills everything below the calling process.  One round: call it again until there is
/// no child left to wait for.  REQUIRES: the caller is a sub-reaper.
void kill_descendants();

/// Why it is still there although it was killed: "process 4711 (python3) cannot be killed:
/// uninterruptible sleep".
std::string why_left(const TreeMember& member);
/// The same for the first few of `members`.
std::string why_left(const std::vector<TreeMember>& members);
/// The same for everything below `root`, and for its children that have ended but cannot be waited
/// for, because a debugger holds them.
std::string why_left_below(pid_t root);

/// The living keeper of this home and number, wherever its sockets are, by the words that it was
/// started with (os/process/keeper_words.h); more than one where they were copied.  Of this user
/// only.
std::vector<TreeMember> find_keepers(const std::string& home, const std::string& home_id,
                                     std::int64_t number);

/// Stops `root`, so that it neither starts nor takes anything more, and everything below it, until
/// nothing new appears; kills what is below it, then `root`.  Does not wait for their ends.
void kill_from_root(const TreeMember& root);

/// How the processes of an attempt without a keeper are recognized.
struct TreeMarks {
  pid_t pid = 0;                         // its first process and session; 0: not known
  std::uint64_t start_ticks = 0;         // of that process
  std::string marker = {};               // value of kMarkerName in the environment of its processes
  std::string log_path = {};             // where their output went
  std::vector<std::string> groups = {};  // their control groups, as folders
};
inline constexpr char kMarkerName[] = "PERGPU_ATTEMPT_ID";

/// Living processes that carry one of the marks, and everything below them.  The caller and its
/// ancestors are never among them.  What a living keeper of the marker's home has below it belongs
/// to that keeper's attempt: passed over, unless it says itself that it is of this tree; then it is
/// there, and spared.
std::vector<TreeMember> find_tree(const TreeMarks& marks);

/// Kills the control groups; stops, then kills the processes of find_tree() that are not spared.
/// One round; returns what was found.
std::vector<TreeMember> kill_tree(const TreeMarks& marks);

}  // namespace pergpu::os
