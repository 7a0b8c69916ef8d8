// Whom the signal ahead of a timeout reaches. Pure.
//
// It goes to the programs that have a handler for it. It would end those that have none: workers
// of multiprocessing, its resource tracker, a pipe through ffmpeg. They are spared where the
// program above them saves the state, or one below them does. A shell waits for its command before
// it runs a trap, so what a shell with a trap has started is signaled, too. Where no process has a
// handler the signal goes to the whole process group.
#pragma once

#include <sys/types.h>

#include <vector>

namespace pergpu::keeper {

/// A process of the job's process group.
struct GroupMember {
  pid_t pid = 0;
  pid_t parent = 0;
  bool handles = false;  // it has a handler for the signal, or waits for it
  bool is_shell = false;
};

/// Of the members those that get the signal.
std::vector<pid_t> signal_targets(const std::vector<GroupMember>& members);

/// The living members of a process group below this process.
std::vector<GroupMember> members_of(pid_t group, int signal);

}  // namespace pergpu::keeper
