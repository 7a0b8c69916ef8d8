// What a job sees: which variables survive, which are set, and who wins.
#include "run/environment.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pergpu {
namespace {

class Environment : public testing::Test {
 protected:
  JobEnvironment build() {
    request_.captured = &captured_;
    return build_environment(request_);
  }
  /// "<unset>" when there is none.
  static std::string value(const JobEnvironment& environment, const std::string& name) {
    for (const std::string& entry : environment.all) {
      if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
    }
    return "<unset>";
  }

  std::vector<std::string> captured_ = {"PATH=/usr/bin", "HOME=/home/alice"};
  EnvironmentRequest request_ = {.cpus = 4, .attempt = {{17}, 2}, .out = "/o", .marker = "/h/17.2"};
};

TEST_F(Environment, CapturedVariablesSurvive) { EXPECT_EQ(value(build(), "HOME"), "/home/alice"); }

TEST_F(Environment, OnlyPassedVariablesSurviveWhenAsked) {
  request_.env_pass = {"PATH"};
  EXPECT_EQ(value(build(), "PATH"), "/usr/bin");
  EXPECT_EQ(value(build(), "HOME"), "<unset>");
}

TEST_F(Environment, PatternsPassEveryNameThatMatches) {
  captured_.insert(captured_.end(), {"WANDB_MODE=offline", "WANDB_DIR=/w", "MY_WANDB_X=1",
                                     "LC_ALL=C", "PERGPU_JOB=1"});
  request_.env_pass = {"WANDB_*", "LC_[A-Z]*", "PERGPU_*"};
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "WANDB_MODE"), "offline");
  EXPECT_EQ(value(environment, "WANDB_DIR"), "/w");
  EXPECT_EQ(value(environment, "LC_ALL"), "C");
  EXPECT_EQ(value(environment, "MY_WANDB_X"), "<unset>");
  EXPECT_EQ(value(environment, "HOME"), "<unset>");
  EXPECT_EQ(value(environment, "PERGPU_JOB"), "17");
}

TEST_F(Environment, TheMeetingPlaceIsNamedWhereThereIsOneAndNeverInherited) {
  captured_.push_back("PERGPU_SHARE=/elsewhere");
  EXPECT_EQ(value(build(), "PERGPU_SHARE"), "<unset>");
  request_.share = "/h/run/share.sock";
  EXPECT_EQ(value(build(), "PERGPU_SHARE"), "/h/run/share.sock");
}

TEST_F(Environment, TheHomeIsTheOneThatRunsTheJob) {
  captured_.push_back("PERGPU_HOME=/elsewhere");
  EXPECT_EQ(value(build(), "PERGPU_HOME"), "<unset>");
  request_.home = "/h";
  EXPECT_EQ(value(build(), "PERGPU_HOME"), "/h");
}

TEST_F(Environment, ThreadsAreTheBudgetWhereTheUserHasSetNone) {
  captured_.push_back("MKL_NUM_THREADS=1");
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "OMP_NUM_THREADS"), "4");
  EXPECT_EQ(value(environment, "TORCHINDUCTOR_COMPILE_THREADS"), "4");
  EXPECT_EQ(value(environment, "MKL_NUM_THREADS"), "1");
}

TEST_F(Environment, GpusAreTheGivenOnesAlone) {
  captured_.push_back("CUDA_VISIBLE_DEVICES=0,1,2");
  request_.gpus = {"GPU-a"};
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "CUDA_VISIBLE_DEVICES"), "GPU-a");
  EXPECT_EQ(value(environment, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
}

TEST_F(Environment, AnAmdGpuIsChosenByItsUuidAndNumberedForHip) {
  captured_.insert(captured_.end(), {"HIP_VISIBLE_DEVICES=3", "ROCR_VISIBLE_DEVICES=2"});
  request_.gpus = {"GPU-18a4d2a7b0c1e3f5", "GPU-00000000000000b2"};
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "ROCR_VISIBLE_DEVICES"),
            "GPU-18a4d2a7b0c1e3f5,GPU-00000000000000b2");
  EXPECT_EQ(value(environment, "HIP_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(value(environment, "CUDA_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(value(environment, "PERGPU_NUM_GPUS"), "2");
}

TEST_F(Environment, AnNvidiaGpuIsTheSameForAll) {
  captured_.push_back("HIP_VISIBLE_DEVICES=3");
  for (const char* gpu : {"GPU-11111111-0000-0000-0000-000000000001", "1"}) {
    request_.gpus = {gpu};
    const JobEnvironment environment = build();
    EXPECT_EQ(value(environment, "CUDA_VISIBLE_DEVICES"), gpu);
    EXPECT_EQ(value(environment, "ROCR_VISIBLE_DEVICES"), gpu);
    EXPECT_EQ(value(environment, "HIP_VISIBLE_DEVICES"), "<unset>");
  }
}

TEST_F(Environment, SeveralGpusHaveAPlaceToMeet) {
  captured_.insert(captured_.end(), {"MASTER_ADDR=elsewhere", "MASTER_PORT=1"});
  request_.gpus = {"GPU-a", "GPU-b"};
  request_.port = 20'017;
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b");
  EXPECT_EQ(value(environment, "PERGPU_NUM_GPUS"), "2");
  EXPECT_EQ(value(environment, "MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(value(environment, "MASTER_PORT"), "20017");
}

TEST_F(Environment, AShareOfAGpuIsToldAndFrameworksDoNotTakeAllOfItsMemory) {
  request_.gpus = {"GPU-a"};
  EXPECT_EQ(value(build(), "PERGPU_GPU_SHARE"), "<unset>");
  EXPECT_EQ(value(build(), "XLA_PYTHON_CLIENT_PREALLOCATE"), "<unset>");
  request_.gpu_share = 250;
  EXPECT_EQ(value(build(), "PERGPU_GPU_SHARE"), "0.25");
  EXPECT_EQ(value(build(), "XLA_PYTHON_CLIENT_PREALLOCATE"), "false");
  EXPECT_EQ(value(build(), "TF_FORCE_GPU_ALLOW_GROWTH"), "true");
  captured_.push_back("XLA_PYTHON_CLIENT_PREALLOCATE=true");
  EXPECT_EQ(value(build(), "XLA_PYTHON_CLIENT_PREALLOCATE"), "true") << "the user's word";
}

TEST_F(Environment, JobWithoutGpusSeesNone) {
  captured_.push_back("CUDA_VISIBLE_DEVICES=0,1,2");
  EXPECT_EQ(value(build(), "CUDA_VISIBLE_DEVICES"), "");
}

TEST_F(Environment, LauncherVariablesOfTheShellAreDropped) {
  captured_.insert(captured_.end(), {"RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1", "MASTER_PORT=1",
                                     "PERGPU_JOB=1", "PERGPU_PARAM_OLD=1"});
  const JobEnvironment environment = build();
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "PERGPU_PARAM_OLD"})
    EXPECT_EQ(value(environment, name), "<unset>") << name;
  EXPECT_EQ(value(environment, "PERGPU_JOB"), "17");
  EXPECT_EQ(value(environment, "PERGPU_ATTEMPT"), "2");
}

TEST_F(Environment, CachesAreSharedWhereUnset) {
  request_.cache_root = "/c";
  captured_.push_back("TRITON_CACHE_DIR=/mine");
  EXPECT_EQ(value(build(), "TORCHINDUCTOR_CACHE_DIR"), "/c/torchinductor");
  EXPECT_EQ(value(build(), "TRITON_CACHE_DIR"), "/mine");
}

TEST_F(Environment, SignalIsNamedAsShellsNameIt) {
  captured_.push_back("PERGPU_SIGNAL=HUP");
  EXPECT_EQ(value(build(), "PERGPU_SIGNAL"), "<unset>");
  request_.signal = "USR1";
  EXPECT_EQ(value(build(), "PERGPU_SIGNAL"), "USR1");
}

TEST_F(Environment, StepHasTheLastWord) {
  request_.step_env = {{"OMP_NUM_THREADS", "2"}, {"HOME", "/elsewhere"}};
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "OMP_NUM_THREADS"), "2");
  EXPECT_EQ(value(environment, "HOME"), "/elsewhere");
}

TEST_F(Environment, EachNameComesOnceAndInheritedValuesAreNotListedAsOurs) {
  captured_.insert(captured_.end(), {"TOKEN=secret", "HOME=/second", "no equals sign", "=x"});
  const JobEnvironment environment = build();
  std::vector<std::string> names;
  for (const std::string& entry : environment.all)
    names.push_back(entry.substr(0, entry.find('=')));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  for (const auto& [name, text] : environment.set_by_us) EXPECT_NE(text, "secret") << name;
  EXPECT_EQ(value(environment, "PERGPU_ATTEMPT_ID"), "/h/17.2");
}

TEST_F(Environment, AClientOfMpsFindsItsDaemonAndWhatItMayUse) {
  captured_.push_back("CUDA_MPS_PIPE_DIRECTORY=/tmp/of-the-machine");
  request_.gpus = {"GPU-5a"};
  request_.gpu_share = 250;
  EXPECT_EQ(value(build(), "CUDA_MPS_PIPE_DIRECTORY"), "/tmp/of-the-machine") << "the user's own";
  request_.mps = MpsClient{.folder = "/r/mps/GPU-5a", .percent = 50, .memory_bytes = 5ull << 30};
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "CUDA_MPS_PIPE_DIRECTORY"), "/r/mps/GPU-5a");
  EXPECT_EQ(value(environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "50");
  EXPECT_EQ(value(environment, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=5120M");
}

TEST_F(Environment, WhatTheUserSaysOfMpsWins) {
  captured_.push_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=90");
  captured_.push_back("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G");
  request_.gpus = {"GPU-5a"};
  request_.gpu_share = 250;
  request_.mps = MpsClient{.folder = "/r/mps/GPU-5a", .percent = 50, .memory_bytes = 5ull << 30};
  const JobEnvironment environment = build();
  EXPECT_EQ(value(environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "90");
  EXPECT_EQ(value(environment, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=1G");
}

}  // namespace
}  // namespace pergpu
