// `pergpu store` beside a coordinator that misbehaves as told, or none.
#include "store/store.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/term/exit_code.h"
#include "fake_coordinator.h"
#include "os/fs/file.h"
#include "os/fs/folder_walk.h"
#include "os/fs/lock.h"
#include "os/fs/new_name.h"
#include "store/schema.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using Session = FakeCoordinator::Session;

std::string store_of(const Scratch& scratch) { return scratch.home() + "/pergpu.db"; }

void make_store(const Scratch& scratch) {
  const Result<std::unique_ptr<Store>> store = open_sqlite_store(store_of(scratch));
  ASSERT_TRUE(store) << store.error().message;
}

std::vector<std::string> copies_in(const Scratch& scratch) {
  Result<std::vector<std::string>> names = os::list_dir(scratch.home());
  EXPECT_TRUE(names);
  std::erase_if(*names, [](const std::string& name) { return !name.starts_with("copy-"); });
  return *names;
}

/// As a coordinator that runs.
std::optional<os::FileLock> lock_home(const Scratch& scratch) {
  Result<os::FileLock> lock = os::FileLock::try_lock(scratch.home() + "/coordinator.lock");
  EXPECT_TRUE(lock);
  return *std::move(lock);
}

/// REQUIRES: no file of that name.
void write_new(const std::string& path) {
  const Result<os::HeldFolder> folder = os::HeldFolder::open(os::parent_of(path));
  EXPECT_TRUE(folder && folder->write_new_file(os::name_of(path), "some", 0600));
}

TEST(StoreCommand, CoordinatorThatDiesWithTheCopyMadeIsNotAskedForTheSameAgain) {
  NEEDS_BINARY();
  const Scratch scratch;
  make_store(scratch);
  std::optional<os::FileLock> home = lock_home(scratch);
  FakeCoordinator fake(scratch.socket(), [&](Session&, const json& request) {
    write_new(request["file"]);
    home.reset();
    return false;
  });
  Program backup(scratch, {"store", "backup", "copy.db"});
  EXPECT_EQ(backup.wait(), kOk) << backup.err;
  EXPECT_EQ(fake.requests("backup").size(), 1u);
  EXPECT_TRUE(store::version_in_header(scratch.path() + "/copy.db"));
  EXPECT_TRUE(copies_in(scratch).empty());
}

TEST(StoreCommand, InterruptedLeavesNoCopy) {
  NEEDS_BINARY();
  for (const int signal : {SIGINT, SIGTERM}) {
    const Scratch scratch;
    make_store(scratch);
    const std::optional<os::FileLock> home = lock_home(scratch);
    int asked[2];
    ASSERT_EQ(::pipe(asked), 0);
    FakeCoordinator fake(scratch.socket(), [&](Session& session, const json& request) {
      write_new(os::draft_of(request["file"]));
      EXPECT_EQ(::write(asked[1], "!", 1), 1);
      session.wait_for("never");
      return false;
    });
    Program check(scratch, {"store", "check"});
    char byte = 0;
    EXPECT_EQ(::read(asked[0], &byte, 1), 1);
    EXPECT_EQ(copies_in(scratch).size(), 1u);
    check.signal(signal);
    EXPECT_EQ(check.wait(), 128 + signal);
    EXPECT_TRUE(copies_in(scratch).empty());
    ::close(asked[0]);
    ::close(asked[1]);
  }
}

TEST(StoreCommand, OneAfterTheOther) {
  NEEDS_BINARY();
  const Scratch scratch;
  make_store(scratch);
  const Result<os::FileLock> other =
      os::FileLock::try_lock(scratch.home() + "/store.lock", "another command");
  Program check(scratch, {"store", "check"});
  EXPECT_EQ(check.wait(), kUnreachable);
  EXPECT_NE(check.err.find("is held by another command"), std::string::npos) << check.err;
}

TEST(StoreCommand, RemovesWhatAKilledOneLeft) {
  NEEDS_BINARY();
  const Scratch scratch;
  make_store(scratch);
  write_new(scratch.home() + "/copy-1-1.db");
  write_new(os::draft_of(scratch.home() + "/copy-1-2.db"));
  Program check(scratch, {"store", "check"});
  EXPECT_EQ(check.wait(), kOk) << check.err;
  EXPECT_TRUE(copies_in(scratch).empty());
  EXPECT_FALSE(os::exists(scratch.home() + "/coordinator.log")) << "a coordinator was started";
}

}  // namespace
}  // namespace pergpu::cli
