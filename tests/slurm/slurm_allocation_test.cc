// What scontrol tells of an allocation, as Slurm 22.05 prints it.
#include "slurm/slurm_allocation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pergpu::slurm {
namespace {

std::string job(const std::string& gres) {
  return fmt::format(
      "JobId=17 JobName=interactive\n   UserId=root(0) GroupId=root(0) MCS_label=N/A\n"
      "   NodeList=n0\n   BatchHost=n0\n   NumNodes=1 NumCPUs=4 NumTasks=1 CPUs/Task=1\n"
      "   TRES=cpu=4,node=1,billing=4\n   JOB_GRES=gpu:4\n"
      "     Nodes=n0 CPU_IDs=0-3 Mem=0 GRES={}\n   MinCPUsNode=1 MinMemoryNode=0 "
      "MinTmpDiskNode=0\n",
      gres);
}

TEST(SlurmAllocation, ItsGpusAreThoseOfItsNode) {
  const auto of = [](const std::string& gres) {
    const Result<std::vector<AllocationNode>> parsed = parse_allocation(job(gres));
    return parsed && parsed->size() == 1 ? parsed->front() : AllocationNode{};
  };
  EXPECT_EQ(of("gpu:4(IDX:0-3)"), (AllocationNode{"n0", {0, 1, 2, 3}, 4, 0}));
  EXPECT_EQ(of("gpu:a100:3(IDX:0-1,4)").gpus, (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(of("gpu:a:1(IDX:5),gpu:b:2(IDX:0,2)").gpus, (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(of("shard:8(IDX:0-3),gpu(IDX:6)").gpus, (std::vector<int>{6}));
  EXPECT_EQ(of(""), (AllocationNode{"n0", {}, 4, 0}));
  EXPECT_EQ(of("gpu:0(IDX:)").gpus, std::vector<int>{});
  EXPECT_EQ(of("license:1").gpus, std::vector<int>{});
}

TEST(SlurmAllocation, NodesThatHaveTheSameAreOneLine) {
  const Result<std::vector<AllocationNode>> parsed = parse_allocation(
      "JobId=3\n   NumNodes=3 NumCPUs=6\n     Nodes=n[0-1] CPU_IDs=0-1 Mem=0 GRES=gpu:1(IDX:0)\n"
      "     Nodes=m7 CPU_IDs=4,6 Mem=2000 GRES=gpu:2(IDX:2-3)\n");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, (std::vector<AllocationNode>{{"n0", {0}, 2, 0},
                                                  {"n1", {0}, 2, 0},
                                                  {"m7", {2, 3}, 2, std::uint64_t{2000} << 20}}));
}

TEST(SlurmAllocation, ListsOfNodesAreNames) {
  using Names = std::vector<std::string>;
  const auto of = [](const char* text) {
    const Result<Names> names = hosts_of(text);
    return names ? *names : Names{};
  };
  EXPECT_EQ(of("n0"), Names{"n0"});
  EXPECT_EQ(of("n[08-10,12]-ib,m3"), (Names{"n08-ib", "n09-ib", "n10-ib", "n12-ib", "m3"}));
  for (const char* text : {"", ",", "n[", "n]", "n[2-1]", "n[a]", "n[1]x[2]", "n[0-99999999]"}) {
    EXPECT_EQ(of(text), Names{}) << text;
  }
}

TEST(SlurmAllocation, RefusesWhatIsSomethingElse) {
  for (const char* text : {"", "slurm_load_jobs error: Invalid job id specified", "NumNodes=1",
                           "   Nodes=n0 XCPU_IDs=0\n", "   Nodes=n[ CPU_IDs=0\n"}) {
    EXPECT_FALSE(parse_allocation(text)) << text;
  }
  EXPECT_FALSE(parse_allocation(job("gpu:4(IDX:0-x)")));
  EXPECT_TRUE(parse_allocation(job("gpu:4(IDX:0")));
}

TEST(SlurmAllocation, ItsStateIsTold) {
  EXPECT_EQ(parse_job_state("JobId=1\n   JobState=CANCELLED Reason=None\n"), "CANCELLED");
  EXPECT_EQ(parse_job_state("JobId=1"), "");
}

TEST(SlurmAllocation, AMachineIsFoundByWhatItCallsItself) {
  EXPECT_EQ(parse_node_host(
                "NodeName=n0 Arch=x86_64\n   NodeAddr=127.0.0.1 NodeHostName=vm Version=22\n"),
            "vm");
  EXPECT_EQ(parse_node_host("Node n9 not found"), "");
}

}  // namespace
}  // namespace pergpu::slurm
