// Disks that fill up, syncs that fail, power cuts: what was acknowledged stays, what was not is
// reported, and the store goes on when the fault is over.
#include <gtest/gtest.h>

#include "store/fault_vfs.h"
#include "store/harness.h"

namespace pergpu {
namespace {

using namespace testing_store;

constexpr std::int64_t kPlenty = std::numeric_limits<std::int64_t>::max();

TEST(StoreFault, FullDiskIsReportedAndForgiven) {
  const Folder folder;
  FaultVfs disk;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    ASSERT_TRUE(commit(*store, small_sweep()));
    ASSERT_TRUE(commit(*store, one(held("before"))));
    disk.set_room(0);
    for (int i = 0; i < 3; ++i) {
      const Result<void> refused = commit(*store, one(held("never")));
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().kind, ErrorKind::Full) << refused.error().message;
      EXPECT_NE(refused.error().message.find(folder / "store.db"), std::string::npos);
    }
    disk.set_room(kPlenty);
    EXPECT_TRUE(commit(*store, one(held("after"))));
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_EQ(reasons(*store), (std::vector<std::string>{"before", "after"}));
}

TEST(StoreFault, BatchThatIsTooBigLeavesRoomForSmallOnes) {
  const Folder folder;
  FaultVfs disk;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    ASSERT_TRUE(commit(*store, small_sweep()));
    Batch big;
    for (int i = 0; i < 20'000; ++i) big.push_back(held(std::string(500, 'x')));
    disk.set_room(100'000);
    const Result<void> refused = commit(*store, std::move(big));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Full);
    disk.set_room(50'000);
    EXPECT_TRUE(commit(*store, one(held("small"))));
    disk.set_room(kPlenty);
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_EQ(reasons(*store), std::vector<std::string>{"small"});
}

// The disk runs full after every possible number of bytes: never half a batch, never a lost one.
TEST(StoreFault, RunningFullAtEveryWriteKeepsBatchesWhole) {
  for (std::int64_t room = 0; room < 60'000; room += 4'013) {
    const Folder folder;
    FaultVfs disk;
    std::vector<std::string> expected;
    {
      const std::unique_ptr<Store> store = must_open(folder / "store.db");
      ASSERT_TRUE(commit(*store, small_sweep()));
      disk.set_room(room);
      for (int i = 0; i < 8; ++i) {
        Batch batch;
        for (int k = 0; k < 10; ++k)
          batch.push_back(held(std::to_string(i) + std::string(200, '.')));
        const bool kept = bool(commit(*store, std::move(batch)));
        if (!kept) disk.set_room(kPlenty);
        if (kept) expected.insert(expected.end(), 10, std::to_string(i) + std::string(200, '.'));
      }
      disk.set_room(kPlenty);
    }
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    EXPECT_EQ(reasons(*store), expected) << "room " << room;
  }
}

TEST(StoreFault, FailedSyncIsNoAcknowledgement) {
  const Folder folder;
  FaultVfs disk;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(commit(*store, small_sweep()));
  disk.set_syncs_fail(true);
  const Result<void> refused = commit(*store, one(held("not durable")));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Io) << refused.error().message;
  disk.set_syncs_fail(false);
  EXPECT_TRUE(commit(*store, one(held("durable"))));
}

TEST(StoreFault, StoreThatCannotBeMadeLeavesNothingBehind) {
  const Folder folder;
  FaultVfs disk;
  disk.set_room(2'000);
  const Result<std::unique_ptr<Store>> store = open_sqlite_store(folder / "store.db");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::Full) << store.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Power is cut at many moments, some of them in the middle of a commit: with every choice of what
// of the unsynced writes reached the disk, each acknowledged batch is there, batches are whole and
// none is missing between two others.
TEST(StoreFault, PowerCutLosesNothingAcknowledged) {
  const Folder folder;
  FaultVfs disk;
  std::mt19937 random(1);
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(rows_of(*store).empty());
  ASSERT_TRUE(commit(*store, small_sweep()));
  int appended = 0;
  int acknowledged = 0;
  for (int cut = 0; cut < 60; ++cut) {
    const int more = std::uniform_int_distribution<int>(1, 20)(random);
    for (int i = 0; i < more; ++i) {
      Batch batch;
      for (int k = 0; k < 3; ++k) batch.push_back(held(std::to_string(appended)));
      ++appended;
      store->append(std::move(batch), [&](Result<void> result) {
        ASSERT_TRUE(result);
        ++acknowledged;
      });
    }
    if (cut % 3 == 0) {
      ASSERT_TRUE(drain_next(*store));
    }
    const int promised = acknowledged;
    const Folder after;
    disk.cut_power(folder.path(), after.path(), random);
    const std::unique_ptr<Store> survivor = must_open(after / "store.db");
    const std::vector<std::string> found = reasons(*survivor);
    ASSERT_EQ(found.size() % 3, 0u) << "half a batch";
    ASSERT_GE(found.size() / 3, static_cast<std::size_t>(promised));
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], std::to_string(i / 3));
    ASSERT_TRUE(commit(*survivor, one(held("goes on"))));
  }
  while (acknowledged < appended) ASSERT_TRUE(drain_next(*store));
}

}  // namespace
}  // namespace pergpu
