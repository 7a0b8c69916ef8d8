// Helpers that end the trees of dead keepers, with a program of the test in their place.
#include "run/undertaker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/clock.h"
#include "os/process/proc.h"

namespace pergpu {
namespace {

constexpr std::int64_t kDeadlineNs = 30'000'000'000;

class UndertakerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    // Says who it is and does not come to an end.
    std::ofstream(helper()) << "#!/bin/sh\necho $$ > " << folder_ << "/pid.new\nmv " << folder_
                            << "/pid.new " << folder_ << "/pid\nexec sleep 1000\n";
    ASSERT_EQ(::chmod(helper().c_str(), 0700), 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string helper() const { return folder_ + "/helper"; }
  /// 0: none has been started yet.
  pid_t helper_pid() const {
    pid_t pid = 0;
    std::ifstream(folder_ + "/pid") >> pid;
    return pid;
  }
  static bool eventually(const std::function<bool()>& condition) {
    const std::int64_t end = os::boot_now_ns() + kDeadlineNs;
    while (!condition()) {
      if (os::boot_now_ns() > end) return false;
      ::usleep(2000);
    }
    return true;
  }
  static bool gone(pid_t pid) {
    const std::optional<os::ProcStat> stat = os::read_stat(pid);
    return !stat || stat->ended();
  }

  std::string folder_;
};

TEST_F(UndertakerTest, HelperEndsWithAKilledCoordinator) {
  const pid_t coordinator = ::fork();
  if (coordinator == 0) {
    const std::unique_ptr<os::Loop> loop = *os::Loop::create();
    Undertaker undertaker(*loop, helper());
    undertaker.end({.marker = "m/1.1"}, {});
    (void)loop->run();
    ::_exit(0);
  }
  ASSERT_TRUE(eventually([&] { return helper_pid() != 0; }));
  const pid_t pid = helper_pid();
  EXPECT_FALSE(gone(pid));
  ASSERT_EQ(::kill(coordinator, SIGKILL), 0);
  ASSERT_EQ(::waitpid(coordinator, nullptr, 0), coordinator);
  EXPECT_TRUE(eventually([&] { return gone(pid); }));
}

TEST_F(UndertakerTest, CancelledBurialEndsItsHelperAndSaysNothing) {
  const std::unique_ptr<os::Loop> loop = *os::Loop::create();
  Undertaker undertaker(*loop, helper());
  int said = 0;
  undertaker.end({.marker = "m/1.1"},
                 {.on_gone = [&] { ++said; }, .on_left = [&](const std::string&) { ++said; }});
  ASSERT_TRUE(eventually([&] { return helper_pid() != 0; }));
  undertaker.cancel("m/1.1");
  loop->on_turn([&] {
    if (!os::read_stat(helper_pid())) loop->stop();  // reaped
  });
  ASSERT_TRUE(loop->run());
  EXPECT_EQ(said, 0);
}

}  // namespace
}  // namespace pergpu
