// What a submit learns of its folder, on disks that are well, slow or gone.
#include "coordinator/submit_folders.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "coordinator/sim_clock.h"
#include "spec/sweep/wire.h"

namespace pergpu::testing {
namespace {

enum class Disk { Well, Slow, NeverAnswers, AnswersInPart };

class SubmitFoldersTest : public ::testing::Test {
 protected:
  /// Sweep 1 "s" below `old`, where its folder is no more.
  SubmitFoldersTest() {
    std::string pattern = ::testing::TempDir() + "pergpu-XXXXXX";
    root = ::mkdtemp(pattern.data());
    old = root + "/old";
    std::filesystem::create_directory(old);
    const SweepSpec spec{.name = "s", .steps = {StepSpec{.name = "train", .once = true}}};
    take(row::Sweep{.id = {1},
                    .root = old,
                    .name = "s",
                    .spec = to_wire(spec),
                    .submit = to_text(SubmitRecord{}),
                    .at = {}});
    take(row::NewJob{.id = {1}, .sweep = {1}, .run = -1, .step = 0, .step_name = "train"});
  }
  ~SubmitFoldersTest() override { std::filesystem::remove_all(root); }
  void take(const Row& row) { ASSERT_TRUE(world.absorb(row)); }
  void results(int count, const std::string& state, const std::string& home) const {
    for (int i = 0; i < count; ++i) {
      const std::string folder = root + "/s/" + std::to_string(1000 + i) + "/train";
      std::filesystem::create_directories(folder);
      std::ofstream(folder + "/attempt.json") << R"({"job":1,"attempt":1,"sweep":"s","state":")"
                                              << state << R"(","home":")" << home << "\"}";
    }
  }
  SubmitFolders folders() {
    return SubmitFolders({.world = &world,
                          .timers = &timers,
                          .clock = &clock,
                          .aside = [this](const auto& work) { on_disk(work); },
                          .home = "/home",
                          .fetch = [](std::vector<SweepId>, const auto& done) { done({}); }});
  }
  void on_disk(const std::function<std::function<void()>()>& work) {
    ++looks;
    const Disk now = looks > healthy_looks ? disk : Disk::Well;
    switch (now) {
      case Disk::Well:
        return work()();
      case Disk::Slow:
        sim_timers.add(clock.now().boot_ns + 4 * kSecond, work());
        return;
      case Disk::AnswersInPart:
        (void)work();
        return;
      case Disk::NeverAnswers:
        late.push_back(work);
        return;
    }
  }
  void finish() {
    while (!sim_timers.empty()) sim_timers.step(clock);
    for (const auto& work : late) work()();  // after all, and nobody waits for it
  }
  FoundVerdict judge() {
    const SubmitFolders looked = folders();
    int answers = 0;
    FoundVerdict verdict;
    looked.judge(root, "s", [&](FoundVerdict given) {
      ++answers;
      verdict = std::move(given);
      took_ns = clock.ns;
    });
    finish();
    EXPECT_EQ(answers, 1);
    return verdict;
  }
  Result<SweepSpec> find_root(const std::string& out) {
    const SubmitFolders looked = folders();
    SweepSpec file{.name = "s", .folder = "/project"};
    file.out = out;
    int answers = 0;
    Result<SweepSpec> found = Error{ErrorKind::Unavailable, 0, "no answer"};
    looked.find_root(file, false, [&](Result<SweepSpec> given) {
      ++answers;
      found = std::move(given);
      took_ns = clock.ns;
    });
    finish();
    EXPECT_EQ(answers, 1);
    return found;
  }

  World world;
  SimClock clock;
  SimTimers sim_timers;
  Timers timers = sim_timers.timers();
  std::string root;
  std::string old;
  Disk disk = Disk::Well;
  int healthy_looks = 0;  // before it is as `disk` says
  int looks = 0;
  std::int64_t took_ns = 0;
  std::vector<std::function<std::function<void()>()>> late;
};

TEST_F(SubmitFoldersTest, ARootThatDoesNotAnswerIsRefused) {
  disk = Disk::NeverAnswers;
  const Result<SweepSpec> found = find_root("/dead");
  ASSERT_FALSE(found);
  EXPECT_EQ(took_ns, 30 * kSecond);
  EXPECT_NE(found.error().message.find("/dead didn't respond within 30 s"), std::string::npos)
      << found.error().message;
  EXPECT_NE(found.error().message.find("Nothing was submitted"), std::string::npos);
}

TEST_F(SubmitFoldersTest, AnotherRootThatDoesNotAnswerIsAnotherFolder) {
  disk = Disk::AnswersInPart;
  const Result<SweepSpec> found = find_root(root);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->out, root);
}

TEST_F(SubmitFoldersTest, ARootInOtherWordsIsTheKnownOne) {
  std::filesystem::create_directory_symlink("old", root + "/link");
  const Result<SweepSpec> found = find_root(root + "/link");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->out, old);
}

TEST_F(SubmitFoldersTest, AFolderThatDoesNotAnswerIsNotAnEmptyOne) {
  disk = Disk::NeverAnswers;
  const FoundVerdict verdict = judge();
  EXPECT_EQ(took_ns, 30 * kSecond);
  EXPECT_NE(verdict.why.find(root + "/s couldn't be read within 30 s"), std::string::npos)
      << verdict.why;
  EXPECT_NE(verdict.why.find("Nothing was submitted"), std::string::npos);
}

TEST_F(SubmitFoldersTest, AFolderThatCannotBeReadIsNotAnEmptyOne) {
  std::filesystem::create_directory_symlink("s", root + "/s");
  EXPECT_NE(judge().why.find("Too many levels of symbolic links"), std::string::npos)
      << judge().why;
}

TEST_F(SubmitFoldersTest, AFolderThatIsNotThereHoldsNothing) {
  const FoundVerdict verdict = judge();
  EXPECT_EQ(verdict.why + verdict.note, "");
}

TEST_F(SubmitFoldersTest, AllResultsAreCountedOnAFastDisk) {
  results(100, "done", "/other");
  EXPECT_NE(judge().why.find("100 of the 100 jobs there"), std::string::npos) << judge().why;
}

TEST_F(SubmitFoldersTest, ASlowDiskIsLookedAtUntilAFinishedResultIsFound) {
  results(100, "done", "/other");
  disk = Disk::Slow;
  const FoundVerdict verdict = judge();
  EXPECT_LT(took_ns, 5 * kSecond);
  EXPECT_NE(verdict.why.find("contains results"), std::string::npos) << verdict.why;
  EXPECT_NE(verdict.why.find(" of the first "), std::string::npos) << verdict.why;
}

TEST_F(SubmitFoldersTest, UnfinishedResultsOnASlowDiskAreNoAnswer) {
  results(300, "failed", "/other");
  disk = Disk::Slow;
  EXPECT_NE(judge().why.find("couldn't be read within 30 s"), std::string::npos);
}

TEST_F(SubmitFoldersTest, AnOldFolderThatDoesNotAnswerIsNotAMove) {
  results(1, "done", "/home");
  disk = Disk::NeverAnswers;
  healthy_looks = 1;
  const FoundVerdict verdict = judge();
  EXPECT_FALSE(verdict.moved);
  EXPECT_NE(verdict.why.find(old + "/s didn't respond within 30 s"), std::string::npos)
      << verdict.why;
}

TEST_F(SubmitFoldersTest, AMovedSweepGoesOn) {
  results(1, "done", "/home");
  EXPECT_EQ(judge().moved, SweepId{1});
}

}  // namespace
}  // namespace pergpu::testing
