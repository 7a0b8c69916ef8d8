// Copies made while the store is written: whole, of one moment, and never over another file.
#include "store/backup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "store/check.h"
#include "store/harness.h"
#include "store/schema.h"

namespace pergpu {
namespace {

using namespace testing_store;

Result<std::int64_t> back_up(Store& store, const std::string& file) {
  bool answered = false;
  Result<std::int64_t> verdict = std::int64_t{0};
  store.backup(file, [&](Result<std::int64_t> result) {
    verdict = std::move(result);
    answered = true;
  });
  while (!answered) {
    if (!drain_next(store)) return Error{ErrorKind::Unavailable, 0, "no answer in 30 s"};
  }
  return verdict;
}

std::vector<std::string> names_in(const Folder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(StoreBackup, OfAStoreInUseIsOneMomentOfIt) {
  const Folder folder;
  const Folder copies;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(commit(*store, small_sweep()));
  Batch many;  // so that the copy takes several slices
  for (int i = 0; i < 5'000; ++i) many.push_back(held("before" + std::string(500, '.')));
  ASSERT_TRUE(commit(*store, std::move(many)));
  bool copied = false;
  store->backup(copies / "copy.db", [&](const Result<std::int64_t>& bytes) {
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_EQ(*bytes, static_cast<std::int64_t>(std::filesystem::file_size(copies / "copy.db")));
    copied = true;
  });
  int committed = 0;
  while (!copied) {
    Batch pair = one(held(std::to_string(committed)));
    pair.push_back(held(std::to_string(committed)));
    ASSERT_TRUE(commit(*store, std::move(pair)));
    ++committed;
  }
  EXPECT_EQ(names_in(copies), std::vector<std::string>{"copy.db"});
  struct stat info = {};
  ASSERT_EQ(::stat((copies / "copy.db").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::unique_ptr<Store> copy = must_open(copies / "copy.db");
  const std::vector<std::string> found = reasons(*copy);
  ASSERT_GE(found.size(), 5'000u);
  ASSERT_EQ(found.size() % 2, 0u) << "half a batch";
  for (std::size_t i = 5'000; i < found.size(); ++i) {
    EXPECT_EQ(found[i], std::to_string((i - 5'000) / 2));
  }
  EXPECT_LE(found.size(), 5'000u + 2 * static_cast<std::size_t>(committed));
  EXPECT_TRUE(commit(*store, one(held("goes on"))));
}

// Somebody goes back to a copy and leaves the log of the store that was there.
TEST(StoreBackup, BesideTheLogOfTheStoreBeforeItIsRefused) {
  const Folder folder;
  const Folder place;
  const std::string path = place / "store.db";
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    ASSERT_TRUE(commit(*store, small_sweep()));
    ASSERT_TRUE(back_up(*store, path));
    ASSERT_TRUE(commit(*store, one(held("later"))));
    write_bytes(path + "-wal", bytes_of(folder / "store.db-wal"));
  }
  const std::map<std::string, std::string> before = files_of(place);
  ASSERT_FALSE(before.at("store.db-wal").empty());
  const Result<std::unique_ptr<Store>> refused = open_sqlite_store(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Corrupt);
  EXPECT_NE(refused.error().message.find(path + "-wal away"), std::string::npos);
  EXPECT_TRUE(files_of(place) == before);
  ::unlink((path + "-wal").c_str());
  const std::unique_ptr<Store> copy = must_open(path);
  EXPECT_TRUE(reasons(*copy).empty());
  ASSERT_TRUE(commit(*copy, one(held("mine"))));
  // Power fails now: it has a log of its own.
  const Folder after;
  for (const auto& [name, bytes] : files_of(place)) write_bytes(after / name, bytes);
  ASSERT_TRUE(std::filesystem::exists(after / "store.db-wal"));
  EXPECT_EQ(reasons(*must_open(after / "store.db")), std::vector<std::string>{"mine"});
}

TEST(StoreBackup, OverwritesNothing) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  write_bytes(folder / "mine", "precious");
  const Result<std::int64_t> refused = back_up(*store, folder / "mine");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Invalid);
  EXPECT_NE(refused.error().message.find(folder / "mine"), std::string::npos);
  EXPECT_EQ(bytes_of(folder / "mine"), "precious");
  EXPECT_FALSE(back_up(*store, folder / "no/such/folder"));
  EXPECT_TRUE(back_up(*store, folder / "other"));
}

TEST(StoreBackup, OneAfterTheOther) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(commit(*store, small_sweep()));
  int answers = 0;
  for (int i = 0; i < 3; ++i) {
    store->backup(folder / std::to_string(i), [&](const Result<std::int64_t>& bytes) {
      EXPECT_TRUE(bytes);
      ++answers;
    });
  }
  while (answers < 3) ASSERT_TRUE(drain_next(*store));
}

TEST(StoreBackup, LeftInTheMiddleLeavesNothing) {
  const Folder folder;
  {
    Result<store::Database> database = store::open_store_file(folder / "store.db");
    ASSERT_TRUE(database);
    Result<store::Backup> backup = store::Backup::begin(*database, folder / "copy.db");
    ASSERT_TRUE(backup);
    const Result<bool> complete = backup->step(1);
    ASSERT_TRUE(complete);
    EXPECT_FALSE(*complete);
    EXPECT_TRUE(std::filesystem::exists(folder / "copy.db.pergpu-draft"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "copy.db"));
  EXPECT_FALSE(std::filesystem::exists(folder / "copy.db.pergpu-draft"));
}

TEST(StoreCheck, FindsWhatContradictsAndChangesNothing) {
  const Folder folder;
  const std::string path = folder / "store.db";
  {
    const std::unique_ptr<Store> store = must_open(path);
    ASSERT_TRUE(commit(*store, small_sweep()));
    ASSERT_TRUE(commit(*store, one(held("why"))));
  }
  const auto nothing_wrong = [](const Row&) { return Result<void>(); };
  Result<store::CheckReport> fine = store::check(path, nothing_wrong);
  ASSERT_TRUE(fine) << fine.error().message;
  EXPECT_TRUE(fine->problems.empty());
  EXPECT_EQ(fine->jobs, 1);
  EXPECT_EQ(fine->events, 1);
  const std::string before = bytes_of(path);
  Result<store::CheckReport> told = store::check(path, [](const Row& row) -> Result<void> {
    if (!std::holds_alternative<row::Event>(row)) return {};
    return Error{ErrorKind::Corrupt, 0, "this cannot be"};
  });
  ASSERT_TRUE(told);
  EXPECT_EQ(told->problems, std::vector<std::string>{"this cannot be"});
  EXPECT_TRUE(bytes_of(path) == before);
  EXPECT_FALSE(store::check(folder / "none.db", nothing_wrong));
  std::string bytes = before;
  bytes.replace(2 * 4096, 4096, std::string(4096, '\x5a'));
  write_bytes(path, bytes);
  Result<store::CheckReport> damaged = store::check(path, nothing_wrong);
  ASSERT_TRUE(damaged);
  EXPECT_FALSE(damaged->problems.empty());
  EXPECT_TRUE(bytes_of(path) == bytes);
}

}  // namespace
}  // namespace pergpu
