// Folding the oldest events: what stays, what a fault in the middle leaves, and that the store does
// it by itself.  That the jobs stay the same is in replay_property_test.cc.
#include "store/compaction.h"

#include <gtest/gtest.h>

#include <limits>

#include "store/fault_vfs.h"
#include "store/harness.h"
#include "store/replay.h"
#include "store/schema.h"

namespace pergpu {
namespace {

using namespace testing_store;

row::Event requeued() { return {.job = {1}, .event = event::Requeued{"again"}, .at = {7, 8}}; }

/// 2 * `pairs` events of one job.
Batch ups_and_downs(int pairs) {
  Batch batch;
  for (int i = 0; i < pairs; ++i) {
    batch.push_back(held(std::to_string(i)));
    batch.push_back(requeued());
  }
  return batch;
}

void make_store(const std::string& path, int pairs) {
  const std::unique_ptr<Store> store = must_open(path);
  ASSERT_TRUE(commit(*store, small_sweep()));
  ASSERT_TRUE(commit(*store, ups_and_downs(pairs)));
}

struct Seen {
  int folded = 0;
  int others = 0;
  Job job;
};
Seen look(const std::string& path) {
  const std::unique_ptr<Store> store = must_open(path);
  Seen seen;
  Replay replay;
  for (const Row& row : rows_of(*store)) {
    EXPECT_TRUE(replay.absorb(row));
    if (const auto* e = std::get_if<row::Event>(&row)) {
      const bool is_folded = std::holds_alternative<event::Folded>(*e->event);
      ++(is_folded ? seen.folded : seen.others);
    }
  }
  const Job& job = replay.jobs.at({1});
  seen.job =
      Job{.id = job.id, .state = job.state, .queued_at = job.queued_at, .reason = job.reason};
  return seen;
}

TEST(Compaction, StoreFoldsBesideItsCommitsAndKeepsTheNewest) {
  const Folder folder;
  const Folding often{.begin = 10, .keep = 4, .always = 10, .slice = 3};
  {
    Result<std::unique_ptr<Store>> store = open_sqlite_store(folder / "store.db", often);
    ASSERT_TRUE(store);
    ASSERT_TRUE(commit(**store, small_sweep()));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(commit(**store, ups_and_downs(1)));
  }
  const Seen seen = look(folder / "store.db");
  EXPECT_EQ(seen.folded, 1);
  EXPECT_LT(seen.others, 15);
  EXPECT_GE(seen.others, 4);
  EXPECT_EQ(seen.job.state, JobState::Queued);
  EXPECT_EQ(seen.job.queued_at, (Instant{7, 8}));
}

TEST(Compaction, FewEventsStayAsTheyAre) {
  const Folder folder;
  make_store(folder / "store.db", 50);
  EXPECT_EQ(look(folder / "store.db").others, 100);
  EXPECT_EQ(look(folder / "store.db").folded, 0);
}

TEST(Compaction, ContradictionsAreKeptAsEvidence) {
  const Folder folder;
  const std::string path = folder / "store.db";
  make_store(path, 3);
  Result<store::Database> database = store::open_store_file(path);
  ASSERT_TRUE(database);
  ASSERT_TRUE(database->exec("UPDATE events SET kind = 'started' WHERE seq = 5"));
  Result<store::Compaction> compaction = store::Compaction::prepare(*database);
  ASSERT_TRUE(compaction);
  const Result<std::int64_t> folded = compaction->fold(*database, 6);
  ASSERT_FALSE(folded);
  EXPECT_EQ(folded.error().kind, ErrorKind::Corrupt) << folded.error().message;
  EXPECT_EQ(*compaction->unfolded(), 6);
  EXPECT_TRUE(compaction->fold(*database, 4)) << "what is before it can be folded";
}

// Power is cut after each slice, with every choice of what reached the disk.
TEST(Compaction, PowerCutsLoseNothing) {
  const Folder folder;
  const std::string path = folder / "store.db";
  make_store(path, 30);
  FaultVfs disk;
  std::mt19937 random(5);
  Result<store::Database> database = store::open_store_file(path);
  ASSERT_TRUE(database);
  Result<store::Compaction> compaction = store::Compaction::prepare(*database);
  ASSERT_TRUE(compaction);
  for (int left = 60; left >= 0; left -= 7) {
    const Folder after;
    disk.cut_power(folder.path(), after.path(), random);
    const Seen seen = look(after / "store.db");
    EXPECT_EQ(seen.others, left);
    EXPECT_EQ(seen.folded, left < 60 ? 1 : 0);
    EXPECT_EQ(seen.job.queued_at, (Instant{7, 8}));
    ASSERT_TRUE(compaction->fold(*database, 7));
  }
}

TEST(Compaction, FullDiskLeavesTheEventsAndTheStoreGoesOn) {
  const Folder folder;
  const std::string path = folder / "store.db";
  make_store(path, 30);
  FaultVfs disk;
  {
    Result<store::Database> database = store::open_store_file(path);
    ASSERT_TRUE(database);
    Result<store::Compaction> compaction = store::Compaction::prepare(*database);
    ASSERT_TRUE(compaction);
    disk.set_room(0);
    const Result<std::int64_t> folded = compaction->fold(*database, 7);
    ASSERT_FALSE(folded);
    EXPECT_EQ(folded.error().kind, ErrorKind::Full);
    disk.set_room(std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(*compaction->unfolded(), 60);
    EXPECT_EQ(*compaction->fold(*database, 7), 7);
  }
  EXPECT_EQ(look(path).others, 53);
}

// For tests/data/store/README.md: a committed store should hold folded rows, too.
TEST(Compaction, DISABLED_FoldHalfOfTheNamedStore) {
  const char* path = ::getenv("PERGPU_STORE");
  ASSERT_NE(path, nullptr);
  Result<store::Database> database = store::open_store_file(path);
  ASSERT_TRUE(database) << database.error().message;
  Result<store::Compaction> compaction = store::Compaction::prepare(*database);
  ASSERT_TRUE(compaction);
  EXPECT_TRUE(compaction->fold(*database, *compaction->unfolded() / 2));
  ASSERT_TRUE(store::accept(*database));
}

}  // namespace
}  // namespace pergpu
