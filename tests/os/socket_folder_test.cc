#include "os/ipc/socket_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "fixture.h"
#include "os/fs/file.h"
#include "os/ipc/socket.h"

namespace pergpu::os {
namespace {

constexpr std::size_t kLongest = 107;

class SocketFolder : public ::testing::Test {
 protected:
  std::string folder_of(std::size_t length) {
    std::string path = dir_ / "f";
    while (path.size() + 2 < length)
      path += "/" + std::string(std::min<std::size_t>(99, length - path.size() - 1), 'x');
    EXPECT_TRUE(make_dirs(path, 0700));
    return path;
  }
  std::string name_of(const std::string& folder) {
    const Result<std::string> name = socket_folder(folder, kUsualName, {place_});
    EXPECT_TRUE(name) << name.error().message;
    return name ? *name : "";
  }

  TempDir dir_;
  const std::string place_ = dir_ / "s";
};

TEST_F(SocketFolder, IsTheFolderItselfWhereItsPathIsShortEnough) {
  const std::string folder = folder_of(60);
  EXPECT_EQ(name_of(folder), folder);
  EXPECT_FALSE(exists(place_));
}

TEST_F(SocketFolder, EveryNameInItFitsWhateverTheLengthOfThePath) {
  for (std::size_t length = 70; length < 400; length += 7) {
    const std::string folder = folder_of(length);
    const std::string name = name_of(folder);
    EXPECT_LE(name.size() + 1 + kUsualName, kLongest) << length;
    EXPECT_EQ(std::filesystem::canonical(name), std::filesystem::canonical(folder));
  }
}

TEST_F(SocketFolder, WhatListensUnderTheLongPathIsReachedUnderTheShortOne) {
  const std::string folder = folder_of(300);
  const Result<UniqueFd> listener = listen_unix(folder + "/coordinator.sock");
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_TRUE(connect_unix(name_of(folder) + "/coordinator.sock", false));
}

TEST_F(SocketFolder, IsTheSameEachTimeAndMadeAgainWhereItIsGone) {
  const std::string folder = folder_of(200);
  const std::string name = name_of(folder);
  EXPECT_EQ(name_of(folder), name);
  ASSERT_EQ(::unlink(name.c_str()), 0);
  EXPECT_EQ(name_of(folder), name);
  EXPECT_TRUE(is_directory(name));
  EXPECT_NE(name_of(folder_of(201)), name);
}

TEST_F(SocketFolder, LinksWhoseFolderIsGoneAreRemoved) {
  const std::string old = folder_of(200);
  const std::string link = name_of(old);
  ASSERT_TRUE(remove_tree(old));
  (void)name_of(folder_of(300));
  EXPECT_FALSE(std::filesystem::is_symlink(link));
}

TEST_F(SocketFolder, APlaceThatOthersCouldLeadElsewhereIsPassedOver) {
  const std::string trap = dir_ / "trap";
  ASSERT_TRUE(make_dirs(trap, 0777));
  ASSERT_TRUE(write_file_atomic(trap + "/x", "", 0600, false));
  const std::string link = dir_ / "link";
  ASSERT_EQ(::symlink(trap.c_str(), link.c_str()), 0);
  const std::string folder = folder_of(200);
  const Result<std::string> name =
      socket_folder(folder, kUsualName, {trap, link, "/proc/no", place_});
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_TRUE(name->starts_with(place_ + "/")) << *name;
}

TEST_F(SocketFolder, WhereNoLinkCanBeMadeItIsRefusedWithWhatToDo) {
  const std::string folder = folder_of(200);
  const Result<std::string> name = socket_folder(folder, kUsualName, {"/proc/no"});
  ASSERT_FALSE(name);
  EXPECT_NE(name.error().message.find("set PERGPU_HOME to a shorter path"), std::string::npos);
  EXPECT_NE(name.error().message.find("/proc/no"), std::string::npos);
}

}  // namespace
}  // namespace pergpu::os
