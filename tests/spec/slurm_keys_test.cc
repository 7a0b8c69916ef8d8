// What [slurm] and `slurm` of a step hand on to sbatch, and what they must not.
#include "spec/schema/slurm_keys.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test_sweeps.h"

namespace pergpu {
namespace {

using Strings = std::vector<std::string>;

ParsedSweep with_extra(const std::string& option) {
  return parse_toml(fmt::format("[slurm]\nextra = [\"{}\"]\n{}", option, kStep));
}

/// What is said of `option`, which must be refused, in both places where it can be written.
std::string refusal(const std::string& option) {
  const Strings of_all = mistakes(with_extra(option));
  const Strings of_step =
      mistakes(parse_toml(fmt::format("{}slurm = {{ extra = [\"{}\"] }}\n", kStep, option)));
  EXPECT_EQ(of_all.size(), 1u) << option;
  EXPECT_EQ(of_step.size(), 1u) << option;
  if (of_all.size() != 1 || of_step.size() != 1) return "";
  const std::string words = of_all[0].substr(of_all[0].find(": "));
  EXPECT_EQ(of_step[0].substr(of_step[0].find(": ")), words);
  return of_all[0];
}

TEST(SlurmExtra, OptionsThatPergpuSetsAreRefusedByTheirNames) {
  for (const char* name :
       {"--array", "--chdir", "--clusters", "--comment", "--error", "--export", "--hold",
        "--job-name", "--kill-on-invalid-dep", "--nodes", "--ntasks", "--open-mode", "--output",
        "--parsable", "--requeue", "--wait", "--wait-all-nodes", "--wrap", "--test-only"}) {
    const std::string words = fmt::format("{} is set by pergpu", name);
    const std::string with_value = fmt::format("{}=1", name);
    EXPECT_NE(refusal(name).find(words), std::string::npos) << refusal(name);
    EXPECT_NE(refusal(with_value).find(words), std::string::npos) << refusal(with_value);
  }
}

TEST(SlurmExtra, WhatHasAKeyOfItsOwnIsRefusedWithThatKey) {
  const std::pair<const char*, const char*> instead[] = {
      {"--account", "`account`"},
      {"--constraint", "`constraint`"},
      {"--cpus-per-task", "`cpus` of the step"},
      {"--dependency", "`needs` of the step"},
      {"--export-file", "`env` of the step"},
      {"--gpus", "`gpus` of the step"},
      {"--gpus-per-node", "`gpus` of the step"},
      {"--gpus-per-task", "`gpus` of the step"},
      {"--gres", "`gpus` of the step"},
      {"--hold", "`pergpu hold`"},
      {"--mem", "`memory` of the step"},
      {"--mem-per-cpu", "`memory` of the step"},
      {"--mem-per-gpu", "`memory` of the step"},
      {"--nice", "`priority` of the step"},
      {"--no-requeue", "`rerun = false` of the step"},
      {"--partition", "`partition`"},
      {"--qos", "`qos`"},
      {"--signal", "`signal` of the step"},
      {"--test-only", "`pergpu run --dry-run`"},
      {"--time", "`time`"},
      {"--wait", "`pergpu wait`"},
      {"--wrap", "`command` of the step"},
  };
  for (const auto& [name, key] : instead) {
    const std::string words = fmt::format("{} is set by pergpu; write {}", name, key);
    const std::string said = refusal(fmt::format("{}=1", name));
    EXPECT_TRUE(said.ends_with(words)) << said;
  }
}

TEST(SlurmExtra, WhatSbatchTakesForOneOfThemIsRefusedToo) {
  // It takes an option that is cut short where only one begins so, and has other names for some.
  for (const char* option : {"--arra=0-9", "--depend=singleton", "--outp=/tmp/x", "--hol",
                             "--cluster=other", "--tasks=2"}) {
    EXPECT_NE(refusal(option).find("is set by pergpu"), std::string::npos) << option;
  }
}

TEST(SlurmExtra, OtherOptionsAreHandedOnAsTheyAre) {
  const Strings options = {"--exclusive",       "--exclude=n1",       "--mail-type=END,FAIL",
                           "--begin=now+1hour", "--licenses=a:1",     "--reservation=r 1",
                           "--nodelist=n[0-3]", "--time-min=1:00:00", "--ntasks-per-core=1"};
  for (const std::string& option : options) {
    const SweepSpec sweep = good(with_extra(option));
    ASSERT_EQ(sweep.steps.size(), 1u) << option;
    EXPECT_EQ(sweep.steps[0].slurm.extra, Strings{option});
  }
}

TEST(SlurmExtra, OnlyLongOptionsInOneLineAreOptions) {
  for (const char* text : {"-N2", "exclusive", "--", ""}) {
    EXPECT_NE(refusal(text).find("must be a long sbatch option"), std::string::npos) << text;
  }
  EXPECT_NE(refusal("--mail-user=a\\n#SBATCH --array=1").find("control character"),
            std::string::npos);
}

TEST(SlurmKeys, AStepsOwnTakeThePlaceOfTheSweepsAndItsExtraOptionsAreAdded) {
  const SweepSpec sweep = good(parse_toml(
      "[slurm]\npartition = \"a\"\naccount = \"x\"\nextra = [\"--exclusive\"]\n[steps.train]\n"
      "command = [\"true\"]\nslurm = { partition = \"b\", extra = [\"--reboot\"] }\n"));
  ASSERT_EQ(sweep.steps.size(), 1u);
  const SlurmOptions& options = sweep.steps[0].slurm;
  EXPECT_EQ(options.partition, "b");
  EXPECT_EQ(options.account, "x");
  EXPECT_EQ(options.extra, (Strings{"--exclusive", "--reboot"}));
}

}  // namespace
}  // namespace pergpu
