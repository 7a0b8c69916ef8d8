// Sweeps that rest: after a restart they are not in memory, and nobody notices.
#include <limits>
#include <map>
#include <random>
#include <set>

#include "simulation.h"
#include "state/selector.h"

namespace pergpu::testing {
namespace {

SweepSpec plain(const std::string& name, int runs, const std::string& exit = "0") {
  SweepSpec sweep = sweep_of(name, runs);
  sweep.steps.push_back(step_of("train", "1s", exit));
  return sweep;
}

struct ArchiveTest : ::testing::Test {
  MemoryStore store;
  SimClock clock;

  /// Sweeps 1 ("first", jobs 1 to 3), 2 ("second", 4 to 5) have ended, 3 ("third", 6 to 7) has a
  /// held job.
  void live_once() {
    Simulation sim(store, clock);
    ASSERT_TRUE(sim.submit(plain("first", 3, "{x}"), {.key = "key 1"}));
    ++clock.ns;
    ASSERT_TRUE(sim.submit(plain("second", 2), {.key = "key 2"}));
    sim.run();
    ++clock.ns;
    ASSERT_TRUE(sim.submit(plain("third", 2), {.lanes = 1}));
    sim.core->interrupt({3}, 1);
    sim.run();
  }
  static std::vector<std::int64_t> ids(const std::vector<SweepId>& sweeps) {
    std::vector<std::int64_t> out;
    for (const SweepId id : sweeps) out.push_back(id.value);
    return out;
  }
  static Result<void> fetch(Simulation& sim, std::vector<SweepId> sweeps) {
    std::optional<Result<void>> answer;
    sim.core->fetch(std::move(sweeps), [&](Result<void> r) { answer = std::move(r); });
    sim.turn();
    return answer ? *answer : Error{ErrorKind::Unavailable, 0, "no answer"};
  }
};
using Ids = std::vector<std::int64_t>;

TEST_F(ArchiveTest, OnlyWhatIsOpenIsReadAgain) {
  live_once();
  Simulation after(store, clock);
  EXPECT_EQ(after.world.jobs().size(), 2u);
  EXPECT_EQ(after.world.sweeps().size(), 1u);
  EXPECT_EQ(after.world.archived().size(), 2u);
  EXPECT_EQ(after.world.next_job_id(), JobId{8});
  EXPECT_EQ(after.world.next_sweep_id(), SweepId{4});
  ASSERT_TRUE(fetch(after, {{1}, {2}}));
  EXPECT_TRUE(after.world.archived().empty());
  EXPECT_EQ(after.job(1).state, JobState::Done);
  EXPECT_EQ(after.job(3).state, JobState::Failed);
  EXPECT_EQ(after.job(5).state, JobState::Done);
  EXPECT_TRUE(after.world.check_whole());
  // What was only read rests again.
  Simulation again(store, clock);
  EXPECT_EQ(again.world.archived().size(), 2u);
}

TEST_F(ArchiveTest, TheLastEndAndItsRestAreOneTransaction) {
  live_once();
  std::map<std::int64_t, int> archived_in;  // batches, by sweep
  std::map<std::int64_t, int> ended_in;     // by job
  for (std::size_t i = 0; i < store.rows.size(); ++i) {
    if (const auto* archived = std::get_if<row::Archived>(&store.rows[i])) {
      archived_in[archived->sweep.value] = store.batch_of[i];
    }
    const auto* event = std::get_if<row::Event>(&store.rows[i]);
    if (event != nullptr && std::holds_alternative<event::Ended>(*event->event)) {
      ended_in[event->job.value] = store.batch_of[i];
    }
  }
  EXPECT_EQ(archived_in.at(1), std::max({ended_in.at(1), ended_in.at(2), ended_in.at(3)}));
  EXPECT_EQ(archived_in.at(2), std::max(ended_in.at(4), ended_in.at(5)));
}

TEST_F(ArchiveTest, AnOlderStoreIsArchivedAtTheNextStart) {
  live_once();
  std::erase_if(store.rows,
                [](const Row& row) { return std::holds_alternative<row::Archived>(row); });
  store.archive = {};
  for (const Row& row : store.rows) store.archive.take(row);
  {
    Simulation after(store, clock);
    EXPECT_EQ(after.world.jobs().size(), 7u);
  }
  Simulation again(store, clock);
  EXPECT_EQ(again.world.jobs().size(), 2u);
}

TEST_F(ArchiveTest, SelectorsTellWhatHasToBeFetched) {
  live_once();
  Simulation after(store, clock);
  const auto named = [&](const std::string& selector) {
    return ids(archived_by(after.world, {selector}));
  };
  EXPECT_EQ(named("1"), (Ids{1}));
  EXPECT_EQ(named("3.1"), (Ids{1}));
  EXPECT_EQ(named("5"), (Ids{2}));
  EXPECT_EQ(named("6"), (Ids{}));
  EXPECT_EQ(named("8"), (Ids{}));
  EXPECT_EQ(named("first"), (Ids{1}));
  EXPECT_EQ(named("second/0"), (Ids{2}));
  EXPECT_EQ(named("*/*/train"), (Ids{1, 2}));
  EXPECT_EQ(named("third"), (Ids{}));
  EXPECT_EQ(named("@"), (Ids{}));  // the third
  EXPECT_EQ(named("@2"), (Ids{2}));
  EXPECT_EQ(named("@3/1"), (Ids{1}));
  EXPECT_EQ(named("@4"), (Ids{}));
  EXPECT_EQ(named("@0"), (Ids{}));
  EXPECT_EQ(named("nothing"), (Ids{}));
  EXPECT_EQ(ids(archived_by(after.world, {"2", "first", "4", "1", "6", "@2", "*"})), (Ids{1, 2}));
  EXPECT_FALSE(select_jobs(after.world, "@2"));
  ASSERT_TRUE(fetch(after, {{2}}));
  const Result<Selection> found = select_jobs(after.world, "@2");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->jobs, (std::vector<JobId>{{4}, {5}}));
}

TEST_F(ArchiveTest, SubmittedAgainItKeepsWhatIsDone) {
  live_once();
  Simulation after(store, clock);
  const Result<SubmitReply> reply = after.submit(plain("first", 4, "{x}"));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->sweep_id, 1);
  EXPECT_EQ(reply->kept, 1);
  EXPECT_EQ(reply->requeued, 2);
  EXPECT_EQ(reply->fresh, 1);
  after.run();
  EXPECT_EQ(after.job(2).attempts, 2);
  EXPECT_EQ(after.job(8).state, JobState::Failed);
  EXPECT_TRUE(after.core->idle());
}

TEST_F(ArchiveTest, SubmittedAgainWithNothingToDoItRestsAgain) {
  live_once();
  {
    Simulation after(store, clock);
    const Result<SubmitReply> reply = after.submit(plain("second", 2));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->kept, 2);
  }
  Simulation again(store, clock);
  EXPECT_EQ(again.world.archived().size(), 2u);
}

TEST_F(ArchiveTest, TheSameRequestAgainGetsTheSameAnswer) {
  live_once();
  Simulation after(store, clock);
  const Result<SubmitReply> reply = after.submit(plain("second", 2), {.key = "key 2"});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->sweep_id, 2);
  EXPECT_EQ(reply->jobs, (Ids{4, 5}));
  EXPECT_EQ(reply->fresh, 0);
}

TEST_F(ArchiveTest, ItsNameIsStillTaken) {
  live_once();
  Simulation after(store, clock);
  const Result<SubmitReply> reply = after.submit(plain("second", 2), {.unique_name = true});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->sweep, "second-2");
  EXPECT_EQ(reply->sweep_id, 4);
  EXPECT_EQ(after.world.archived().size(), 2u);
}

TEST_F(ArchiveTest, RetriedItRunsAndRestsAgain) {
  live_once();
  Simulation after(store, clock);
  ASSERT_TRUE(fetch(after, {{1}}));
  EXPECT_TRUE(store.archive.contains({1}));
  EXPECT_EQ(after.core->retry({JobId{3}}).changed, (Ids{3}));
  after.turn();
  EXPECT_FALSE(store.archive.contains({1}));
  after.run();
  EXPECT_EQ(after.job(3).attempts, 2);
  EXPECT_TRUE(store.archive.contains({1}));
}

TEST_F(ArchiveTest, AnEndThatItsKeeperTellsAgainBringsItBack) {
  live_once();
  Simulation after(store, clock);
  engine_event::Exited exited;
  exited.id = {JobId{2}, 1};
  exited.exit_code = 1;
  after.core->on_engine(exited);
  EXPECT_EQ(after.world.job({2}), nullptr);
  after.turn();
  EXPECT_EQ(after.job(2).state, JobState::Failed);
  EXPECT_EQ(after.job(2).attempts, 1);
}

TEST_F(ArchiveTest, AskedForByManyItIsReadOnce) {
  live_once();
  Simulation after(store, clock);
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    after.core->fetch({{2}, {1}, {2}}, [&, i](const Result<void>& there) {
      EXPECT_TRUE(there);
      order.push_back(i);
    });
  }
  EXPECT_TRUE(order.empty());
  EXPECT_FALSE(after.core->idle());
  after.turn();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(store.fetches_made, 1);
  bool at_once = false;
  after.core->fetch({{2}}, [&](const Result<void>& there) { at_once = bool(there); });
  EXPECT_TRUE(at_once);
}

TEST_F(ArchiveTest, WhatCannotBeReadIsSaidAndChangesNothing) {
  live_once();
  Simulation after(store, clock);
  store.archive_is_damaged = true;
  const Result<void> there = fetch(after, {{1}});
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().kind, ErrorKind::Corrupt);
  const Result<SubmitReply> reply = after.submit(plain("first", 3));
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().message.find("damaged"), std::string::npos);
  EXPECT_EQ(after.world.archived().size(), 2u);
  // Others go on.
  ASSERT_TRUE(after.submit(plain("fourth", 1)));
  store.archive_is_damaged = false;
  ASSERT_TRUE(fetch(after, {{1}}));
  EXPECT_EQ(after.job(1).state, JobState::Done);
}

TEST_F(ArchiveTest, WhatIsGoneFromTheStoreIsSaid) {
  live_once();
  Simulation after(store, clock);
  store.rows.clear();
  const Result<void> there = fetch(after, {{1}});
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().kind, ErrorKind::Corrupt);
  EXPECT_FALSE(after.submit(plain("first", 3)));
}

TEST(WorldTest, AMissingJobIsDamage) {
  World world;
  ASSERT_TRUE(world.absorb(row::Archived{
      .sweep = {1}, .first_job = {1}, .last_job = {4}, .jobs = 3, .root = "/r", .name = "n"}));
  const Result<void> whole = world.check_whole();
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().kind, ErrorKind::Corrupt);
}

TEST(WorldTest, AnImpossibleNumberAsksForNoMemory) {
  World world;
  const auto number = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(world.absorb(row::Archived{.sweep = {1}, .last_job = {number}, .jobs = 1}));
  ASSERT_TRUE(world.absorb(row::Sweep{.id = {1}, .name = "s", .spec = "{}", .submit = "{}"}));
  EXPECT_FALSE(world.absorb(row::NewJob{.id = {number}, .sweep = {1}, .step_name = "train"}));
}

TEST(WorldTest, WhatWasArchivedDifferentlyIsNotTaken) {
  for (const row::Archived& wrong :
       {row::Archived{.sweep = {1}, .first_job = {1}, .last_job = {1}, .jobs = 2},
        row::Archived{.sweep = {1}, .first_job = {2}, .last_job = {2}, .jobs = 2},
        row::Archived{.sweep = {1}, .first_job = {1}, .last_job = {2}, .jobs = 1}}) {
    World world;
    ASSERT_TRUE(world.absorb(wrong));
    World part;
    ASSERT_TRUE(part.absorb(row::Sweep{.id = {1}, .name = "s", .spec = "{}", .submit = "{}"}));
    for (const JobId id : {JobId{1}, JobId{2}}) {
      ASSERT_TRUE(part.absorb(row::NewJob{.id = id, .sweep = {1}, .step_name = "train"}));
      ASSERT_TRUE(part.absorb(row::Event{id, event::Held{"wait"}, {}}));
      ASSERT_TRUE(part.absorb(row::Event{id, event::Cancelled{"enough"}, {}}));
    }
    EXPECT_FALSE(world.adopt({{1}}, std::move(part)));
    EXPECT_EQ(world.archived().size(), 1u);
    EXPECT_EQ(world.jobs().size(), 0u);
  }
}

TEST(JobRangesTest, FindsEveryRangeAroundANumber) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
  };
  for (int round = 0; round < 200; ++round) {
    JobRanges ranges;
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (std::int64_t i = below(20); i >= 0; --i) {
      const std::int64_t first = below(40);
      all.emplace_back(first, first + below(20) - 1);  // empty ones, too
      ranges.add({static_cast<std::int64_t>(all.size())}, {first}, {all.back().second});
    }
    for (std::int64_t job = 0; job < 65; ++job) {
      std::set<std::int64_t> expected;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const bool is_in = all[i].first <= job && job <= all[i].second;
        if (is_in) expected.insert(static_cast<std::int64_t>(i) + 1);
      }
      std::set<std::int64_t> found;
      for (const SweepId sweep : ranges.around({job})) found.insert(sweep.value);
      EXPECT_EQ(found, expected) << job;
    }
  }
}

TEST(JobTableTest, KeepsJobsByTheirNumbers) {
  JobTable table;
  EXPECT_EQ(table.find({1}), nullptr);
  const std::vector<std::int64_t> numbers{3, 256, 257, 1'000'000};
  for (const std::int64_t number : numbers) table.insert({number});
  const Job* const third = &table.find({3})->job;
  for (const std::int64_t number : {0, 1, 4, 255, 258, 999'999, 1'000'001}) {
    EXPECT_EQ(table.find({number}), nullptr) << number;
  }
  JobTable other;
  for (const std::int64_t number : {2, 700, 2'000'000}) other.insert({number});
  table.merge(std::move(other));
  EXPECT_EQ(&table.find({3})->job, third);
  EXPECT_EQ(table.size(), 7u);
  std::vector<std::int64_t> seen;
  for (const Job& job : table) seen.push_back(job.id.value);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{2, 3, 256, 257, 700, 1'000'000, 2'000'000}));
}

}  // namespace
}  // namespace pergpu::testing
