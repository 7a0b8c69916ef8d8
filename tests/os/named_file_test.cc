#include "os/fs/named_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "fixture.h"

namespace pergpu::os {
namespace {

TEST(NamedFile, IsThereUntilAnotherFileHasItsName) {
  const TempDir temp;
  const std::string path = temp / "home";
  EXPECT_FALSE(NamedFile(path));
  EXPECT_FALSE(NamedFile(path).is_there());
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  const NamedFile home(path);
  EXPECT_TRUE(home);
  EXPECT_TRUE(home.is_there());
  std::filesystem::rename(path, temp / "elsewhere");
  EXPECT_FALSE(home.is_there());
  std::filesystem::rename(temp / "elsewhere", path);
  EXPECT_TRUE(home.is_there()) << "the same folder is back";
  for (int round = 0; round < 32; ++round) {  // its number is free for others when it is gone
    std::filesystem::remove(path);
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    EXPECT_FALSE(home.is_there());
  }
}

TEST(NamedFile, ALinkIsNotWhatItLeadsTo) {
  const TempDir temp;
  std::ofstream(temp / "file") << "";
  const NamedFile file(temp / "file");
  std::filesystem::rename(temp / "file", temp / "moved");
  std::filesystem::create_symlink(temp / "moved", temp / "file");
  EXPECT_FALSE(file.is_there());
}

}  // namespace
}  // namespace pergpu::os
