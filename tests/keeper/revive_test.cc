// Of many keepers that lose their coordinator at once one starts another.
#include "keeper/revive.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <iterator>
#include <sstream>

#include "keeper/rig.h"

namespace pergpu::keeper::rig {
namespace {

/// A keeper that is due.  What it starts is its sibling, so a child of ours.
void be_due(const std::string& program, const std::string& folder) {
  const pid_t keeper = ::fork();
  ASSERT_GE(keeper, 0);
  if (keeper == 0) {
    start_coordinator(program, folder, folder);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(keeper, nullptr, 0), keeper);
}

std::vector<pid_t> children() {
  std::istringstream words(slurp("/proc/self/task/" + std::to_string(::getpid()) + "/children"));
  return {std::istream_iterator<pid_t>(words), {}};
}

void end_children() {
  for (const pid_t child : children()) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST(StartCoordinator, NotWhileOneLivesThatAnotherKeeperStarted) {
  const TempFolder folder;
  const std::string program = folder.path() + "/program";
  spill(program, "#!/bin/sh\nexec sleep 1000\n");
  ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  for (int keeper = 0; keeper < 3; ++keeper) be_due(program, folder.path());
  EXPECT_EQ(children().size(), 1u);
  end_children();
  be_due(program, folder.path());
  EXPECT_EQ(children().size(), 1u) << "that one is gone";
  end_children();
}

TEST(StartCoordinator, WithoutALockRatherThanNotAtAll) {
  const TempFolder folder;
  const std::string program = folder.path() + "/program";
  spill(program, "#!/bin/sh\nexec sleep 1000\n");
  ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  be_due(program, folder.path() + "/gone");
  EXPECT_EQ(children().size(), 1u);
  end_children();
}

}  // namespace
}  // namespace pergpu::keeper::rig
