#include "run/living_keepers.h"

#include <filesystem>

#include "run/local_rig.h"

namespace pergpu {
namespace {

TEST_F(LocalEngineTest, LivingKeepersAreFoundByTheirHome) {
  EXPECT_TRUE(living_keepers(folder_).empty());
  const KeeperId id = run_on(kLane, plan(kFirst, {"sleep", "1000"}));
  const auto started = wait_for<engine_event::Started>(kFirst);
  const std::vector<LivingKeeper> found = living_keepers(folder_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, id);
  EXPECT_EQ(found[0].pid, engine_->keeper_pids().at(0));
  EXPECT_EQ(found[0].words.run_folder, run_dir());
  EXPECT_EQ(found[0].words.home_id, home_identity(folder_));
  EXPECT_EQ(words_of(found), "job 1 (process " + std::to_string(started.pid) + ")");
  EXPECT_TRUE(living_keepers(folder_ + "/another").empty());
}

TEST(HomeIdentity, IsOfTheFolderAndNotOfItsName) {
  std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  const std::string identity = home_identity(folder);
  EXPECT_NE(identity, "");
  std::filesystem::rename(folder, folder + "-moved");
  EXPECT_EQ(home_identity(folder), "");
  EXPECT_EQ(home_identity(folder + "-moved"), identity);
  std::filesystem::remove(folder + "-moved");
}

}  // namespace
}  // namespace pergpu
