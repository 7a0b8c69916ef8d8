// What is made of what Slurm's programs say; scripts stand for them.
#include "slurm/slurm_client.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "os/fs/file.h"
#include "os/process/child.h"
#include "slurm/slurm_steps.h"

namespace pergpu::slurm {
namespace {

struct SlurmClient : ::testing::Test {
  void SetUp() override {
    std::string name = "/tmp/pergpu-slurm-XXXXXX";
    folder = ::mkdtemp(name.data());
    path = std::getenv("PATH");
    ::setenv("PATH", folder.c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path.c_str(), 1);
    (void)os::remove_tree(folder);
  }
  void program(const std::string& name, const std::string& body) const {
    const std::string text = "#!/bin/sh\nPATH=/usr/bin:/bin\n" + body + "\n";
    ASSERT_TRUE(os::write_file_atomic(folder + "/" + name, text, 0755, false));
  }
  Result<std::int64_t> submit(const std::string& body) {
    program("sbatch", body);
    return client.submit({.script = "#!/bin/sh\n",
                          .environment = {"PATH=" + folder, "SBATCH_PARTITION=x", "A=b"},
                          .cwd = folder,
                          .umask = 027});
  }
  /// Of a submit for each of these, which sbatch prints before it exits with the code.
  void expect(ErrorKind kind, const std::vector<std::string>& said, int code = 1) {
    for (const std::string& words : said) {
      ASSERT_TRUE(os::write_file_atomic(folder + "/said", words + "\n", 0644, false));
      const Result<std::int64_t> number = submit(fmt::format("cat said >&2; exit {}", code));
      ASSERT_FALSE(number) << words;
      EXPECT_EQ(number.error().kind, kind) << words;
      std::string shown = words;
      std::replace(shown.begin(), shown.end(), '\n', ' ');
      EXPECT_NE(number.error().message.find(shown), std::string::npos) << number.error().message;
    }
  }
  std::string read(const std::string& name) const {
    const Result<std::string> text = os::read_file(folder + "/" + name, 1 << 20);
    return text ? *text : "";
  }

  Client client;
  std::string folder;
  std::string path;
};

TEST_F(SlurmClient, TellsTheNumberOfTheArray) {
  EXPECT_EQ(*submit("echo 12"), 12);
  EXPECT_EQ(*submit("echo '13;cluster'"), 13);
  EXPECT_EQ(client.requests().at("sbatch"), 2);
}

TEST_F(SlurmClient, SubmitsWithTheSweepsEnvironmentFolderAndMask) {
  ASSERT_TRUE(
      submit("env > got; umask >> got; pwd >> got; echo \"$@\" >> got; cat >> got; echo 1"));
  const std::string got = read("got");
  EXPECT_NE(got.find("A=b\n"), std::string::npos) << got;
  EXPECT_EQ(got.find("SBATCH_PARTITION"), std::string::npos) << got;
  EXPECT_NE(got.find("0027\n" + folder + "\n--parsable\n#!/bin/sh\n"), std::string::npos) << got;
}

// The words are those of sbatch 22.05.
const std::string kFailed = "sbatch: error: Batch job submission failed: ";
const std::string kViolates =
    kFailed +
    "Job violates accounting/QOS policy (job submit limit, user's size and/or time "
    "limits)";

TEST_F(SlurmClient, WhatTheControllerRefusesForGoodIsInvalid) {
  expect(
      ErrorKind::Invalid,
      {kFailed + "Requested node configuration is not available",
       "sbatch: error: CPU count per node can not be satisfied\n" + kFailed +
           "Requested node configuration is not available",
       "sbatch: error: invalid partition specified: nobody\n" + kFailed +
           "Invalid partition name specified",
       kFailed + "Invalid account or account/partition combination specified",
       kFailed + "Invalid qos specification", kFailed + "Invalid feature specification",
       kFailed + "Invalid generic resource (gres) specification",
       kFailed + "Invalid job array specification", kFailed + "Invalid node name specified",
       kFailed + "Invalid license specification", kFailed + "Requested reservation is invalid",
       kFailed + "Requested time limit is invalid (missing or exceeds some limit)",
       kFailed + "More processors requested than permitted",
       kFailed + "Memory required by task is not available", kFailed + "Access/permission denied"});
}

TEST_F(SlurmClient, OptionsThatSbatchDoesNotUnderstandAreInvalid) {
  const std::string more = "\nTry \"sbatch --help\" for more information";
  expect(ErrorKind::Invalid,
         {"sbatch: unrecognized option '--nonsense=1'" + more,
          "sbatch: option '--mail-type' requires an argument" + more,
          "sbatch: option '--oversubscribe' doesn't allow an argument" + more,
          "sbatch: option '--gpu=1' is ambiguous; possibilities: '--gpu-bind' '--gpus'" + more,
          "Invalid time specification (pos=0): soon\nsbatch: error: Invalid --begin specification",
          "sbatch: error: Invalid --mail-type specification"},
         255);
  expect(ErrorKind::Invalid,
         {"sbatch: error: Invalid numeric value \"x\" for --switches.",
          "sbatch: error: unrecognized --hint argument \"x\", see --hint=help"});
}

TEST_F(SlurmClient, SoManyJobsThatNoMoreAreTakenForNowAreFull) {
  expect(ErrorKind::Full,
         {"sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + kViolates,
          "sbatch: error: QOSGrpSubmitJobsLimit\n" + kViolates,
          "sbatch: error: AssocMaxSubmitJobLimit\n" + kViolates,
          "sbatch: error: AssocGrpSubmitJobsLimit\n" + kViolates,
          kViolates,  // it may be that
          kFailed + "Resource temporarily unavailable",
          "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n" +
              kFailed + "Resource temporarily unavailable"});
}

TEST_F(SlurmClient, AJobThatIsTooBigForItsQosIsInvalidAndNotAskedForAgain) {
  expect(ErrorKind::Invalid, {"sbatch: error: QOSMaxCpuPerJobLimit\n" + kViolates,
                              "sbatch: error: QOSMaxWallDurationPerJobLimit\n" + kViolates,
                              "sbatch: error: AssocMaxCpuPerJobLimit\n" + kViolates});
}

TEST_F(SlurmClient, TroubleThatPassesAndTookNothingIsUnavailable) {
  expect(ErrorKind::Unavailable,
         {kFailed + "Unable to contact slurm controller (connect failure)",
          kFailed + "Unable to contact slurm controller (send failure)",
          kFailed + "Slurm temporarily unable to accept job",
          kFailed + "Unable to create job record, try again",
          kFailed + "Slurm backup controller in standby mode",
          kFailed + "Invalid authentication credential",
          "sbatch: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No "
          "such file or directory\n" +
              kFailed + "Protocol authentication error",
          "sbatch: fatal: Could not establish a configuration source"});
}

TEST_F(SlurmClient, WithoutAConfigurationThatIsSaidWithTheLineThatSaysIt) {
  program("squeue",
          "printf 'squeue: error: fetch_config: DNS SRV lookup failed\\nsqueue: fatal: Could not "
          "establish a configuration source\\n' >&2; exit 1");
  const Result<std::vector<QueueRecord>> queue = client.queue();
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().kind, ErrorKind::Unavailable);
  EXPECT_EQ(queue.error().message,
            "this machine has no Slurm configuration (slurm.conf or SLURM_CONF); squeue: fatal: "
            "Could not establish a configuration source");
}

TEST_F(SlurmClient, AnAnswerThatIsLostMayHaveTakenTheJobs) {
  expect(ErrorKind::Io,
         {kFailed + "Socket timed out on send/recv operation",
          kFailed + "Zero Bytes were transmitted or received",
          kFailed + "Unable to contact slurm controller (receive failure)",
          kFailed + "Unable to contact slurm controller (shutdown failure)",
          kFailed + "Message receive failure", kFailed + "Connection reset by peer"});
}

TEST_F(SlurmClient, IsUnsureWhereSbatchDidNotEndByItself) {
  EXPECT_EQ(submit("kill -9 $$").error().kind, ErrorKind::Io);
  EXPECT_EQ(submit("echo nonsense").error().kind, ErrorKind::Io);
}

TEST_F(SlurmClient, NamesAProgramThatIsMissing) {
  const auto queue = client.queue();
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().kind, ErrorKind::Unavailable);
  EXPECT_NE(queue.error().message.find("there is no squeue"), std::string::npos);
}

/// A folder that this process's PATH does not have, with one of Slurm's programs.
std::string module_with(const std::string& folder, const std::string& name,
                        const std::string& body) {
  const std::string module = folder + "/module";
  EXPECT_TRUE(os::make_dirs(module, 0755));
  EXPECT_TRUE(os::write_file_atomic(module + "/" + name, "#!/bin/sh\n" + body + "\n", 0755, false));
  return module;
}

TEST_F(SlurmClient, FindsSbatchInThePathOfTheSweep) {
  const std::string module = module_with(folder, "sbatch", "echo 12");
  const Result<std::int64_t> number = client.submit(
      {.script = "#!/bin/sh\n", .environment = {"PATH=/none:" + module}, .cwd = folder});
  ASSERT_TRUE(number) << number.error().message;
  EXPECT_EQ(*number, 12);
}

TEST_F(SlurmClient, LooksInAFurtherPathForWhatItsOwnDoesNotHave) {
  const std::string module = module_with(folder, "squeue", "exit 0");
  client.search_also("/none");
  EXPECT_FALSE(client.queue());
  client.search_also("/none:" + module);
  const auto queue = client.queue();
  EXPECT_TRUE(queue) << queue.error().message;
  EXPECT_EQ(client.find("squeue"), module + "/squeue");
  program("squeue", "exit 0");
  EXPECT_EQ(client.find("squeue"), folder + "/squeue");
}

TEST_F(SlurmClient, StepsAreStartedAndListedByProgramsOfAFurtherPath) {
  const std::string handover = folder + "/sweep/.slurm/key";
  ASSERT_TRUE(os::make_dirs(handover, 0755));
  const StepCall call{
      .name = "s", .cwd = folder, .output = handover + "/said", .command = {"true"}};
  Steps steps("17");
  EXPECT_FALSE(steps.start(call));
  EXPECT_FALSE(steps.list());
  module_with(folder, "squeue", "exit 0");
  steps.search_also(module_with(folder, "srun", "echo $1"));
  EXPECT_TRUE(steps.list());
  const auto started = steps.start(call);
  ASSERT_TRUE(started) << started.error().message;
  ASSERT_TRUE(os::wait_for((*started)->pid));
  EXPECT_EQ(read("sweep/.slurm/key/said"), "--jobid=17\n");
}

TEST_F(SlurmClient, EndsManyInFewRequests) {
  program("scontrol", "exit 0");
  program("scancel", "echo $# >> " + folder + "/calls");
  std::vector<ArrayTask> tasks;
  for (int i = 0; i < 450; ++i) tasks.push_back({7, i});
  ASSERT_TRUE(client.cancel_pending(tasks));
  EXPECT_EQ(read("calls"), "202\n202\n52\n");
  EXPECT_EQ(client.requests().at("scontrol"), 3);
  EXPECT_EQ(client.requests().at("scancel"), 3);
  ASSERT_TRUE(client.cancel_pending(std::vector<ArrayTask>{}));
  EXPECT_EQ(client.requests().at("scancel"), 3);
}

/// Else scancel would take those that have not been started for one job.
TEST_F(SlurmClient, EndsOnlyWhatIsHeldByThen) {
  program("scontrol",
          R"(case $2 in *7_2*) echo "7_2: Job has already finished" >&2; exit 1;; esac)");
  program("scancel", "echo $* >> " + folder + "/calls");
  ASSERT_TRUE(client.cancel_pending({{7, 1}, {7, 2}, {7, 3}}));
  EXPECT_EQ(read("calls"), "--quiet --state=PENDING 7_1 7_3\n");
}

TEST_F(SlurmClient, TellsAnEndThatTheControllerHasNotHeardOfFromOneThatCameTooLate) {
  const std::string error = "echo 'scancel: error: Kill job error on job id ";
  program("scancel", error + "7_[1]: Job can not be altered now, try again later' >&2; exit 228");
  EXPECT_TRUE(client.signal({{7, 1}}, "USR1"));
  program("scancel",
          error + "7_1: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  EXPECT_FALSE(client.signal({{7, 1}}, "USR1"));
  EXPECT_FALSE(client.cancel_pending(7));
  program("scontrol", "echo 'Unexpected message received for job 7_1' >&2; exit 1");
  EXPECT_FALSE(client.cancel_pending({{7, 1}}));
}

TEST_F(SlurmClient, ReadsALongQueueWhole) {
  program(
      "squeue",
      R"(i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf )"
      R"('%s \037 9 \037 %s \037 RUNNING \037 None \037 n0 \037 k \037 0 \037 0 \037 r \037\n' $i $i; done)");
  const auto queue = client.queue();
  ASSERT_TRUE(queue) << queue.error().message;
  EXPECT_EQ(queue->size(), 3000u);
}

}  // namespace
}  // namespace pergpu::slurm
