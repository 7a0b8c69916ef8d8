// With the fake of tests/fake_mps.
#include "gpu/pool/mps_control.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "os/fs/file.h"
#include "os/process/child.h"
#include "os/process/spawn.h"

namespace pergpu {
namespace {

constexpr char kGpu[] = "GPU-5a2b77f0-0000-0000-0000-000000000000";

struct MpsControlTest : ::testing::Test {
  MpsControlTest() {
    char name[] = "/tmp/pgmpsXXXXXX";
    root = ::mkdtemp(name);
    const std::string program = root + "/control";
    const std::string script = "#!/bin/sh\nexport FAKE_MPS_REFUSE=" + root +
                               "/refuse CLAIMS=" + root +
                               "\nexec " PERGPU_TEST_DATA "/../fake_mps/control \"$@\"\n";
    EXPECT_TRUE(os::write_file_atomic(program, script, 0755, false));
    control.emplace(program);
    folder = mps_folder(root, kGpu);
  }
  ~MpsControlTest() override {
    (void)control->stop(folder);
    (void)os::remove_tree(root);
  }
  std::string root;
  std::string folder;
  std::optional<MpsControl> control;
};

TEST_F(MpsControlTest, ADaemonIsStartedOnceAndGoneAfterItsEnd) {
  const Result<std::int32_t> pid = control->start(folder, kGpu);
  ASSERT_TRUE(pid) << pid.error().message;
  EXPECT_EQ(mps_daemon(folder), *pid);
  const Result<std::int32_t> again = control->start(folder, kGpu);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *pid);
  ASSERT_TRUE(control->stop(folder));
  EXPECT_EQ(mps_daemon(folder), 0);
  EXPECT_FALSE(os::exists(folder));
  EXPECT_TRUE(control->stop(folder)) << "nothing is there to end";
}

TEST_F(MpsControlTest, OneThatWasKilledIsStartedAnew) {
  const Result<std::int32_t> pid = control->start(folder, kGpu);
  ASSERT_TRUE(pid);
  ::kill(*pid, SIGKILL);
  const Result<std::int32_t> again = control->start(folder, kGpu);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_NE(*again, *pid);
}

TEST_F(MpsControlTest, WhyItDoesNotStartIsTold) {
  ASSERT_TRUE(os::write_file_atomic(root + "/refuse", "", 0644, false));
  const Result<std::int32_t> pid = control->start(folder, kGpu);
  ASSERT_FALSE(pid);
  EXPECT_NE(pid.error().message.find("a fake refusal"), std::string::npos) << pid.error().message;
}

TEST_F(MpsControlTest, AnotherProcessOfThatNumberIsNoDaemon) {
  ASSERT_TRUE(os::make_dirs(folder, 0700));
  const std::string text = std::to_string(::getpid());
  ASSERT_TRUE(os::write_file_atomic(folder + "/nvidia-cuda-mps-control.pid", text, 0644, false));
  EXPECT_EQ(mps_daemon(folder), 0);
}

TEST_F(MpsControlTest, WhereNoneLivesNobodyIsAClient) {
  EXPECT_FALSE(control->has_client(folder, {::getpid()}));
  ASSERT_TRUE(control->start(folder, kGpu));
  const Result<bool> is_client = control->has_client(folder, {::getpid()});
  ASSERT_TRUE(is_client) << is_client.error().message;
  EXPECT_FALSE(*is_client);
}

TEST_F(MpsControlTest, APathTooLongForSocketsIsRefused) {
  const std::string deep = root + "/" + std::string(90, 'x');
  const Result<std::int32_t> pid = control->start(deep, kGpu);
  ASSERT_FALSE(pid);
  EXPECT_NE(pid.error().message.find("too long"), std::string::npos) << pid.error().message;
  EXPECT_FALSE(os::exists(deep));
}

TEST_F(MpsControlTest, AServerWithoutADaemonIsEndedAndNobodyElse) {
  const std::string server = root + "/nvidia-cuda-mps-server";
  ASSERT_EQ(::symlink("/bin/sleep", server.c_str()), 0);
  const auto sleeper = [&](const std::string& program) {
    os::SpawnPlan plan;
    plan.argv = {program, "1000"};
    plan.env = {"CUDA_MPS_PIPE_DIRECTORY=" + folder};
    return std::get<os::Spawned>(os::spawn(plan));
  };
  const os::Spawned left = sleeper(server);
  const os::Spawned job = sleeper("/bin/sleep");
  ASSERT_TRUE(control->stop(folder));
  const Result<os::Reaped> ended = os::wait_for(left.pid);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(std::holds_alternative<os::Signaled>(ended->status));
  EXPECT_EQ(::kill(job.pid, 0), 0);
  ::kill(job.pid, SIGKILL);
  (void)os::wait_for(job.pid);
}

}  // namespace
}  // namespace pergpu
