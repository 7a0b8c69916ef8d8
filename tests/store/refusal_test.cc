// An unreadable store is refused, byte for byte untouched, with the way out; never replaced.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "store/harness.h"
#include "store/schema.h"

namespace pergpu {
namespace {

using namespace testing_store;

// A store with enough rows for several pages.
void make_store(const std::string& path) {
  const std::unique_ptr<Store> store = must_open(path);
  ASSERT_TRUE(rows_of(*store).empty());
  Batch batch = small_sweep();
  for (int i = 0; i < 500; ++i) batch.push_back(held("reason " + std::to_string(i)));
  ASSERT_TRUE(commit(*store, std::move(batch)));
}

void sql(const std::string& path, const std::string& text) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(db, text.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_close(db);
}

// Opens and loads, expects a refusal with `words` in it and unchanged bytes.
void expect_refused(const std::string& path, const std::string& words) {
  const std::string before = bytes_of(path);
  Error error;
  {
    Result<std::unique_ptr<Store>> store = open_sqlite_store(path);
    Result<void> loaded;
    if (store) loaded = (*store)->load([](const Row&) { return Result<void>(); });
    ASSERT_FALSE(store && loaded);
    error = store ? loaded.error() : store.error();
  }
  EXPECT_EQ(error.kind, ErrorKind::Corrupt) << error.message;
  EXPECT_NE(error.message.find(path), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
  EXPECT_TRUE(bytes_of(path) == before) << "the file was changed";
}

constexpr const char* kWayOut = "pergpu never replaces the store with an empty one";

TEST(StoreRefusal, NoSqliteFile) {
  const Folder folder;
  write_bytes(folder / "store.db", std::string(5'000, 'x'));
  expect_refused(folder / "store.db", "isn't a SQLite file");
  expect_refused(folder / "store.db", kWayOut);
}

TEST(StoreRefusal, EmptyFile) {
  const Folder folder;
  write_bytes(folder / "store.db", "");
  expect_refused(folder / "store.db", "is empty");
}

TEST(StoreRefusal, FifoInThePlaceOfItsLogOrJournal) {
  for (const char* suffix : {"-wal", "-journal"}) {
    const Folder folder;
    const std::string path = folder / "store.db";
    make_store(path);
    const std::string beside = path + suffix;
    ::unlink(beside.c_str());
    ASSERT_EQ(::mkfifo(beside.c_str(), 0600), 0);
    expect_refused(path, suffix + std::string(" isn't a regular file; remove it"));
  }
}

TEST(StoreRefusal, FileOfAnotherProgram) {
  const Folder folder;
  sql(folder / "store.db", "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
  expect_refused(folder / "store.db", "of another program");
}

TEST(StoreRefusal, NewerVersion) {
  const Folder folder;
  make_store(folder / "store.db");
  sql(folder / "store.db", "PRAGMA user_version = 99");
  expect_refused(folder / "store.db", "newer pergpu");
}

TEST(StoreRefusal, NewerVersionThatIsStillInTheLogOnly) {
  const Folder folder;
  make_store(folder / "store.db");
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "store.db").c_str(), &db), SQLITE_OK);
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version = 99", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const std::string log = bytes_of(folder / "store.db-wal");
  ASSERT_FALSE(log.empty());
  expect_refused(folder / "store.db", "newer pergpu");
  EXPECT_TRUE(bytes_of(folder / "store.db-wal") == log) << "the log was changed";
}

TEST(StoreRefusal, CutOff) {
  for (const std::size_t keep : {60u, 100u, 5'000u, 20'000u}) {
    const Folder folder;
    make_store(folder / "store.db");
    const std::string bytes = bytes_of(folder / "store.db");
    ASSERT_GT(bytes.size(), 20'000u);
    write_bytes(folder / "store.db", bytes.substr(0, keep));
    expect_refused(folder / "store.db", kWayOut);
  }
}

TEST(StoreRefusal, OverwrittenPages) {
  const Folder folder;
  make_store(folder / "store.db");
  const std::string bytes = bytes_of(folder / "store.db");
  for (std::size_t page = 1; page < bytes.size() / 4096; ++page) {
    std::string damaged = bytes;
    for (std::size_t i = 0; i < 4096; ++i) damaged[page * 4096 + i] = static_cast<char>(i * 7);
    write_bytes(folder / "store.db", damaged);
    SCOPED_TRACE(page);
    expect_refused(folder / "store.db", kWayOut);
  }
}

TEST(StoreRefusal, TableThatIsNotThere) {
  const Folder folder;
  make_store(folder / "store.db");
  sql(folder / "store.db", "DROP TABLE meta");
  expect_refused(folder / "store.db", "meta");
}

TEST(StoreRefusal, EventOfAnUnknownKindNamesItsRow) {
  const Folder folder;
  make_store(folder / "store.db");
  sql(folder / "store.db", "UPDATE events SET kind = 'exploded' WHERE seq = 17");
  expect_refused(folder / "store.db", "seq 17");
  expect_refused(folder / "store.db", "exploded");
}

TEST(StoreRefusal, EventThatMakesNoSenseNamesItsRow) {
  const Folder folder;
  make_store(folder / "store.db");
  sql(folder / "store.db", R"(UPDATE events SET body = '{"reason":3}' WHERE seq = 18)");
  expect_refused(folder / "store.db", "seq 18");
}

TEST(StoreRefusal, RowsWhoseBytesChangedAreNamed) {
  struct Change {
    std::string sql;
    std::string words;
  };
  const Change changes[] = {
      {"UPDATE events SET body = replace(body, 'reason 9', 'reason 8') WHERE seq = 10", "seq 10"},
      {"UPDATE events SET at_wall = at_wall + 1 WHERE seq = 10", "seq 10"},
      {"UPDATE sweeps SET name = name || 'x'", "table sweeps, row 1"},
      {"UPDATE sweeps SET submit = '{\"x\":1}'", "table sweeps, row 1"}};
  for (const Change& change : changes) {
    const Folder folder;
    make_store(folder / "store.db");
    sql(folder / "store.db", change.sql);
    expect_refused(folder / "store.db", change.words);
    expect_refused(folder / "store.db", "its checksum doesn't match");
  }
}

TEST(StoreRefusal, LogWithoutItsStore) {
  const Folder folder;
  write_bytes(folder / "store.db-wal", "what is left of a store");
  const Result<std::unique_ptr<Store>> store = open_sqlite_store(folder / "store.db");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::Corrupt);
  EXPECT_EQ(bytes_of(folder / "store.db-wal"), "what is left of a store");
  EXPECT_FALSE(std::filesystem::exists(folder / "store.db"));
}

TEST(StoreRefusal, FolderInItsPlace) {
  const Folder folder;
  std::filesystem::create_directory(folder / "store.db");
  EXPECT_FALSE(open_sqlite_store(folder / "store.db"));
}

TEST(StoreRefusal, MissingFolder) {
  const Folder folder;
  const Result<std::unique_ptr<Store>> store = open_sqlite_store(folder / "no/store.db");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::NotFound);
}

TEST(StoreRefusal, InUseByAnother) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(commit(*store, small_sweep()));
  const Result<std::unique_ptr<Store>> second = open_sqlite_store(folder / "store.db");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy) << second.error().message;
  EXPECT_TRUE(commit(*store, one(held("still works"))));
}

TEST(StoreCreation, FileIsTheUsersAlone) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(commit(*store, small_sweep()));
  for (const char* name : {"store.db", "store.db-wal"}) {
    struct stat info = {};
    ASSERT_EQ(::stat((folder / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
}

TEST(StoreCreation, LeftoversOfAnInterruptedOneDoNotMatter) {
  const Folder folder;
  write_bytes(folder / "store.db.new", "half made");
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_TRUE(rows_of(*store).empty());
  EXPECT_FALSE(std::filesystem::exists(folder / "store.db.new"));
}

}  // namespace
}  // namespace pergpu
