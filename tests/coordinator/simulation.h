// The real coordinator over fakes: a clock that jumps, timers in order, a store in memory whose
// completions come when asked for, the fake engine, GPUs as the test shows them (none, if it does
// not).  Deterministic.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "os/clock.h"
#include "os/loop.h"
#include "run/fake.h"
#include "sim_clock.h"
#include "simulation/archive_book.h"

namespace pergpu::testing {

/// Keeps rows; `failing` makes batches fail as a full disk does.
class MemoryStore final : public Store {
 public:
  using Store::append;
  void append(std::shared_ptr<const Batch> batch, std::function<void(Result<void>)> done) override {
    queue_.push_back({std::move(batch), std::move(done)});
  }
  int completion_fd() const override { return -1; }
  void drain() override {
    const bool fail = failing;
    for (auto& [batch, done] : std::exchange(queue_, {})) {
      if (fail) {
        done(Error{ErrorKind::Full, ENOSPC, "disk full"});
        continue;
      }
      ++batches;
      for (const Row& row : *batch) {
        archive.take(row);
        batch_of.push_back(batches);
        rows.push_back(row);
      }
      done({});
    }
    for (const auto& fetch : std::exchange(fetches_, {})) fetch();
  }
  using Store::load;
  Result<void> load(const RowVisitor& visit, const std::function<Result<void>()>& check) override {
    for (const auto& [id, archived] : archive.archived()) {
      if (Result<void> taken = visit(archived); !taken) return taken;
    }
    Result<void> given = give(visit, [this](SweepId sweep) { return !archive.contains(sweep); });
    return given ? check() : given;
  }
  void fetch(std::vector<SweepId> archived, RowVisitor visit,
             std::function<void(Result<void>)> done) override {
    ++fetches_made;
    EXPECT_EQ(std::set(archived.begin(), archived.end()).size(), archived.size());
    fetches_.push_back([this, sweeps = std::move(archived), visit = std::move(visit),
                        done = std::move(done)] {
      if (archive_is_damaged) {
        return done(Error{ErrorKind::Corrupt, 0, "the store is damaged"});
      }
      done(give(visit,
                [&](SweepId sweep) { return std::ranges::find(sweeps, sweep) != sweeps.end(); }));
    });
  }
  void backup(std::string, std::function<void(Result<std::int64_t>)> done) override {
    done(Error{ErrorKind::Unavailable, 0, "nothing to copy"});
  }
  bool pending() const { return !queue_.empty() || !fetches_.empty(); }
  void clear() {
    rows.clear();
    batch_of.clear();
    archive = {};
  }
  bool failing = false;
  bool archive_is_damaged = false;
  int fetches_made = 0;
  std::vector<Row> rows;
  std::vector<int> batch_of;  // each row's
  int batches = 0;
  simulation::ArchiveBook archive;

 private:
  template <typename Wanted>
  Result<void> give(const RowVisitor& visit, Wanted wanted) const {
    for (const Row& row : rows) {
      if (std::holds_alternative<row::Archived>(row) || !wanted(archive.sweep_of(row))) continue;
      if (Result<void> taken = visit(row); !taken) return taken;
    }
    return {};
  }

  std::vector<std::function<void()>> fetches_;
  std::vector<std::pair<std::shared_ptr<const Batch>, std::function<void(Result<void>)>>> queue_;
};

/// All that the store knows, archived or not.
inline void load_whole(MemoryStore& store, World& world) {
  EXPECT_TRUE(store.load([&](const Row& row) { return world.absorb(row); }));
  std::vector<SweepId> archived;
  for (const auto& [id, sweep] : world.archived()) archived.push_back(id);
  World part;
  store.fetch(
      archived, [&](const Row& row) { return part.absorb(row); },
      [&](const Result<void>& read) {
        EXPECT_TRUE(read);
        EXPECT_TRUE(world.adopt(archived, std::move(part)));
      });
  store.drain();
  EXPECT_TRUE(world.check_whole());
}

/// What looks show, and when they are answered.
struct ShownGpus {
  GpuLook look = {.complete = true};
  std::int64_t answer_after_ns = kMillisecond;
  int looks = 0;
  bool stays = false;                              // it was told to
  int rests = 0;                                   // how often it was then told that it need not
  std::function<void()> before_look = {};          // brings `look` up to date
  std::optional<int> busy_percent = std::nullopt;  // of each GPU; none: no readings are made
};

/// Reads the GPUs when it answers, as a probe does.
class SimInventory final : public GpuInventory {
 public:
  /// `shown` null: a machine without GPUs, answered at once.
  SimInventory(ShownGpus* shown, SimClock& clock, SimTimers& timers)
      : shown_(shown), clock_(clock), timers_(timers) {}
  void look(std::function<void(const GpuLook&)> done) override {
    if (shown_ == nullptr) return done({.complete = true, .no_driver = true});
    ++shown_->looks;
    timers_.add(clock_.now().boot_ns + shown_->answer_after_ns, [this, done = std::move(done)] {
      if (shown_->before_look) shown_->before_look();
      done(GpuLook(shown_->look));
    });
  }
  void stay(bool wanted) override {
    if (shown_ == nullptr) return;
    if (shown_->stays && !wanted) ++shown_->rests;
    shown_->stays = wanted;
  }
  bool read_usage(const UsageQuestion& question,
                  const std::function<void(const UsageAnswer&)>& done) override {
    if (shown_ == nullptr || !shown_->busy_percent) return false;
    UsageAnswer answer{.trees = std::vector<std::optional<os::TreeUsage>>(question.trees.size())};
    for (const std::string& uuid : question.gpus) {
      answer.gpus.push_back({.uuid = uuid, .busy_percent = shown_->busy_percent});
    }
    timers_.add(clock_.now().boot_ns + kMillisecond, [this, answer, done]() mutable {
      answer.boot_ns = clock_.now().boot_ns;
      done(answer);
    });
    return true;
  }

 private:
  ShownGpus* shown_;
  SimClock& clock_;
  SimTimers& timers_;
};

/// A GPU that nobody uses.
inline GpuReading gpu_reading(int index) {
  return {.uuid = "GPU-" + std::to_string(index) + "1111111-0000-0000-0000-000000000000",
          .name = "Fake GPU",
          .index = index,
          .total_bytes = 80ull << 30,
          .repair_pending = false,
          .repair_failed = false,
          .recovery_action = 0};
}
inline GpuProcess foreign_process() {
  return {.pid = 4711, .memory_bytes = 3ull << 30, .command = "python3"};
}

/// In the local engine's place: runs nothing, and says what it is told to of the past.
class SimLocal final : public Engine {
 public:
  KeeperId assign(LaneId) override { return {}; }
  void prepare(LaneId, const FolderPlan&) override {}
  void start(LaneId, AttemptPlan) override {}
  void stop(AttemptId, StopHow) override {}
  void signal(AttemptId, int) override {}
  void write_stacks(AttemptId, const std::string&, std::function<void(bool)>) override {}
  void acknowledge(AttemptId id, std::string, std::string) override { acknowledged.push_back(id); }
  void adopt(std::vector<ExpectedAttempt>) override {}
  bool may_start() const override { return knows_the_past; }
  std::vector<std::int32_t> keeper_pids() const override { return {}; }
  bool knows_the_past = true;
  std::vector<AttemptId> acknowledged;
};

/// One life of a coordinator over a store; a second one over the same store is a restart.
class Simulation {
 public:
  explicit Simulation(MemoryStore& memory, SimClock& time, std::string boot = "boot-1",
                      Machine machine = {.cores = {0, 1, 2, 3}, .memory_bytes = 64ull << 30},
                      ShownGpus* shown = nullptr, std::string node = {})
      : store(memory), clock(time), inventory(shown, time, sim_timers) {
    Result<std::unique_ptr<os::Loop>> made = os::Loop::create();  // for lease watches; never runs
    EXPECT_TRUE(made);
    loop = std::move(*made);
    Timers t = sim_timers.timers();
    timers = std::make_unique<Timers>(t);
    EXPECT_TRUE(store.load([&](const Row& row) { return world.absorb(row); },
                           [&] { return world.check_whole(); }));
    journal = std::make_unique<Journal>(world, store);
    engine = std::make_unique<FakeEngine>(
        clock,
        [this](std::int64_t at, std::function<void()> f) { sim_timers.add(at, std::move(f)); },
        [this](const EngineEvent& e) { core->on_engine(refused(e)); });
    gpus = std::make_unique<GpuLanes>(GpuLanes::Parts{
        .inventory = &inventory,
        .loop = loop.get(),
        .clock = &clock,
        .timers = timers.get(),
        .ours = [this](const GpuProcess& process) { return core && core->is_ours(process); }});
    if (shown != nullptr && shown->busy_percent) {
      telemetry = std::make_unique<Telemetry>(Telemetry::Parts{.inventory = &inventory,
                                                               .clock = &clock,
                                                               .timers = timers.get(),
                                                               .record = [](row::Usage) {}});
    }
    core = std::make_unique<Coordinator>(
        Coordinator::Parts{.world = &world,
                           .journal = journal.get(),
                           // Readings are made of real attempts only.
                           .local = telemetry ? static_cast<Engine*>(engine.get()) : &local,
                           .fake = engine.get(),
                           .gpus = gpus.get(),
                           .telemetry = telemetry.get(),
                           .clock = &clock,
                           .timers = timers.get(),
                           .machine = std::move(machine),
                           .home = ::testing::TempDir(),
                           .node = std::move(node),
                           .boot_id = std::move(boot),
                           .read_environment = [](SweepId) { return std::string("PATH=/bin"); },
                           .changed =
                               [this](const std::vector<JobId>& jobs) {
                                 ++changes;
                                 if (on_change) on_change(jobs);
                               },
                           .deliver =
                               [this](NoticeRequest request, auto done) {
                                 deliveries.push_back({std::move(request), std::move(done)});
                               }});
    core->recover();
    gpus->discover([this] { core->gpus_discovered(); });
    turn();
  }

  /// On a disk that fails no attempt starts.
  EngineEvent refused(const EngineEvent& e) {
    const auto* started = std::get_if<engine_event::Started>(&e);
    if (started == nullptr) return e;
    SpawnFailure failure{"mkdir", disk_errno, "/data/out/a"};
    if (const auto its = bad.find(started->id.job); its != bad.end()) failure = its->second;
    if (failure.os_errno == 0) return e;
    ++refusals;
    return engine_event::SpawnFailed{.id = started->id,
                                     .phase = failure.phase,
                                     .os_errno = failure.os_errno,
                                     .object = failure.object};
  }

  /// One turn of the loop without time passing.
  void turn() {
    core->settle();
    while (store.pending()) {
      store.drain();
      if (after_turn) after_turn();
      core->settle();
      if (store.failing) break;
    }
    check_indices();
  }
  /// What the world keeps beside its jobs is what they say.
  void check_indices() const {
    std::vector<JobId> open;
    std::vector<JobId> queued;
    std::vector<JobId> held;
    std::vector<JobId> live;
    for (const Job& j : world.jobs()) {
      if (is_ended(j.state)) continue;
      open.push_back(j.id);
      (is_live(j.state) ? live : j.state == JobState::Held ? held : queued).push_back(j.id);
    }
    const auto kept = [](const JobSet& set) {
      std::vector<JobId> ids;
      set.for_each([&](JobId id) { ids.push_back(id); });
      return ids;
    };
    EXPECT_EQ(kept(world.open_jobs()), open);
    EXPECT_EQ(kept(world.queued_jobs()), queued);
    EXPECT_EQ(kept(world.held_jobs()), held);
    EXPECT_EQ(kept(world.live_jobs()), live);
    EXPECT_EQ(world.queued(), static_cast<std::int64_t>(queued.size()));
  }
  /// Runs until nothing is left to happen, or until `stop` says so.
  void run(const std::function<bool()>& stop = [] { return false; }) {
    turn();
    while (!sim_timers.empty() && !stop()) {
      sim_timers.step(clock);
      turn();
    }
  }

  /// Runs for this long, or to the end of all.
  void run_for(std::int64_t time_ns) {
    bool over = false;
    sim_timers.add(clock.now().boot_ns + time_ns, [&over] { over = true; });
    run([&over] { return over; });
  }

  Result<SubmitReply> submit(SweepSpec sweep, SubmitContext context = {}) {
    context.engine = "fake";
    Result<SubmitReply> reply = Error{ErrorKind::Unavailable, 0, "no answer"};
    core->submit(std::move(sweep), std::move(context),
                 [&](Result<SubmitReply> r) { reply = std::move(r); });
    turn();
    return reply;
  }
  const Job& job(std::int64_t id) { return *world.job(JobId{id}); }
  int count(JobState state) const {
    int n = 0;
    for (const Job& j : world.jobs()) n += j.state == state ? 1 : 0;
    return n;
  }

  MemoryStore& store;
  SimClock& clock;
  int disk_errno = 0;                 // what the disk of the results answers; 0: it is well
  std::map<JobId, SpawnFailure> bad;  // jobs whose own folder it is that fails
  int refusals = 0;
  SimTimers sim_timers;
  SimInventory inventory;
  std::unique_ptr<os::Loop> loop;
  World world;
  std::unique_ptr<Timers> timers;
  std::unique_ptr<Journal> journal;
  SimLocal local;
  std::unique_ptr<FakeEngine> engine;
  std::unique_ptr<GpuLanes> gpus;
  std::unique_ptr<Telemetry> telemetry;
  std::unique_ptr<Coordinator> core;
  std::function<void()> after_turn;
  std::function<void(const std::vector<JobId>&)> on_change;
  int changes = 0;
  struct Delivery {
    NoticeRequest request;
    std::function<void(Result<void>)> done;
  };
  std::vector<Delivery> deliveries;  // what was to be sent
};

}  // namespace pergpu::testing
