// What /proc tells about processes on a GPU (gpu/processes.h).
#include "gpu/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "os/fd.h"
#include "support.h"

namespace pergpu::gpu {
namespace {

// A child that lives as long as the object and says so before the constructor returns.
class LivingChild {
 public:
  explicit LivingChild(const char* name = "a child") {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::prctl(PR_SET_NAME, name);
      ::close(ready[0]);
      ::close(ready[1]);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 0);
    ::close(ready[0]);
  }
  ~LivingChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  LivingChild(const LivingChild&) = delete;
  LivingChild& operator=(const LivingChild&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(DescribeProcess, TellsUserCommandAndAncestors) {
  const LivingChild child("odd) name");
  GpuProcess process{.pid = child.pid()};
  describe_process(process);
  EXPECT_TRUE(process.matched);
  EXPECT_EQ(process.uid, ::getuid());
  EXPECT_EQ(process.command, "odd) name");
  ASSERT_GE(process.ancestors.size(), 1u);
  EXPECT_EQ(process.ancestors[0], ::getpid());
  EXPECT_EQ(std::ranges::count(process.ancestors, 1), 0);
}

TEST(DescribeProcess, ControlCharactersOfACommandAreNotPassedOn) {
  const LivingChild child("a\033[2Jb");
  GpuProcess process{.pid = child.pid()};
  describe_process(process);
  EXPECT_EQ(process.command, "a?[2Jb");
}

TEST(DescribeProcess, PidThatNoProcessHasIsUnmatched) {
  pid_t gone = 0;
  {
    const LivingChild child;
    gone = child.pid();
  }
  for (const pid_t pid : {gone, 0, -1, 0x7fffffff}) {
    GpuProcess process{.pid = pid};
    describe_process(process);
    EXPECT_FALSE(process.matched) << pid;
    EXPECT_FALSE(process.uid);
  }
}

TEST(HoldersOf, FindsWhoHasTheDeviceOpenAndNobodyElse) {
  TempFolder dev;
  write(dev / "nvidia3", "");
  write(dev / "nvidia31", "");
  const std::string device = dev / "nvidia3";
  EXPECT_TRUE(holders_of(device).empty());
  {
    const os::UniqueFd other(::open((dev / "nvidia31").c_str(), O_RDONLY));
    const LivingChild innocent;
    EXPECT_TRUE(holders_of(device).empty());
  }
  const os::UniqueFd open(::open(device.c_str(), O_RDONLY));
  const LivingChild worker("pt_data_worker");  // inherits the descriptor
  const std::vector<GpuProcess> holders = holders_of(device);
  ASSERT_EQ(holders.size(), 1u) << "this process itself does not count";
  EXPECT_EQ(holders[0].pid, worker.pid());
  EXPECT_EQ(holders[0].command, "pt_data_worker");
}

TEST(UserName, KnowsRootAndPrintsTheNumberOfOthers) {
  EXPECT_EQ(user_name(0), "root");
  EXPECT_EQ(user_name(3999999999u), "uid 3999999999");
}

}  // namespace
}  // namespace pergpu::gpu
