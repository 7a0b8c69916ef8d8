// Restart = replay: whatever happened to a set of jobs, a store that is closed and read again leads
// to the same jobs, and so does one whose oldest events were folded any number of times.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <map>

#include "job/job.h"
#include "store/compaction.h"
#include "store/harness.h"
#include "store/schema.h"

namespace pergpu {
namespace {

using namespace testing_store;

std::string random_text() {
  return *rc::gen::element<std::string>("", "exit code 3", "a \"b\"\n\\c", "é ∀ 🙂",
                                        "held by you");
}
std::int64_t random_number() {
  return *rc::gen::element<std::int64_t>(0, 1, -1, 77, std::numeric_limits<std::int64_t>::max());
}
template <typename Enum>
Enum random_enum(int count) {
  return static_cast<Enum>(*rc::gen::inRange(0, count));
}

Placement random_placement() {
  Placement p;
  p.lane.pool = random_enum<LaneId::Pool>(3);
  p.lane.sweep = {random_number()};
  p.lane.slot = *rc::gen::inRange(0, 9);
  p.lane.part = *rc::gen::inRange(0, 3);
  p.share = *rc::gen::element(0, 0, 250, 1000);
  p.promise_bytes = *rc::gen::element<std::uint64_t>(0, 1ull << 34);
  p.mps = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) p.gpus = {"GPU-1", random_text()};
  if (!p.gpus.empty() && *rc::gen::arbitrary<bool>()) p.slots = {4, 7};
  p.port = *rc::gen::inRange(0, 65536);
  p.cpus = *rc::gen::inRange(1, 64);
  if (*rc::gen::arbitrary<bool>()) p.cpu_list = {0, 3, 5};
  return p;
}

Outcome random_outcome() {
  Outcome o;
  o.cls = random_enum<OutcomeClass>(18);
  if (*rc::gen::arbitrary<bool>()) o.exit_code = *rc::gen::inRange(0, 256);
  if (*rc::gen::arbitrary<bool>()) o.signal = *rc::gen::inRange(1, 65);
  o.reason = random_text();
  o.left_running = random_text();
  o.mistake = random_text();
  o.peak_memory_bytes = static_cast<std::uint64_t>(random_number());
  o.cpu_ns = random_number();
  return o;
}

Next random_next() {
  Next n;
  n.kind = random_enum<Next::Kind>(2);
  n.state = random_enum<JobState>(11);
  n.charged = *rc::gen::arbitrary<bool>();
  n.delay_ns = *rc::gen::element<std::int64_t>(0, 1, 60'000'000'000);
  n.reason = random_text();
  return n;
}

JobEvent random_event(const Job& job) {
  switch (*rc::gen::inRange(0, 12)) {
    case 0:
      return event::Submitted{};
    case 1:
      return event::Requeued{random_text(), *rc::gen::arbitrary<bool>()};
    case 2:
      return event::Held{random_text(), random_enum<HoldCause>(2)};
    case 3:
    case 4:
    case 5:
      return event::Starting{.attempt = job.attempts + *rc::gen::element(1, 1, 1, 0, 2),
                             .placement = random_placement(),
                             .keeper = {random_number()}};
    case 6:
    case 7:
      return event::Started{.pid = *rc::gen::inRange(1, 99'999),
                            .start_ticks = static_cast<std::uint64_t>(random_number())};
    case 8:
      return event::Stopping{random_enum<StopCause>(6), random_text(), *rc::gen::arbitrary<bool>()};
    case 9:
      return event::Cancelled{random_text()};
    case 10:
      return event::Skipped{random_text()};
    default:
      return event::Ended{random_outcome(), random_next()};
  }
}

using Jobs = std::map<JobId, Job>;

Jobs replay(Store& store) {
  Jobs jobs;
  const Result<void> loaded = store.load([&](const Row& row) -> Result<void> {
    if (const auto* born = std::get_if<row::NewJob>(&row)) {
      Job job{.id = born->id, .sweep = born->sweep, .run = born->run, .step = born->step};
      RC_ASSERT(bool(apply(job, event::Submitted{}, born->at)));
      jobs[born->id] = std::move(job);
    } else if (const auto* e = std::get_if<row::Event>(&row)) {
      const Result<void> applied = apply(jobs.at(e->job), e->event, e->at);
      RC_ASSERT(bool(applied));
    }
    return {};
  });
  RC_ASSERT(bool(loaded));
  return jobs;
}

void fold_some(const std::string& path) {
  Result<store::Database> database = store::open_store_file(path);
  RC_ASSERT(bool(database));
  Result<store::Compaction> compaction = store::Compaction::prepare(*database);
  RC_ASSERT(bool(compaction));
  const int slices = *rc::gen::inRange(1, 5);
  for (int i = 0; i < slices; ++i) {
    const Result<std::int64_t> before = compaction->unfolded();
    RC_ASSERT(bool(before));
    const std::int64_t most = *rc::gen::inRange(1, 20);
    const Result<std::int64_t> folded = compaction->fold(*database, most);
    RC_ASSERT(bool(folded));
    RC_ASSERT(*folded == std::min(most, *before));
    RC_ASSERT(*compaction->unfolded() == *before - *folded);
  }
}

TEST(ReplayProperty, FoldedEqualsReplayed) {
  EXPECT_TRUE(rc::check([] {
    const Folder folder;
    Jobs live;
    const int count = *rc::gen::inRange(1, 4);
    Batch born;
    born.push_back(row::Sweep{.id = {1}, .root = "/out", .name = "s"});
    for (int i = 1; i <= count; ++i) {
      Job job{.id = {i}, .sweep = {1}, .run = -1};
      RC_ASSERT(bool(apply(job, event::Submitted{}, {i, i})));
      live[job.id] = std::move(job);
      born.push_back(row::NewJob{.id = {i}, .sweep = {1}, .at = {i, i}});
    }
    RC_ASSERT(bool(commit(*must_open(folder / "store.db"), std::move(born))));
    const int rounds = *rc::gen::inRange(1, 4);
    for (int round = 0; round < rounds; ++round) {
      Batch batch;
      const int moves = *rc::gen::inRange(0, 40);
      for (int i = 0; i < moves; ++i) {
        Job& job = live.at({*rc::gen::inRange(1, count + 1)});
        const JobEvent event = random_event(job);
        const Instant at{.wall_ns = 1'000 * round + i, .boot_ns = i};
        if (apply(job, event, at)) batch.push_back(row::Event{job.id, event, at});
      }
      RC_ASSERT(bool(commit(*must_open(folder / "store.db"), std::move(batch))));
      fold_some(folder / "store.db");
      RC_ASSERT(replay(*must_open(folder / "store.db")) == live);
    }
  }));
}

TEST(ReplayProperty, LiveEqualsReplayed) {
  EXPECT_TRUE(rc::check([] {
    const Folder folder;
    Jobs live;
    {
      const std::unique_ptr<Store> store = must_open(folder / "store.db");
      Batch born;
      born.push_back(row::Sweep{.id = {1}, .root = "/o", .name = "s"});
      const int count = *rc::gen::inRange(1, 5);
      for (int i = 1; i <= count; ++i) {
        const row::NewJob row{.id = {i}, .sweep = {1}, .run = i - 2, .at = {i, i}};
        Job job{.id = row.id, .sweep = row.sweep, .run = row.run, .step = row.step};
        RC_ASSERT(bool(apply(job, event::Submitted{}, row.at)));
        live[row.id] = std::move(job);
        born.push_back(row);
      }
      store->append(std::move(born), {});
      const int moves = *rc::gen::inRange(0, 80);
      for (int i = 0; i < moves; ++i) {
        Job& job = live.at({*rc::gen::inRange(1, count + 1)});
        const JobEvent event = random_event(job);
        const Instant at{.wall_ns = 1'000 + i, .boot_ns = i};
        if (apply(job, event, at)) store->append(one(row::Event{job.id, event, at}), {});
      }
    }
    const std::unique_ptr<Store> store = must_open(folder / "store.db");
    RC_ASSERT(replay(*store) == live);
  }));
}

}  // namespace
}  // namespace pergpu
