#include "spec/sweep/identity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace pergpu {
namespace {

StepSpec train() {
  StepSpec step;
  step.name = "train";
  step.command = {"python3", "train.py", "--lr", "{lr}"};
  step.env = {{"A", "1"}};
  step.outputs = {"{out}/model.pt"};
  return step;
}
const RunSpec kRun{.json = R"({"lr":0.0001})", .texts = R"({"lr":"1e-4"})"};

std::string hex(const JobIdentity& id) {
  std::string out;
  for (const std::uint8_t byte : id) out += fmt::format("{:02x}", byte);
  return out;
}

TEST(Identity, IsTheSameForEver) {
  // Stores hold these: a change here would make every finished job run again.
  JobIdentity id = job_identity(train(), &kRun, {});
  EXPECT_EQ(hex(id), "ba700bc725738f8b35aa9ffdabb34c1b");
  StepSpec once;
  once.name = "table";
  once.once = true;
  once.shell = "cat x";
  once.cwd = "sub";
  JobIdentity runs = identity_of_runs({kRun, {.json = "{}"}});
  EXPECT_EQ(hex(runs), "03ec606320a14536e1193a059f3cf8c7");
  EXPECT_EQ(hex(job_identity(once, nullptr, {id, runs}, &runs)),
            "0f4f5578558b5e9f76111f96cc35253c");
  EXPECT_EQ(hex(combined_identity({id, runs})), "4f79a03bce4d6ac05709353586ab7d02");
}

TEST(Identity, ChangesWithEverythingThatIsPartOfIt) {
  std::set<JobIdentity> all;
  auto add = [&](const StepSpec& step, const RunSpec* run, std::vector<JobIdentity> needs = {},
                 const JobIdentity* runs = nullptr) {
    EXPECT_TRUE(all.insert(job_identity(step, run, std::move(needs), runs)).second) << all.size();
  };
  add(train(), &kRun);
  add(train(), nullptr);
  RunSpec other{.json = R"({"lr":0.0002})"};
  add(train(), &other);
  StepSpec step = train();
  step.name = "train2";
  add(step, &kRun);
  step = train();
  step.command.emplace_back("x");
  add(step, &kRun);
  step = train();
  step.command = {"python3", "train.py", "--lr{lr}"};
  add(step, &kRun);
  step = train();
  step.cwd = "x";
  add(step, &kRun);
  step = train();
  step.env[0].second = "2";
  add(step, &kRun);
  step = train();
  step.env = {{"A1", ""}};
  add(step, &kRun);
  step = train();
  step.outputs.clear();
  add(step, &kRun);
  step = train();
  step.command.clear();
  step.shell = "x";
  add(step, &kRun);
  JobIdentity need = job_identity(train(), &other, {});
  add(train(), &kRun, {need});
  add(train(), &kRun, {need, need});
  add(train(), &kRun, {}, &need);
}

TEST(Identity, IsTheSameWhateverIsNoPartOfIt) {
  JobIdentity id = job_identity(train(), &kRun, {});
  StepSpec step = train();
  step.gpus = 1;
  step.cpus = 4;
  step.memory_bytes = 1;
  step.timeout = std::chrono::hours(1);
  step.retries.max = 3;
  step.priority = 9;
  step.max_parallel = 1;
  step.needs = {{.step = 0}};
  RunSpec written_differently{.json = kRun.json, .texts = R"({"lr":"0.00010"})"};
  EXPECT_EQ(job_identity(step, &written_differently, {}), id);
}

TEST(Identity, DoesNotDependOnTheOrderOfNeeds) {
  JobIdentity a = job_identity(train(), &kRun, {});
  JobIdentity b = job_identity(train(), nullptr, {});
  EXPECT_EQ(job_identity(train(), &kRun, {a, b}), job_identity(train(), &kRun, {b, a}));
  EXPECT_EQ(combined_identity({a, b}), combined_identity({b, a}));
  EXPECT_NE(combined_identity({a, b}), combined_identity({a}));
}

}  // namespace
}  // namespace pergpu
