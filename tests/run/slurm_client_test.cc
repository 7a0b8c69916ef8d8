// What is made of what Slurm's programs say; scripts stand for them.
#include "run/slurm_client.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>

#include "os/file.h"

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
    return client.submit({.script = "s.sh",
                          .environment = {"PATH=" + folder, "SBATCH_PARTITION=x", "A=b"},
                          .cwd = folder,
                          .umask = 027});
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
  ASSERT_TRUE(submit("env > got; umask >> got; pwd >> got; echo \"$@\" >> got; echo 1"));
  const std::string got = read("got");
  EXPECT_NE(got.find("A=b\n"), std::string::npos) << got;
  EXPECT_EQ(got.find("SBATCH_PARTITION"), std::string::npos) << got;
  EXPECT_NE(got.find("0027\n" + folder + "\n--parsable s.sh\n"), std::string::npos) << got;
}

TEST_F(SlurmClient, KnowsARefusalFromAPassingTrouble) {
  const std::map<std::string, ErrorKind> said = {
      {"Batch job submission failed: Invalid partition name specified", ErrorKind::Invalid},
      {"Batch job submission failed: Job violates accounting/QOS policy", ErrorKind::Invalid},
      {"Unable to contact slurm controller (connect failure)", ErrorKind::Unavailable},
      {"Batch job submission failed: Slurm temporarily unable to accept job",
       ErrorKind::Unavailable},
      {"Batch job submission failed: Socket timed out on send/recv operation", ErrorKind::Io},
      {"Batch job submission failed: Zero Bytes were transmitted or received", ErrorKind::Io}};
  for (const auto& [words, kind] : said) {
    const Result<std::int64_t> number = submit("echo 'sbatch: error: " + words + "' >&2; exit 1");
    ASSERT_FALSE(number);
    EXPECT_EQ(number.error().kind, kind) << words;
    EXPECT_NE(number.error().message.find(words), std::string::npos);
  }
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

TEST_F(SlurmClient, EndsManyInFewRequests) {
  program("scancel", "echo $# >> " + folder + "/calls");
  std::vector<std::string> ids;
  for (int i = 0; i < 450; ++i) ids.push_back("7_" + std::to_string(i));
  ASSERT_TRUE(client.cancel_pending(ids));
  EXPECT_EQ(read("calls"), "202\n202\n52\n");
  EXPECT_EQ(client.requests().at("scancel"), 3);
  ASSERT_TRUE(client.cancel_pending({}));
  EXPECT_EQ(client.requests().at("scancel"), 3);
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
