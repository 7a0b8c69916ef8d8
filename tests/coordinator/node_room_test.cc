// Which node of an allocation a job goes to, and when none has room for it.
#include "slurm/node_room.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "simulation.h"
#include "slurm/slurm_environment.h"
#include "slurm/step_call.h"

namespace pergpu::testing {
namespace {

using slurm::AllocationNode;

StepSpec on_gpus(int gpus) {
  StepSpec step = step_of("train");
  step.gpus = gpus;
  return step;
}

TEST(NodeRoom, CoresThatAreNotDeclaredAreThoseOfItsGpus) {
  const AllocationNode node{"n0", {0, 1, 2, 3}, 10, 0};
  EXPECT_EQ(share_of(on_gpus(1), node), (NodeShare{1, 2, 0}));
  EXPECT_EQ(share_of(on_gpus(0), node), (NodeShare{0, 1, 0}));
  EXPECT_EQ(share_of(on_gpus(1), {"n1", {0, 1}, 1, 0}).cpus, 1) << "one at least";
  StepSpec declared = on_gpus(1);
  declared.cpus = 7;
  EXPECT_EQ(share_of(declared, node).cpus, 7);
}

TEST(NodeRoom, WhoHasMostGpusLeftIsNextAndWithoutGpusWhoHasFewest) {
  const std::vector<AllocationNode> nodes = {{"n0", {0, 1}, 8, 0}, {"n1", {0, 1, 2}, 8, 0}};
  EXPECT_EQ(node_for(on_gpus(1), nodes, {{}, {}})->name, "n1");
  EXPECT_EQ(node_for(on_gpus(1), nodes, {{}, {2, 4, 0}})->name, "n0");
  EXPECT_EQ(node_for(on_gpus(1), nodes, {{2, 4, 0}, {3, 6, 0}}), nullptr);
  EXPECT_EQ(node_for(on_gpus(0), nodes, {{}, {}})->name, "n0");
}

TEST(NodeRoom, MemoryCountsWhereSlurmCountsIt) {
  StepSpec step = on_gpus(0);
  step.memory_bytes = 3u << 20;
  const std::vector<AllocationNode> counted = {{"n0", {}, 8, 4u << 20}};
  EXPECT_NE(node_for(step, counted, {{}}), nullptr);
  EXPECT_EQ(node_for(step, counted, {{0, 1, 3u << 20}}), nullptr);
  EXPECT_NE(node_for(step, {{"n0", {}, 8, 0}}, {{0, 1, 3u << 20}}), nullptr);
}

TEST(NodeRoom, WhatNoNodeHasIsToldBeforehand) {
  const std::vector<AllocationNode> nodes = {{"n0", {0, 1}, 4, 0}, {"n1", {}, 8, 0}};
  EXPECT_EQ(never_fits(on_gpus(2), nodes), "");
  EXPECT_NE(never_fits(on_gpus(3), nodes).find("at most 2 and 8"), std::string::npos);
  StepSpec both = on_gpus(1);
  both.cpus = 8;
  EXPECT_NE(never_fits(both, nodes), "") << "each of them has one of both only";
}

RC_GTEST_PROP(NodeRoomProperty, NoNodeIsEverGivenMoreThanItHas, ()) {
  std::vector<AllocationNode> nodes;
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    AllocationNode node{"n" + std::to_string(i), {}, *rc::gen::inRange(1, 9), 0};
    for (int gpu = *rc::gen::inRange(0, 5); gpu > 0; --gpu) node.gpus.push_back(gpu);
    nodes.push_back(node);
  }
  std::vector<NodeShare> used(nodes.size());
  for (int jobs = 0; jobs < 100; ++jobs) {
    StepSpec step = on_gpus(*rc::gen::inRange(0, 3));
    if (*rc::gen::arbitrary<bool>()) step.cpus = *rc::gen::inRange(1, 4);
    const AllocationNode* node = node_for(step, nodes, used);
    if (node == nullptr) continue;
    RC_ASSERT(never_fits(step, nodes).empty());
    NodeShare& sum = used[static_cast<std::size_t>(node - nodes.data())];
    const NodeShare share = share_of(step, *node);
    sum.gpus += share.gpus;
    sum.cpus += share.cpus;
    RC_ASSERT(sum.gpus <= static_cast<int>(node->gpus.size()));
    RC_ASSERT(sum.cpus <= node->cpus);
  }
}

TEST(StepCall, AsksForWhatItHasOnThatNodeAndNoMore) {
  const slurm::StepCall call{.name = "s-12",
                             .node = "n1",
                             .gpus = 2,
                             .gpu = "a100",
                             .cpus = 3,
                             .cwd = "/w",
                             .output = "/o/%1",
                             .command = {"pergpu", "--x"}};
  const std::vector<std::string> words = slurm::step_argv(call, "17");
  for (const char* word : {"--jobid=17", "--job-name=s-12", "--exact", "--nodelist=n1", "--mem=0",
                           "--cpus-per-task=3", "--gres=gpu:a100:2", "--output=/o/%%1"}) {
    EXPECT_NE(std::find(words.begin(), words.end(), word), words.end()) << word;
  }
  EXPECT_EQ(words.back(), "--x");
  slurm::StepCall without = call;
  without.gpus = 0;
  const std::vector<std::string> none = slurm::step_argv(without, "17");
  EXPECT_NE(std::find(none.begin(), none.end(), "--gres=none"), none.end());
}

TEST(StepCall, WhatSlurmHasSetForTheShellIsNoOptionOfSrun) {
  EXPECT_EQ(slurm::step_environment({"A=1", "SLURM_NTASKS=4", "SLURM_CONF=/c", "SRUN_DEBUG=1",
                                     "CUDA_VISIBLE_DEVICES=3"}),
            (std::vector<std::string>{"A=1", "SLURM_CONF=/c"}));
}

}  // namespace
}  // namespace pergpu::testing
