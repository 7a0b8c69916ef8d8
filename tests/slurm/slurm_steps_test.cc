// Where srun's output goes: a script stands for srun.  Others may write to the folder of a
// handover.
#include "slurm/slurm_steps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "os/fs/file.h"
#include "os/process/child.h"

namespace pergpu::slurm {
namespace {

constexpr char kBefore[] = "what lay there\n";
constexpr uid_t kAnother = 61002;

struct SlurmStepOutput : ::testing::Test {
  void SetUp() override {
    std::string name = "/tmp/pergpu-steps-XXXXXX";
    folder = ::mkdtemp(name.data());
    const std::string handover = folder + "/sweep/.slurm/key";
    ASSERT_TRUE(os::make_dirs(handover, 0755));
    output = handover + "/task-0.txt";
    const std::string srun = "#!/bin/sh\necho said\necho complained >&2\n: >" + folder + "/ran\n";
    ASSERT_TRUE(os::write_file_atomic(folder + "/srun", srun, 0755, false));
    umask_before = ::umask(0);
    path_before = std::getenv("PATH");
    ::setenv("PATH", folder.c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_before.c_str(), 1);
    ::umask(umask_before);
    EXPECT_TRUE(os::remove_tree(folder));
  }

  StepCall call() const {
    return {
        .name = "k", .node = "n0", .cwd = folder, .output = output, .command = {}, .umask = 027};
  }
  /// A step to its end.
  void run() {
    const Result<std::shared_ptr<os::Spawned>> step = steps.start(call());
    ASSERT_TRUE(step) << step.error().message;
    const Result<os::Reaped> end = os::wait_for((*step)->pid);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->status, os::ExitStatus(os::Exited{0}));
  }
  void expect_refused(const std::string& what) {
    const Result<std::shared_ptr<os::Spawned>> step = steps.start(call());
    if (step) (void)os::wait_for((*step)->pid);
    ASSERT_FALSE(step) << what;
    EXPECT_NE(step.error().message.find(output), std::string::npos) << what;
    EXPECT_FALSE(os::exists(folder + "/ran")) << what;
  }
  void write(const std::string& file) const {
    ASSERT_TRUE(os::write_file_atomic(file, kBefore, 0600, false));
  }
  static std::string read(const std::string& file) {
    const Result<std::string> text = os::read_file(file, 1u << 20);
    return text ? *text : "";
  }

  Steps steps{"17"};
  std::string folder;
  std::string path_before;
  mode_t umask_before = 0;
  std::string output;
};

TEST_F(SlurmStepOutput, WhatSrunSaysIsAppendedToAFileOfTheSweepsModes) {
  run();
  struct stat st = {};
  ASSERT_EQ(::stat(output.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640u);
  run();
  EXPECT_EQ(read(output), "said\ncomplained\nsaid\ncomplained\n");
}

TEST_F(SlurmStepOutput, NothingIsStartedWhoseOutputWouldGoThroughALink) {
  const std::string file = folder + "/private";
  write(file);
  ASSERT_EQ(::symlink(file.c_str(), output.c_str()), 0);
  expect_refused("a symlink of ours");
  ASSERT_EQ(::unlink(output.c_str()), 0);
  ASSERT_EQ(::symlink((folder + "/nothing").c_str(), output.c_str()), 0);
  expect_refused("a symlink to nothing");
  EXPECT_FALSE(os::exists(folder + "/nothing"));
  ASSERT_EQ(::unlink(output.c_str()), 0);
  ASSERT_EQ(::link(file.c_str(), output.c_str()), 0);
  expect_refused("a second name of a file");
  EXPECT_EQ(read(file), kBefore);
}

TEST_F(SlurmStepOutput, NothingIsStartedWhoseOutputIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(output.c_str(), 0600), 0);
  expect_refused("a FIFO that nobody reads");
  const os::UniqueFd reader(::open(output.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader);
  expect_refused("a FIFO with a reader");
  ASSERT_EQ(::unlink(output.c_str()), 0);
  ASSERT_EQ(::mkdir(output.c_str(), 0700), 0);
  expect_refused("a folder");
}

TEST_F(SlurmStepOutput, NothingIsStartedWhoseOutputIsAnotherUsersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
  write(output);
  ASSERT_EQ(::chmod(output.c_str(), 0666), 0);
  ASSERT_EQ(::chown(output.c_str(), kAnother, kAnother), 0);
  expect_refused("a file of another user");
  EXPECT_EQ(read(output), kBefore);
}

}  // namespace
}  // namespace pergpu::slurm
