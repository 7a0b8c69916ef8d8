// Attributes of the submitting shell on the wire and in the store, and what is said where less can
// be given.
#include "api/shell.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "api/snapshot.h"
#include "run/machine.h"

namespace pergpu {
namespace {

using nlohmann::json;

os::ProcessAttributes some_shell() {
  os::ProcessAttributes shell;
  shell.limits = {{.resource = RLIMIT_NOFILE, .soft = 1024, .hard = 4096},
                  {.resource = RLIMIT_AS, .soft = ~std::uint64_t{0}, .hard = ~std::uint64_t{0}}};
  shell.nice = -3;
  shell.policy = SCHED_BATCH;
  shell.io_priority = (2 << 13) | 7;
  shell.cpus = {0, 1, 2, 5};
  shell.ignored = std::uint64_t{1} << 63 | 2;
  shell.blocked = 1;
  shell.personality = 0x0040000;
  shell.core_filter = 0x7f;
  shell.oom_score_adj = -10;
  shell.group = 100;
  shell.groups = {4, 100};
  return shell;
}

os::Reach reach_for(const os::ProcessAttributes& shell) {
  return {.limits = shell.limits,
          .lowest_nice = shell.nice,
          .cpus = shell.cpus,
          .group = shell.group,
          .groups = shell.groups};
}

TEST(Shell, ComesBackAsItWasSent) {
  SubmitContext context;
  context.shell = some_shell();
  const SubmitContext back = json::parse(json(context).dump()).get<SubmitContext>();
  EXPECT_EQ(back.shell, context.shell);
  const os::Reach reach = reach_for(some_shell());
  const std::optional<os::Reach> read = reach_of(json::parse(json_of(reach).dump()));
  ASSERT_TRUE(read);
  EXPECT_TRUE(covers(*read, reach) && covers(reach, *read));
}

TEST(Shell, OfAnEarlierReleaseIsNotThereAndOneOfALaterReleaseIsRead) {
  EXPECT_FALSE(json::parse(R"({"umask":18,"limits":[[7,5]]})").get<SubmitContext>().shell);
  json later = json_of(some_shell());
  later["colour"] = "blue";
  EXPECT_EQ(attributes_of(later), some_shell());
}

TEST(Shell, WhatMakesNoSenseIsLeftOut) {
  const auto shell = attributes_of(json::parse(
      R"({"limits":[[7,1],[7,-1,5],"x",[7,3,9]],"nice":1e300,"cpus":"9-1","groups":[-1,{},3],
          "ignored":-4,"oom_score_adj":99999,"personality":"x","policy":null})"));
  ASSERT_TRUE(shell);
  EXPECT_EQ(shell->limits, (std::vector<os::SpawnLimit>{{.resource = 7, .soft = 3, .hard = 9}}));
  EXPECT_EQ(shell->nice, 0);
  EXPECT_EQ(shell->ignored, 0U);
  EXPECT_TRUE(shell->cpus.empty());
  EXPECT_EQ(shell->groups, std::vector<gid_t>{3});
  EXPECT_EQ(shell->oom_score_adj, 1000);
  EXPECT_FALSE(attributes_of(json::parse("[]")));
}

TEST(Shell, WhatIsNotGivenIsNamedOnceAndNothingElse) {
  const os::ProcessAttributes shell = some_shell();
  os::Reach reach = reach_for(shell);
  EXPECT_TRUE(clamps(shell, reach).empty());
  EXPECT_EQ(clamp_warning(shell, reach, false), "");

  reach.limits[0].hard = 512;
  reach.lowest_nice = 10;
  reach.cpus = {0, 1};
  reach.groups = {100};
  reach.only_idle = true;
  EXPECT_EQ(
      clamps(shell, reach),
      (std::vector<std::string>{"512 open files instead of 1024 (ulimit -n)",
                                "nice 10 instead of -3", "scheduling policy idle instead of batch",
                                "cores 0-1 instead of 0-2,5", "no membership in group 4"}));
  reach = reach_for(shell);
  reach.limits[0].hard = 2000;  // the soft limit fits
  EXPECT_EQ(clamps(shell, reach),
            std::vector<std::string>{"2000 open files instead of 4096 (ulimit -Hn)"});
  EXPECT_NE(clamp_warning(shell, reach, false).find("pergpu coordinator stop"), std::string::npos);
  EXPECT_NE(clamp_warning(shell, reach, true).find("pergpu.service"), std::string::npos);
}

TEST(Shell, SweepHasTheCoresOfItsShell) {
  const Machine machine{.cores = {0, 1, 2, 3}};
  EXPECT_EQ(cores_within(machine, {}).cores, machine.cores);
  EXPECT_EQ(cores_within(machine, {2, 3, 9}).cores, (std::vector<int>{2, 3}));
  EXPECT_EQ(cores_within(machine, {2, 3, 9}).count, 2);
  const CoreShare elsewhere = cores_within(machine, {8, 9});
  EXPECT_EQ(elsewhere.count, 2);
  EXPECT_TRUE(elsewhere.cores.empty()) << "it is not pinned where its shell may not run";
  EXPECT_EQ(core_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace pergpu
