// Stores of every version of the schema (tests/data/store/): each is brought to this one, with the
// same jobs, or refused with its bytes as they were.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>

#include "store/check.h"
#include "store/fault_vfs.h"
#include "store/harness.h"
#include "store/migrations.h"
#include "store/replay.h"

namespace pergpu {
namespace {

using namespace testing_store;

std::string data(const std::string& name) { return PERGPU_TEST_DATA "/store/" + name; }

void sql(const std::string& path, const std::string& text, bool keep_log = false) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int{keep_log}, nullptr);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(db, text.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_close(db);
}

std::string version_of(const std::string& path) {
  std::string version;
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, nullptr), SQLITE_OK);
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
  version = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return version;
}

std::map<JobId, Job> jobs_of(Store& store, std::vector<Row>* rows = nullptr) {
  Replay replay;
  for (const Row& row : all_rows_of(store)) {
    EXPECT_TRUE(replay.absorb(row));
    if (rows != nullptr) rows->push_back(row);
  }
  return std::move(replay.jobs);
}

// As tests/data/store/make writes them.
std::string listed(const std::map<JobId, Job>& jobs) {
  std::string lines;
  for (const auto& [id, job] : jobs) {
    const bool told = !job.last && job.state != JobState::Queued;
    const bool known = job.last && job.last->outcome;
    lines += fmt::format("{}|{}|{}|{}|{}\n", id.value, to_string(job.state), job.attempts,
                         known ? to_string(job.last->outcome->cls) : "", told ? job.reason : "");
  }
  return lines;
}

class Version : public testing::TestWithParam<int> {
 protected:
  std::string name() const { return fmt::format("v{}", GetParam()); }
  std::string copy_to(const Folder& folder) const {
    std::string path = folder / "store.db";
    write_bytes(path, bytes_of(data(name() + ".db")));
    return path;
  }
};

TEST_P(Version, IsReadAndBroughtToThisOne) {
  const Folder folder;
  const std::string path = copy_to(folder);
  ASSERT_EQ(version_of(path), std::to_string(GetParam()));
  {
    const std::unique_ptr<Store> store = must_open(path);
    std::vector<Row> rows;
    EXPECT_EQ(listed(jobs_of(*store, &rows)), bytes_of(data(name() + ".jobs")));
    EXPECT_EQ(only<row::Sweep>(rows).size(), 2u);
    EXPECT_EQ(only<row::Run>(rows).size(), 7u);
    ASSERT_TRUE(commit(*store, one(row::Event{{16}, event::Held{"later"}, {1, 1}})));
  }
  EXPECT_EQ(version_of(path), std::to_string(store::kSchemaVersion));
  const std::unique_ptr<Store> again = must_open(path);
  EXPECT_EQ(jobs_of(*again).at({16}).state, JobState::Held);
}

/// Opened and read by a reader that finds job 1 contradicts itself.
Result<std::unique_ptr<Store>> read_contradiction(const std::string& path) {
  Result<std::unique_ptr<Store>> store = open_sqlite_store(path, {.begin = 1, .keep = 0});
  if (!store) return store;
  Replay replay;
  Result<void> loaded = (*store)->load([&](const Row& row) { return replay.absorb(row); });
  if (!loaded) return std::move(loaded).error();
  return store;
}

constexpr const char* kContradiction =
    "INSERT INTO events (job, at_wall, at_boot, kind, body) VALUES (1, 0, 0, 'started', "
    "'{\"pid\":1,\"start_ticks\":1}')";

TEST_P(Version, ThatContradictsItselfIsRefusedAndStaysAsItWas) {
  const Folder folder;
  const std::string path = copy_to(folder);
  sql(path, kContradiction);
  const std::map<std::string, std::string> before = files_of(folder);
  const Result<std::unique_ptr<Store>> store = read_contradiction(path);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::Corrupt);
  EXPECT_NE(store.error().message.find(path + "-wal"), std::string::npos) << store.error().message;
  EXPECT_NE(store.error().message.find("job 1"), std::string::npos) << store.error().message;
  EXPECT_TRUE(files_of(folder) == before);
}

// A refused one may have a log that holds what was committed last: it stays, too.
TEST_P(Version, WithALogThatIsRefusedStaysAsItWas) {
  const Folder folder;
  const std::string path = copy_to(folder);
  sql(path, kContradiction, /*keep_log=*/true);
  const std::map<std::string, std::string> before = files_of(folder);
  ASSERT_FALSE(before.at("store.db-wal").empty());
  ASSERT_FALSE(read_contradiction(path));
  EXPECT_TRUE(files_of(folder) == before);
}

// The disk is full at every possible moment of the way.
TEST_P(Version, FullDiskLeavesTheOldOne) {
  if (GetParam() == store::kSchemaVersion) GTEST_SKIP() << "nothing is written";
  bool came_through = false;
  for (std::int64_t room = 0; !came_through; room += 1'000) {
    const Folder folder;
    const std::string path = copy_to(folder);
    const std::string before = bytes_of(path);
    FaultVfs disk;
    disk.set_room(room);
    {
      const Result<std::unique_ptr<Store>> store = open_sqlite_store(path);
      const Result<void> loaded =
          store ? (*store)->load([](const Row&) { return Result<void>(); }) : store.error();
      came_through = bool(loaded);
      if (!came_through) {
        EXPECT_NE(loaded.error().message.find(path), std::string::npos) << loaded.error().message;
        EXPECT_TRUE(bytes_of(path) == before) << "room " << room;
      }
    }
    disk.set_room(std::numeric_limits<std::int64_t>::max());
    const std::unique_ptr<Store> store = must_open(path);
    EXPECT_EQ(listed(jobs_of(*store)), bytes_of(data(name() + ".jobs"))) << "room " << room;
    ASSERT_LT(room, 1'000'000);
  }
}

// A disk that is full, or may not be written, is no damage.
TEST_P(Version, CheckedOnAFullDiskIsNotCalledDamaged) {
  for (const std::int64_t room : {0, 5'000, 50'000}) {
    const Folder folder;
    const std::string path = copy_to(folder);
    const std::map<std::string, std::string> before = files_of(folder);
    FaultVfs disk;
    disk.set_room(room);
    const Result<store::CheckReport> report =
        store::check(path, [](const Row&) { return Result<void>(); });
    EXPECT_TRUE(!report || report->problems.empty()) << report->problems.front();
    EXPECT_TRUE(report || report.error().kind != ErrorKind::Corrupt) << report.error().message;
    disk.set_room(std::numeric_limits<std::int64_t>::max());
    EXPECT_TRUE(files_of(folder) == before);
  }
}

// Power fails right after it, with every choice of what reached the disk: both versions are whole.
TEST_P(Version, PowerCutLeavesTheOldOneOrTheNewOne) {
  std::mt19937 random(3);
  for (int cut = 0; cut < 10; ++cut) {
    const Folder folder;
    const std::string path = copy_to(folder);
    FaultVfs disk;
    const std::unique_ptr<Store> store = must_open(path);
    (void)rows_of(*store);
    const Folder after;
    disk.cut_power(folder.path(), after.path(), random);
    const std::unique_ptr<Store> survivor = must_open(after / "store.db");
    EXPECT_EQ(listed(jobs_of(*survivor)), bytes_of(data(name() + ".jobs")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Version, testing::Range(1, store::kSchemaVersion + 1),
                         [](const auto& version) { return fmt::format("v{}", version.param); });

TEST(VersionTest, EveryVersionHasItsStore) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data(""))) {
    if (entry.path().extension() == ".db") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> expected;
  for (int v = 1; v <= store::kSchemaVersion; ++v) expected.push_back(fmt::format("v{}.db", v));
  EXPECT_EQ(names, expected);
}

TEST(VersionTest, ANewStoreIsAsAMigratedOne) {
  const Folder folder;
  const auto schema_of = [](const std::string& path) {
    std::string all;
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    const char* text = "SELECT name, sql FROM sqlite_schema ORDER BY name";
    EXPECT_EQ(sqlite3_prepare_v2(db, text, -1, &statement, nullptr), SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
      for (int i = 0; i < 2; ++i) {
        const auto* column = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
        all += column == nullptr ? "-" : column;
      }
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return all;
  };
  write_bytes(folder / "old.db", bytes_of(data("v1.db")));
  (void)rows_of(*must_open(folder / "old.db"));
  (void)rows_of(*must_open(folder / "new.db"));
  EXPECT_EQ(schema_of(folder / "old.db"), schema_of(folder / "new.db"));
}

}  // namespace
}  // namespace pergpu
