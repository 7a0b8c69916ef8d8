// Files that `clean --results` removes, and those that it must not.
#include "cli/care/result_removal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "os/fs/file.h"
#include "program.h"

namespace pergpu::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct ResultRemoval : ::testing::Test {
  Scratch scratch;
  std::string root = scratch.path() + "/runs";
  SweepResults old = {.id = 3,
                      .sweep = "old",
                      .folder = root + "/old",
                      .aside = root + "/old/.cleaned-3",
                      .runs = {"00", "01", "_once"},
                      .ended_at_ns = 1'000'000'000'000'000'000};

  bool is_back = true;

  void SetUp() override {
    for (const char* run : {"00", "01"}) write(old.folder + "/" + run + "/train/model.pt", "1234");
  }
  static void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  void record(const json& what) const { write(old.folder + "/01/train/attempt.json", what.dump()); }
  static bool never(const json&) { return false; }
  std::vector<std::string> names(const std::string& path) const {
    Result<std::vector<std::string>> found = os::list_dir(path);
    EXPECT_TRUE(found) << path;
    return found ? *std::move(found) : std::vector<std::string>();
  }
};

using Names = std::vector<std::string>;

TEST_F(ResultRemoval, MovesAllAsideAndThenRemovesIt) {
  write(old.folder + "/notes.txt", "mine");
  EXPECT_EQ(measure_results(old).files, 2);
  ASSERT_TRUE(put_aside(old, is_back));
  EXPECT_EQ(names(old.folder), (Names{".cleaned-3", "notes.txt"}));
  EXPECT_EQ(names(old.aside), (Names{"00", "01"}));
  EXPECT_EQ(measure_results(old).bytes, 8);
  Size size;
  ASSERT_TRUE(remove_aside(old.aside, size));
  EXPECT_EQ(size.files, 2);
  EXPECT_EQ(names(old.folder), (Names{"notes.txt"}));
  EXPECT_TRUE(remove_aside(old.aside, size)) << "it is gone already";
}

TEST_F(ResultRemoval, GoesOnWhereAnEarlierOneWasKilled) {
  ASSERT_TRUE(put_aside(old, is_back));
  write(old.folder + "/00/train/model.pt", "of a retry since");
  ASSERT_TRUE(put_aside(old, is_back));
  EXPECT_EQ(names(old.folder), (Names{".cleaned-3"}));
  EXPECT_EQ(names(old.aside), (Names{"00", "00.2", "01"}));
}

TEST_F(ResultRemoval, OfWhatCannotAllBeMovedNothingIs) {
  old.runs = {"00", "01", "no/such/place", std::string(300, 'x')};  // a name that is too long
  const Result<void> moved = put_aside(old, is_back);
  ASSERT_FALSE(moved);
  EXPECT_NE(moved.error().message.find("move "), std::string::npos);
  EXPECT_TRUE(is_back);
  EXPECT_EQ(names(old.folder), (Names{"00", "01"}));
  fs::create_directories(old.aside + "/02");  // of one that was killed
  EXPECT_FALSE(put_aside(old, is_back));
  EXPECT_FALSE(is_back);
}

TEST_F(ResultRemoval, WhatLiesInThePlaceOfTheAsideIsNotFollowed) {
  fs::create_directories(scratch.path() + "/mine/00");
  fs::create_directory_symlink(scratch.path() + "/mine", old.aside);
  Size size;
  EXPECT_FALSE(put_aside(old, is_back));
  EXPECT_FALSE(remove_aside(old.aside, size));
  EXPECT_EQ(names(scratch.path() + "/mine"), (Names{"00"}));
  EXPECT_EQ(names(old.folder), (Names{".cleaned-3", "00", "01"}));
}

TEST_F(ResultRemoval, AFolderThatIsAnotherSweepsByAnyNameStays) {
  EXPECT_TRUE(check_folder(old, OtherFolders({root + "/other", root + "/older"})));
  fs::create_directory_symlink(root, scratch.path() + "/same");
  for (const char* inner : {"/same/old", "/same/old/00/train"}) {
    const Result<void> may = check_folder(old, OtherFolders({scratch.path() + inner}));
    ASSERT_FALSE(may) << inner;
    EXPECT_EQ(may.error().kind, ErrorKind::Invalid) << may.error().message;
  }
  fs::create_directory_symlink(root + "/old", root + "/link");
  old.folder = root + "/link";
  EXPECT_FALSE(check_folder(old, OtherFolders({})));
}

TEST_F(ResultRemoval, OnlyWhatIsSurelyNotThereIsAbsent) {
  SweepResults gone = old;
  gone.folder = root + "/gone";
  gone.aside = gone.folder + "/.cleaned-3";
  Size size;
  EXPECT_TRUE(check_folder(gone, OtherFolders({})));
  EXPECT_TRUE(put_aside(gone, is_back));
  EXPECT_TRUE(remove_aside(gone.aside, size));
  gone.folder = scratch.path() + "/unmounted/gone";
  gone.aside = gone.folder + "/.cleaned-3";
  EXPECT_FALSE(check_folder(gone, OtherFolders({})));
  EXPECT_FALSE(remove_aside(gone.aside, size));
  fs::create_symlink("loop", scratch.path() + "/loop");
  gone.folder = scratch.path() + "/loop/gone";
  EXPECT_FALSE(check_folder(gone, OtherFolders({})));
  const Result<void> untold = check_folder(old, OtherFolders({scratch.path() + "/loop/other"}));
  ASSERT_FALSE(untold);
  EXPECT_EQ(untold.error().kind, ErrorKind::Io);
}

TEST_F(ResultRemoval, AttemptsThatAreNoneOfTheSweepAreSeen) {
  const char* before = "2001-01-01T00:00:00.000Z";  // ended_at_ns is in September 2001
  const char* later = "2002-01-01T00:00:00.000Z";
  EXPECT_TRUE(check_attempts(old, never)) << "no record";
  record({{"state", "done"}, {"starting_at", before}, {"started_at", nullptr}});
  EXPECT_TRUE(check_attempts(old, never));
  record({{"state", "done"}, {"starting_at", before}, {"started_at", later}});
  EXPECT_FALSE(check_attempts(old, never));
  record({{"state", "running"}, {"starting_at", before}, {"job", 7}});
  EXPECT_FALSE(check_attempts(old, never));
  EXPECT_TRUE(check_attempts(old, [](const json& one) { return one["job"] == 7; }));
  record({{"state", "running"}, {"starting_at", later}, {"job", 7}});
  EXPECT_FALSE(check_attempts(old, [](const json&) { return true; }));
  write(old.folder + "/01/train/attempt.json", "no record");
  EXPECT_TRUE(check_attempts(old, never));
}

TEST_F(ResultRemoval, WhatAnotherUsersLinkLeadsToStays) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a link of another user";
  fs::rename(root, scratch.path() + "/private");
  fs::create_directory_symlink(scratch.path() + "/private", root);
  ASSERT_EQ(::lchown(root.c_str(), 61001, 61001), 0);
  const Result<void> may = check_folder(old, OtherFolders({}));
  ASSERT_FALSE(may);
  EXPECT_NE(may.error().message.find("/runs is a symbolic link that belongs to uid 61001"),
            std::string::npos)
      << may.error().message;
  EXPECT_FALSE(check_attempts(old, never));
  EXPECT_EQ(measure_results(old).files, 0);
  EXPECT_FALSE(put_aside(old, is_back));
  Size size;
  EXPECT_FALSE(remove_aside(old.aside, size));
  remove_empty_folder(old.folder);
  EXPECT_EQ(names(scratch.path() + "/private/old"), (Names{"00", "01"}));
  // One of the user's own is followed, above the sweep's folder.
  ASSERT_EQ(::lchown(root.c_str(), 0, 0), 0);
  EXPECT_TRUE(check_folder(old, OtherFolders({})));
  EXPECT_TRUE(put_aside(old, is_back));
}

}  // namespace
}  // namespace pergpu::cli
