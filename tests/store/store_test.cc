// What the store promises while nothing fails: everything comes back, batches are atomic,
// completions come in order.
#include "store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "store/harness.h"

namespace pergpu {
namespace {

using namespace testing_store;

TEST(Store, EveryKindOfRowComesBackInReplayOrder) {
  const Folder folder;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    Batch batch;
    batch.push_back(row::Meta{"boot_id", "abc"});
    batch.push_back(row::Limit{"db", 2});
    batch.push_back(row::Sweep{.id = {4},
                               .root = "/o",
                               .name = "thirteen",
                               .spec = R"({"steps":[]})",
                               .submit = R"({"cwd":"/x"})",
                               .at = {1, 2}});
    batch.push_back(row::Run{.sweep = {4}, .index = 1, .folder = "01", .json = R"({"a":1})"});
    batch.push_back(
        row::Run{.sweep = {4}, .index = 0, .folder = "00", .json = "{}", .texts = R"({"a":"1"})"});
    batch.push_back(row::NewJob{.id = {9},
                                .sweep = {4},
                                .run = 1,
                                .step = 2,
                                .step_name = "train",
                                .identity = {1, 2, 3, 255},
                                .replaces = {8},
                                .at = {3, 4}});
    batch.push_back(row::NewJob{.id = {10}, .sweep = {4}, .run = -1, .step_name = "once"});
    batch.push_back(row::Event{.job = {10}, .event = event::Held{"x"}, .at = {5, 6}});
    batch.push_back(row::Event{.job = {9}, .event = event::Held{"y"}, .at = {7, 8}});
    ASSERT_TRUE(commit(*store, std::move(batch)));
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  const std::vector<Row> rows = rows_of(*store);
  std::vector<std::size_t> kinds;
  for (const Row& row : rows) kinds.push_back(row.index());
  const auto at = [](const Row& row) { return row.index(); };
  EXPECT_EQ(kinds,
            (std::vector<std::size_t>{at(row::Meta{}), at(row::Limit{}), at(row::Sweep{}),
                                      at(row::Run{}), at(row::Run{}), at(row::NewJob{}),
                                      at(row::NewJob{}), at(row::Event{}), at(row::Event{})}));
  EXPECT_EQ(only<row::Meta>(rows)[0].value, "abc");
  EXPECT_EQ(only<row::Limit>(rows)[0].value, 2);
  const row::Sweep sweep = only<row::Sweep>(rows)[0];
  EXPECT_EQ(sweep.name, "thirteen");
  EXPECT_EQ(sweep.root, "/o");
  EXPECT_EQ(sweep.spec, R"({"steps":[]})");
  EXPECT_EQ(sweep.submit, R"({"cwd":"/x"})");
  EXPECT_EQ(sweep.at, (Instant{1, 2}));
  const row::Run run = only<row::Run>(rows)[0];
  EXPECT_EQ(run.index, 0);
  EXPECT_EQ(run.folder, "00");
  EXPECT_EQ(run.texts, R"({"a":"1"})");
  const row::NewJob job = only<row::NewJob>(rows)[0];
  EXPECT_EQ(job.id, JobId{9});
  EXPECT_EQ(job.run, 1);
  EXPECT_EQ(job.step, 2);
  EXPECT_EQ(job.identity, (JobIdentity{1, 2, 3, 255}));
  EXPECT_EQ(job.replaces, JobId{8});
  EXPECT_EQ(job.at, (Instant{3, 4}));
  EXPECT_EQ(only<row::NewJob>(rows)[1].run, -1);
  const std::vector<row::Event> events = only<row::Event>(rows);
  EXPECT_EQ(events[0].job, JobId{10});
  EXPECT_EQ(*events[1].event, JobEvent(event::Held{"y"}));
  EXPECT_EQ(events[1].at, (Instant{7, 8}));
}

/// Rows `begin` to `end` of a sweep: runs, then a job of each.
Batch runs_and_jobs(std::int64_t sweep, std::int32_t begin, std::int32_t end) {
  Batch batch;
  for (std::int32_t i = begin; i < end; ++i) {
    batch.push_back(row::Run{.sweep = {sweep},
                             .index = i,
                             .folder = "run" + std::to_string(i),
                             .json = R"({"i":)" + std::to_string(i) + "}",
                             .texts = std::to_string(-i)});
  }
  for (std::int32_t i = begin; i < end; ++i) {
    batch.push_back(row::NewJob{.id = {sweep * 1000 + i},
                                .sweep = {sweep},
                                .run = i,
                                .step = static_cast<std::int16_t>(i % 3),
                                .step_name = "step" + std::to_string(i % 3),
                                .identity = {static_cast<std::uint8_t>(i), 7},
                                .replaces = {i},
                                .at = {i, i + 1}});
  }
  return batch;
}

TEST(Store, ManyRowsComeBackAsTheyWereWhereverTheyBeginAndEnd) {
  const Folder folder;
  std::vector<std::int32_t> known(3, 0);
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    Batch batch;
    for (std::int64_t sweep : {1, 2}) {
      batch.push_back(row::Sweep{.id = {sweep}, .name = std::to_string(sweep), .spec = "{}"});
    }
    // Of two sweeps without a row of another kind between them, and again in a later batch.
    for (const std::int32_t more : {1, 31, 32, 33, 95, 200}) {
      for (const std::int64_t sweep : {1, 2}) {
        std::int32_t& begin = known[static_cast<std::size_t>(sweep)];
        Batch rows = runs_and_jobs(sweep, begin, begin + more);
        std::ranges::move(rows, std::back_inserter(batch));
        begin += more;
      }
      ASSERT_TRUE(commit(*store, std::exchange(batch, {})));
    }
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  const std::vector<Row> rows = rows_of(*store);
  const std::vector<row::Run> runs = only<row::Run>(rows);
  const std::vector<row::NewJob> jobs = only<row::NewJob>(rows);
  std::vector<row::Run> runs_meant;
  std::vector<row::NewJob> jobs_meant;
  for (const std::int64_t sweep : {1, 2}) {
    for (const Row& row : runs_and_jobs(sweep, 0, known[static_cast<std::size_t>(sweep)])) {
      if (const row::Run* run = std::get_if<row::Run>(&row)) runs_meant.push_back(*run);
      if (const row::NewJob* job = std::get_if<row::NewJob>(&row)) jobs_meant.push_back(*job);
    }
  }
  ASSERT_EQ(runs.size(), runs_meant.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].sweep, runs_meant[i].sweep);
    EXPECT_EQ(runs[i].index, runs_meant[i].index);
    EXPECT_EQ(runs[i].folder, runs_meant[i].folder);
    EXPECT_EQ(runs[i].json, runs_meant[i].json);
    EXPECT_EQ(runs[i].texts, runs_meant[i].texts);
  }
  ASSERT_EQ(jobs.size(), jobs_meant.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i].id, jobs_meant[i].id);
    EXPECT_EQ(jobs[i].sweep, jobs_meant[i].sweep);
    EXPECT_EQ(jobs[i].run, jobs_meant[i].run);
    EXPECT_EQ(jobs[i].step, jobs_meant[i].step);
    EXPECT_EQ(jobs[i].step_name, jobs_meant[i].step_name);
    EXPECT_EQ(jobs[i].identity, jobs_meant[i].identity);
    EXPECT_EQ(jobs[i].replaces, jobs_meant[i].replaces);
    EXPECT_EQ(jobs[i].at, jobs_meant[i].at);
  }
}

TEST(Store, OneOfManyRowsThatCannotBeLeavesNothingBehind) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  Batch batch = runs_and_jobs(1, 0, 100);
  batch.insert(batch.begin(), row::Sweep{.id = {1}, .name = "s", .spec = "{}"});
  std::get<row::NewJob>(batch[1 + 100 + 70]).id = {1000};  // that of the first job
  const Result<void> stored = commit(*store, std::move(batch));
  ASSERT_FALSE(stored);
  EXPECT_NE(stored.error().message.find("writing job 1064 and the 31 after"), std::string::npos)
      << stored.error().message;
  EXPECT_TRUE(rows_of(*store).empty());
}

TEST(Store, FactsAreReplacedAndWhatRefersToThemStays) {
  const Folder folder;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    ASSERT_TRUE(commit(*store, small_sweep()));
    Batch batch;
    batch.push_back(row::Sweep{.id = {1}, .root = "/out", .name = "s", .spec = "new"});
    batch.push_back(row::Limit{"db", 1});
    batch.push_back(row::Limit{"db", 7});
    batch.push_back(row::Meta{"k", "1"});
    batch.push_back(row::Meta{"k", "2"});
    const Result<void> replaced = commit(*store, std::move(batch));
    ASSERT_TRUE(replaced) << replaced.error().message;
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  const std::vector<Row> rows = rows_of(*store);
  ASSERT_EQ(only<row::Sweep>(rows).size(), 1u);
  EXPECT_EQ(only<row::Sweep>(rows)[0].spec, "new");
  EXPECT_EQ(only<row::Limit>(rows)[0].value, 7);
  EXPECT_EQ(only<row::Meta>(rows)[0].value, "2");
  EXPECT_EQ(only<row::NewJob>(rows).size(), 1u);
}

TEST(Store, CompletionsComeInOrderOfAppend) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(commit(*store, small_sweep()));
  std::vector<int> order;
  constexpr int kBatches = 500;
  for (int i = 0; i < kBatches; ++i) {
    store->append(one(held(std::to_string(i))), [&order, i](Result<void> result) {
      EXPECT_TRUE(result);
      order.push_back(i);
    });
  }
  while (order.size() < kBatches) ASSERT_TRUE(drain_next(*store));
  for (int i = 0; i < kBatches; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(Store, CallbacksMayAppend) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  ASSERT_TRUE(commit(*store, small_sweep()));
  bool second_done = false;
  store->append(one(held("first")), [&](Result<void>) {
    store->append(one(held("second")), [&](Result<void> result) { second_done = bool(result); });
  });
  while (!second_done) ASSERT_TRUE(drain_next(*store));
}

TEST(Store, NoCompletionWithoutDrain) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  bool called = false;
  store->append(small_sweep(), [&](Result<void>) { called = true; });
  pollfd readable{.fd = store->completion_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&readable, 1, 30'000), 1);
  EXPECT_FALSE(called);
  store->drain();
  EXPECT_TRUE(called);
  EXPECT_EQ(::poll(&readable, 1, 0), 0) << "drain() empties the descriptor";
}

TEST(Store, ClosingCommitsWhatWasAppended) {
  const Folder folder;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    store->append(small_sweep(), {});
    for (int i = 0; i < 100; ++i) store->append(one(held("x")), {});
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_EQ(reasons(*store).size(), 100u);
}

TEST(Store, WrongBatchLeavesNothingBehindAndSaysWhat) {
  const Folder folder;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    ASSERT_TRUE(commit(*store, small_sweep()));
    Batch batch = one(held("never seen"));
    batch.push_back(row::Event{.job = {99}, .event = event::Held{}});
    const Result<void> refused = commit(*store, std::move(batch));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Invalid);
    EXPECT_NE(refused.error().message.find("job 99"), std::string::npos) << refused.error().message;
    EXPECT_TRUE(commit(*store, one(held("later"))));
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_EQ(reasons(*store), std::vector<std::string>{"later"});
}

// The journal has no holes: what was appended after a failed batch, not knowing of it, fails too,
// and all of it is delivered at once, so that the caller can append it again in order.
TEST(Store, WhatFollowsAFailedBatchFailsWithIt) {
  const Folder folder;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    ASSERT_TRUE(commit(*store, small_sweep()));
    std::vector<std::string> log;
    const auto note = [&](const std::string& name) {
      return [&log, name](Result<void> result) { log.push_back((result ? "+" : "-") + name); };
    };
    store->append(one(held("before")), note("before"));
    store->append(one(row::Event{.job = {99}, .event = event::Held{}}), note("wrong"));
    for (int i = 0; i < 50; ++i) store->append(one(held("behind")), note("behind"));
    while (log.size() < 2) ASSERT_TRUE(drain_next(*store));
    ASSERT_EQ(log.size(), 52u);
    EXPECT_EQ(log[0], "+before");
    EXPECT_EQ(log[1], "-wrong");
    for (std::size_t i = 2; i < log.size(); ++i) EXPECT_EQ(log[i], "-behind");
    EXPECT_TRUE(commit(*store, one(held("after"))));
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_EQ(reasons(*store), (std::vector<std::string>{"before", "after"}));
}

TEST(Store, EnvironmentLiesInItsOwnFileOnly) {
  const Folder folder;
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    Batch batch = small_sweep();
    batch.push_back(row::Environment{{1}, {"TOKEN=s3cret\nvalue", "PATH=/bin"}});
    ASSERT_TRUE(commit(*store, std::move(batch)));
  }
  const std::string file = folder / "env/1";
  EXPECT_EQ(bytes_of(file), std::string("TOKEN=s3cret\nvalue\0PATH=/bin\0", 29));
  struct stat info = {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((folder / "env").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(bytes_of(folder / "store.db").find("s3cret"), std::string::npos);
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_TRUE(only<row::Environment>(rows_of(*store)).empty());
  ASSERT_TRUE(commit(*store, one(row::Environment{{1}, {}})));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Store, EnvironmentStaysWhenItsRemovalIsNotRemembered) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  Batch batch = small_sweep();
  batch.push_back(row::Environment{{1}, {"A=1"}});
  ASSERT_TRUE(commit(*store, std::move(batch)));
  Batch wrong = one(row::Environment{{1}, {}});
  wrong.push_back(row::Event{.job = {99}, .event = event::Held{}});
  EXPECT_FALSE(commit(*store, std::move(wrong)));
  EXPECT_TRUE(std::filesystem::exists(folder / "env/1"));
}

TEST(Store, EnvironmentOfASubmitRightAfterTheLastEndStays) {
  const Folder folder;
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  Batch batch = small_sweep();
  batch.push_back(row::Environment{{1}, {}});  // one transaction, as two batches of one group are
  batch.push_back(row::Environment{{1}, {"A=1"}});
  ASSERT_TRUE(commit(*store, std::move(batch)));
  EXPECT_TRUE(std::filesystem::exists(folder / "env/1"));
}

TEST(Store, EnvironmentThatCannotBeWrittenFailsItsBatch) {
  const Folder folder;
  write_bytes(folder / "env", "a file where the folder should be");
  {
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    Batch batch = small_sweep();
    batch.push_back(row::Environment{{1}, {"A=1"}});
    EXPECT_FALSE(commit(*store, std::move(batch)));
  }
  const std::unique_ptr<Store> store = must_open(folder / "store.db");
  EXPECT_TRUE(rows_of(*store).empty());
}

}  // namespace
}  // namespace pergpu
