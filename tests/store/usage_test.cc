// What is kept of attempts' usage: read back by attempt, bounded, and no part of a start.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "store/harness.h"

namespace pergpu {
namespace {

using namespace testing_store;

row::Usage usage(std::int32_t attempt, std::string minutes) {
  return {.job = {1}, .attempt = attempt, .at = {7, 8}, .minutes = std::move(minutes)};
}

std::vector<row::Usage> kept(Store& store, JobId job, std::int32_t attempt) {
  std::optional<Result<std::vector<row::Usage>>> rows;
  store.read_usage(job, attempt,
                   [&](Result<std::vector<row::Usage>> read) { rows = std::move(read); });
  while (!rows && drain_next(store)) {
  }
  EXPECT_TRUE(rows && *rows);
  return rows && *rows ? **rows : std::vector<row::Usage>();
}

TEST(StoreUsage, IsReadByAttemptInOrderAlsoAfterARestart) {
  const Folder folder;
  const std::string bytes("\x01\x00\xff", 3);
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    (void)rows_of(*store);
    ASSERT_TRUE(commit(*store, small_sweep()));
    ASSERT_TRUE(commit(*store, {usage(1, "first"), usage(2, bytes), usage(1, "second")}));
    EXPECT_EQ(kept(*store, {1}, 1).size(), 2u);
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_TRUE(only<row::Usage>(rows_of(*store)).empty()) << "a start does not read it";
  const std::vector<row::Usage> first = kept(*store, {1}, 1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].minutes, "first");
  EXPECT_EQ(first[1].minutes, "second");
  EXPECT_EQ(first[0].at, (Instant{7, 8}));
  ASSERT_EQ(kept(*store, {1}, 2).size(), 1u);
  EXPECT_EQ(kept(*store, {1}, 2)[0].minutes, bytes);
  EXPECT_TRUE(kept(*store, {1}, 3).empty());
  EXPECT_TRUE(kept(*store, {2}, 1).empty());
}

TEST(StoreUsage, OfAJobThatDoesNotExistIsRefused) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  (void)rows_of(*store);
  const Result<void> written = commit(*store, one(usage(1, "x")));
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("usage of attempt 1.1"), std::string::npos)
      << written.error().message;
}

TEST(StoreUsage, TheNewestRowsAreKept) {
  const Folder folder;
  const std::string path = folder / "store.db";
  {
    const std::unique_ptr<Store> store = must_open(path);
    (void)rows_of(*store);
    ASSERT_TRUE(commit(*store, small_sweep()));
    ASSERT_TRUE(commit(*store, {usage(1, "oldest"), usage(1, "second")}));
  }
  // As if so many rows had been written since that the next one is too many.
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  const std::string sql = fmt::format(
      "INSERT INTO usage (id, job, attempt, at_wall, at_boot, minutes) VALUES ({}, 1, 1, 0, 0, "
      "x'00')",
      kMostUsageRows);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const std::unique_ptr<Store> store = must_open(path);
  (void)rows_of(*store);
  ASSERT_TRUE(commit(*store, one(usage(1, "newest"))));
  const std::vector<row::Usage> rows = kept(*store, {1}, 1);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.front().minutes, "second");
  EXPECT_EQ(rows.back().minutes, "newest");
}

}  // namespace
}  // namespace pergpu
