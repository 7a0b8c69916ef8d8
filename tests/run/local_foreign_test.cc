// Keepers of a home that had the path of this one are left alone.
#include <gtest/gtest.h>

#include <fstream>

#include "run/local_rig.h"

namespace pergpu {
namespace {

class ForeignKeeperTest : public LocalEngineTest {
 protected:
  void SetUp() override {
    LocalEngineTest::SetUp();
    engine_.reset();
    home_ = folder_ + "/home";
    std::filesystem::create_directory(home_);
    open_engine();
  }
  /// Its coordinator is killed, and the next one serves another folder of its path.
  void replace_home() {
    kill_coordinator();
    std::filesystem::rename(home_, home_ + "-before");
    std::filesystem::create_directory(home_);
    open_engine();
  }
  /// To another disk: a copy, and a link in its place.
  void move_home() {
    kill_coordinator();
    const std::string copy = folder_ + "/disk";
    std::filesystem::create_directory(copy);
    std::filesystem::remove_all(home_);
    std::filesystem::create_symlink(copy, home_);
    home_ = copy;
    open_engine();
  }
  AttemptPlan waiting() const {
    return shell(kFirst, "while [ ! -e go ]; do sleep 0.01; done; exit 7");
  }
  void let_go() { std::ofstream(folder_ + "/go") << ""; }
  /// The next coordinator has looked at all keepers: it has one of its own.
  bool until_adopted() {
    return until([&] {
      const std::vector<std::int32_t> pids = engine_->keeper_pids();
      return pids.size() == 1 && pids[0] != all_keepers_.at(0).pid;
    });
  }
};

TEST_F(ForeignKeeperTest, AttemptOfARemovedHomeRunsToItsEndAndNothingStartsBefore) {
  const KeeperId keeper = run_on(kLane, waiting());
  const auto started = wait_for<engine_event::Started>(kFirst);
  replace_home();
  engine_->adopt({});
  ASSERT_TRUE(until_adopted());
  EXPECT_FALSE(engine_->may_start());
  EXPECT_FALSE(gone(started.pid));
  let_go();
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
  EXPECT_EQ(slurp(out(kFirst) + "/log.txt"), "");
  EXPECT_EQ(events_.size(), 0u) << "it is another home's";
  EXPECT_FALSE(std::filesystem::exists(keeper::record_path(run_dir(), keeper.value)))
      << "no attempt of this home may be taken for it";
}

TEST_F(ForeignKeeperTest, KeeperOfARemovedHomeWithoutAnAttemptEndsAtOnce) {
  run_on(kLane, shell(kFirst, "exit 0"));
  wait_for<engine_event::Exited>(kFirst);
  engine_->acknowledge(kFirst, "", "");
  replace_home();
  const std::int64_t began = clock_.now().boot_ns;
  engine_->adopt({});
  EXPECT_TRUE(until([&] { return gone(all_keepers_.at(0).pid); }));
  EXPECT_LT(clock_.now().boot_ns - began, 20'000'000'000);
  EXPECT_TRUE(until([&] { return engine_->may_start(); }));
}

TEST_F(ForeignKeeperTest, AttemptThatCameWithTheStoreIsWaitedForAndItsEndCounts) {
  const KeeperId keeper = run_on(kLane, waiting());
  const auto started = wait_for<engine_event::Started>(kFirst);
  replace_home();
  engine_->adopt({expected(kFirst, keeper, started)});
  ASSERT_TRUE(until_adopted());
  EXPECT_TRUE(engine_->may_start());
  EXPECT_FALSE(gone(started.pid));
  let_go();
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
  EXPECT_EQ(count<engine_event::Lost>(), 0u);
}

TEST_F(ForeignKeeperTest, KeeperThatOnlyTheProcessesTellOfIsLeftAloneToo) {
  const KeeperId keeper = run_on(kLane, waiting());
  const auto started = wait_for<engine_event::Started>(kFirst);
  std::filesystem::remove(keeper::socket_path(run_dir(), keeper.value));
  move_home();
  engine_->adopt({expected(kFirst, keeper, started)});
  ASSERT_TRUE(until_adopted());
  EXPECT_FALSE(gone(started.pid));
  let_go();
  EXPECT_EQ(wait_for<engine_event::Exited>(kFirst).exit_code, 7);
  EXPECT_EQ(count<engine_event::Lost>(), 0u);
}

TEST_F(ForeignKeeperTest, NothingOfALivingKeeperIsBuriedWhicheverNameItsHomeHas) {
  run_on(kLane, waiting());
  const auto started = wait_for<engine_event::Started>(kFirst);
  move_home();
  const os::TreeMarks marks = {.pid = started.pid,
                               .start_ticks = started.start_ticks,
                               .marker = home_ + "/" + to_string(kFirst)};
  const std::vector<os::TreeMember> found = os::find_tree(marks);
  ASSERT_FALSE(found.empty());
  for (const os::TreeMember& member : found) EXPECT_EQ(member.spared, "has a running keeper");
}

TEST_F(ForeignKeeperTest, StopEndsTheAttemptThatCameWithTheStore) {
  const KeeperId keeper = run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto started = wait_for<engine_event::Started>(kFirst);
  move_home();
  engine_->adopt({expected(kFirst, keeper, started)});
  engine_->stop(kFirst, StopHow::Kill);
  EXPECT_TRUE(wait_for<engine_event::Lost>(kFirst).proven_gone);
  EXPECT_TRUE(gone(started.pid));
}

}  // namespace
}  // namespace pergpu
