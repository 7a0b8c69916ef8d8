// Archived sweeps: a start leaves them out, fetch() gives them whole, and whatever is written of
// one takes it out of the archive.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>
#include <optional>

#include "store/harness.h"
#include "store/replay.h"

namespace pergpu {
namespace {

using namespace testing_store;

constexpr SweepId kEnded{1};
constexpr SweepId kOpen{2};
constexpr std::int64_t kJobs = 700;  // of each: more than are read at once

/// Two sweeps, whose jobs take turns; those of the first were all cancelled.
Batch two_sweeps() {
  Batch batch;
  for (const SweepId id : {kEnded, kOpen}) {
    batch.push_back(row::Sweep{.id = id,
                               .root = "/out",
                               .name = id == kEnded ? "ended" : "open",
                               .spec = "{}",
                               .submit = "{}",
                               .at = {id.value, 7}});
    for (std::int32_t run = 0; run < kJobs; ++run) {
      batch.push_back(row::Run{.sweep = id, .index = run, .folder = std::to_string(run)});
    }
  }
  for (std::int64_t i = 0; i < 2 * kJobs; ++i) {
    batch.push_back(row::NewJob{.id = {i + 1},
                                .sweep = i % 2 == 0 ? kEnded : kOpen,
                                .run = static_cast<std::int32_t>(i / 2),
                                .step_name = "train"});
  }
  for (std::int64_t i = 0; i < 2 * kJobs; ++i) {
    batch.push_back(row::Event{{i + 1}, event::Held{"wait"}, {i, i}});
    if (i % 2 == 0) batch.push_back(row::Event{{i + 1}, event::Cancelled{"enough"}, {i, i}});
  }
  return batch;
}

Row archived() {
  return row::Archived{
      .sweep = kEnded, .key = "k", .first_job = {1}, .last_job = {2 * kJobs - 1}, .jobs = kJobs};
}

std::map<JobId, Job> replayed(const std::vector<Row>& rows) {
  Replay replay;
  for (const Row& row : rows) EXPECT_TRUE(replay.absorb(row));
  return std::move(replay.jobs);
}

class Archive : public testing::Test {
 protected:
  void SetUp() override {
    const std::unique_ptr<Store> store = must_open(path);
    ASSERT_TRUE(commit(*store, two_sweeps()));
    ASSERT_TRUE(commit(*store, one(archived())));
  }
  const Folder folder;
  const std::string path = folder / "store.db";
};

TEST_F(Archive, IsLeftOutAndFetchedWhole) {
  const std::unique_ptr<Store> store = must_open(path);
  const std::vector<Row> loaded = rows_of(*store);
  const std::vector<row::Archived> told = only<row::Archived>(loaded);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].sweep, kEnded);
  EXPECT_EQ(told[0].key, "k");
  EXPECT_EQ(told[0].root, "/out");
  EXPECT_EQ(told[0].name, "ended");
  EXPECT_EQ(told[0].at, (Instant{1, 7}));
  EXPECT_EQ(told[0].jobs, kJobs);
  EXPECT_EQ(told[0].last_job, (JobId{2 * kJobs - 1}));
  const auto count = [](const std::vector<Row>& rows) {
    return std::vector{only<row::Sweep>(rows).size(), only<row::Run>(rows).size(),
                       only<row::NewJob>(rows).size(), only<row::Event>(rows).size()};
  };
  EXPECT_EQ(count(loaded), (std::vector<std::size_t>{1, kJobs, kJobs, kJobs}));
  const std::vector<Row> rest = fetched(*store, {kEnded});
  EXPECT_EQ(count(rest), (std::vector<std::size_t>{1, kJobs, kJobs, 2 * kJobs}));
  const std::map<JobId, Job> jobs = replayed(rest);
  for (const auto& [id, job] : jobs) {
    EXPECT_EQ(job.sweep, kEnded);
    EXPECT_EQ(job.state, JobState::Cancelled) << id.value;
  }
  // Nothing was changed by it.
  EXPECT_EQ(count(fetched(*store, {kEnded})), count(rest));
}

using Writing = std::pair<const char*, Row>;
class ArchiveOpened : public Archive, public testing::WithParamInterface<Writing> {};

TEST_P(ArchiveOpened, ByWhateverIsWrittenOfIt) {
  {
    const std::unique_ptr<Store> store = must_open(path);
    (void)rows_of(*store);
    ASSERT_TRUE(commit(*store, one(GetParam().second)));
  }
  const std::unique_ptr<Store> store = must_open(path);
  const std::vector<Row> rows = rows_of(*store);
  EXPECT_TRUE(only<row::Archived>(rows).empty());
  EXPECT_EQ(only<row::Sweep>(rows).size(), 2u);
  EXPECT_GE(only<row::NewJob>(rows).size(), static_cast<std::size_t>(2 * kJobs));
}
INSTANTIATE_TEST_SUITE_P(
    Of, ArchiveOpened,
    testing::Values(Writing{"Sweep", row::Sweep{.id = kEnded, .name = "ended", .spec = "{}"}},
                    Writing{"Run", row::Run{.sweep = kEnded, .index = kJobs}},
                    Writing{"Job", row::NewJob{.id = {2 * kJobs + 1}, .sweep = kEnded}},
                    Writing{"Event", row::Event{{1}, event::Requeued{"again"}, {}}}),
    [](const auto& writing) { return writing.param.first; });

TEST_F(Archive, IsOpenedByWhatFollowsItInABatch) {
  {
    const std::unique_ptr<Store> store = must_open(path);
    (void)rows_of(*store);
    ASSERT_TRUE(commit(*store, {row::Run{.sweep = kEnded, .index = kJobs}, archived(),
                                row::Run{.sweep = kEnded, .index = kJobs + 1}}));
  }
  const std::unique_ptr<Store> store = must_open(path);
  EXPECT_TRUE(only<row::Archived>(rows_of(*store)).empty());
}

TEST_F(Archive, OtherSweepsDoNotOpenIt) {
  {
    const std::unique_ptr<Store> store = must_open(path);
    (void)rows_of(*store);
    ASSERT_TRUE(commit(*store, one(row::Event{{2}, event::Cancelled{"enough"}, {}})));
  }
  const std::unique_ptr<Store> store = must_open(path);
  EXPECT_EQ(only<row::Archived>(rows_of(*store)).size(), 1u);
}

TEST_F(Archive, IsFetchedWholeWhileEventsAreFoldedAndCommitted) {
  constexpr Folding kEager{.begin = 2, .keep = 1, .always = 2, .slice = 3};
  Result<std::unique_ptr<Store>> opened = open_sqlite_store(path, kEager);
  ASSERT_TRUE(opened);
  Store& store = **opened;
  (void)rows_of(store);
  for (int round = 0; round < 20; ++round) {
    // Each commit folds a slice, before and after the fetch.
    store.append(one(row::Event{{2}, event::Requeued{}, {}}),
                 [](const Result<void>& stored) { EXPECT_TRUE(stored); });
    const std::map<JobId, Job> jobs = replayed(fetched(store, {kEnded}));
    ASSERT_EQ(jobs.size(), static_cast<std::size_t>(kJobs));
    for (const auto& [id, job] : jobs) {
      ASSERT_EQ(job.state, JobState::Cancelled) << id.value;
      ASSERT_EQ(job.reason, "enough") << id.value;
    }
    ASSERT_TRUE(commit(store, one(row::Event{{2}, event::Held{"wait"}, {}})));
  }
}

TEST_F(Archive, ThatIsDamagedIsToldAndHoldsNothingUp) {
  {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    const char* damage = "UPDATE events SET kind = 'exploded' WHERE job = 5";
    ASSERT_EQ(sqlite3_exec(db, damage, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  }
  const std::unique_ptr<Store> store = must_open(path);
  EXPECT_EQ(only<row::NewJob>(rows_of(*store)).size(), static_cast<std::size_t>(kJobs));
  std::optional<Result<void>> verdict;
  store->fetch(
      {kEnded}, [](const Row&) { return Result<void>(); },
      [&](Result<void> result) { verdict = std::move(result); });
  while (!verdict && drain_next(*store)) {
  }
  ASSERT_TRUE(verdict && !*verdict);
  EXPECT_EQ(verdict->error().kind, ErrorKind::Corrupt);
  EXPECT_NE(verdict->error().message.find("job 5"), std::string::npos) << verdict->error().message;
  EXPECT_NE(verdict->error().message.find(path), std::string::npos) << verdict->error().message;
  EXPECT_TRUE(commit(*store, one(row::Event{{2}, event::Requeued{}, {}})));
}

TEST_F(Archive, WhatTheVisitorRefusesEndsTheFetch) {
  const std::unique_ptr<Store> store = must_open(path);
  (void)rows_of(*store);
  int visited = 0;
  std::optional<Result<void>> verdict;
  store->fetch(
      {kEnded},
      [&](const Row&) -> Result<void> {
        ++visited;
        return Error{ErrorKind::Corrupt, 0, "I do not want it"};
      },
      [&](Result<void> result) { verdict = std::move(result); });
  while (!verdict && drain_next(*store)) {
  }
  ASSERT_TRUE(verdict && !*verdict);
  EXPECT_EQ(visited, 1);
}

}  // namespace
}  // namespace pergpu
