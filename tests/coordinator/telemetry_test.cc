// What live attempts use, over an inventory that answers what the test says
// (forecast/telemetry.h).
#include "forecast/telemetry.h"

#include "job/usage_blob.h"
#include "lock_folder.h"
#include "simulation.h"

namespace pergpu::testing {
namespace {

/// Answers a reading 1 ms after it was asked for.
class ReadInventory final : public GpuInventory {
 public:
  ReadInventory(SimClock& clock, SimTimers& timers) : clock_(clock), timers_(timers) {}
  void look(std::function<void(const GpuLook&)> done) override { done({.complete = true}); }
  bool read_usage(const UsageQuestion& question,
                  const std::function<void(const UsageAnswer&)>& done) override {
    if (refuses) {
      ++refused;
      return false;
    }
    asked.push_back(question);
    timers_.add(clock_.now().boot_ns + kMillisecond, [this, question, done] {
      UsageAnswer answer;
      if (!fails) {
        answer = {.boot_ns = clock_.now().boot_ns, .cost_ns = cost_ns};
        for (const os::TreeRoot& root : question.trees) answer.trees.push_back(tree(root));
        for (const std::string& uuid : question.gpus) {
          GpuUsage usage = gpu;
          usage.uuid = uuid;
          answer.gpus.push_back(usage);
        }
      }
      done(answer);
    });
    return true;
  }
  /// By default one that takes a core and writes 1 MB a second since the first job's start.
  std::function<std::optional<os::TreeUsage>(const os::TreeRoot&)> tree =
      [this](const os::TreeRoot&) {
        return os::TreeUsage{.processes = 2,
                             .cpu_ns = clock_.ns,
                             .resident_bytes = 100,
                             .read_bytes = 0,
                             .written_bytes = static_cast<std::uint64_t>(clock_.ns / 1000)};
      };
  GpuUsage gpu = {};
  std::vector<UsageQuestion> asked;
  bool refuses = false;
  int refused = 0;
  bool fails = false;
  std::int64_t cost_ns = 0;

 private:
  SimClock& clock_;
  SimTimers& timers_;
};

struct TelemetryTest : ::testing::Test {
  Telemetry& start(std::int64_t pause_ns = kSecond) {
    timers = sim_timers.timers();
    telemetry = std::make_unique<Telemetry>(
        Telemetry::Parts{.inventory = &inventory,
                         .clock = &clock,
                         .timers = &timers,
                         .pause_ns = pause_ns,
                         .cores = cores,
                         .record = [this](row::Usage usage) { rows.push_back(std::move(usage)); }});
    return *telemetry;
  }
  void begin(std::int64_t job, bool is_new = true, std::vector<std::string> gpus = {}) {
    telemetry->begin({.id = {{job}, 1},
                      .root = {static_cast<pid_t>(1000 + job), 5},
                      .gpus = std::move(gpus),
                      .started_boot_ns = clock.now().boot_ns,
                      .is_new = is_new});
  }
  void run_for(std::int64_t ns) {
    const std::int64_t end = clock.ns + ns;
    bool over = false;
    sim_timers.add(SimClock::kStart + end, [&] { over = true; });
    while (!over) sim_timers.step(clock);
  }
  const Rollup& of(std::int64_t job) { return *telemetry->of({{job}, 1}); }

  SimClock clock;
  SimTimers sim_timers;
  Timers timers;
  ReadInventory inventory{clock, sim_timers};
  std::vector<row::Usage> rows;
  int cores = 0;  // of the machine
  std::unique_ptr<Telemetry> telemetry;
};

TEST_F(TelemetryTest, ReadsOnceASecondAndTellsRates) {
  start();
  begin(1);
  run_for(10 * kSecond);
  EXPECT_GE(inventory.asked.size(), 9u);
  EXPECT_LE(inventory.asked.size(), 11u);
  EXPECT_EQ(inventory.asked[0].trees, (std::vector<os::TreeRoot>{{1001, 5}}));
  const UsageReading& last = *of(1).last();
  EXPECT_NEAR(*last[Measure::Cores], 1, 1e-3);
  EXPECT_NEAR(*last[Measure::Written], 1e6, 1e3);
  EXPECT_EQ(last[Measure::Read], 0.0f) << "told, and nothing";
  EXPECT_FALSE(last[Measure::Proportional]);
  EXPECT_FALSE(last[Measure::GpuBusy]);
  const std::optional<UsageSummary> summary = telemetry->end({{1}, 1});
  ASSERT_TRUE(summary);
  EXPECT_NEAR((*summary)[Measure::Cores]->mean, 1, 1e-3);
  EXPECT_EQ(summary->read_bytes, 0u);
  EXPECT_FALSE(telemetry->of({{1}, 1}));
}

TEST_F(TelemetryTest, TheFirstReadingOfANewAttemptTellsItsRates) {
  start();
  begin(1);
  run_for(kSecond / 2);
  ASSERT_TRUE(of(1).last());
  EXPECT_NEAR(*(*of(1).last())[Measure::Cores], 1, 1e-3);
}

TEST_F(TelemetryTest, OfAnAdoptedOneTheFirstReadingTellsNoRate) {
  start();
  clock.ns = 3600 * kSecond;
  begin(1, false);
  run_for(kSecond / 2);
  ASSERT_TRUE(of(1).last());
  EXPECT_FALSE((*of(1).last())[Measure::Cores]);
  EXPECT_EQ((*of(1).last())[Measure::Resident], 100.0f);
  run_for(kSecond);
  EXPECT_NEAR(*(*of(1).last())[Measure::Cores], 1, 1e-3);
}

TEST_F(TelemetryTest, CountersThatFallForAMomentAddNothing) {
  start();
  std::int64_t cpu_ns = 5 * kSecond;
  inventory.tree = [&](const os::TreeRoot&) {
    return os::TreeUsage{.processes = 1, .cpu_ns = cpu_ns, .resident_bytes = 1};
  };
  begin(1, false);
  run_for(kSecond / 2);
  cpu_ns = kSecond;  // a child has ended and was not waited for yet
  run_for(kSecond);
  EXPECT_EQ((*of(1).last())[Measure::Cores], 0.0f);
  EXPECT_FALSE((*of(1).last())[Measure::Read]) << "not told is not zero";
  cpu_ns = 5 * kSecond;
  run_for(kSecond);
  EXPECT_EQ((*of(1).last())[Measure::Cores], 0.0f);
  cpu_ns = 6 * kSecond;
  run_for(kSecond);
  EXPECT_NEAR(*(*of(1).last())[Measure::Cores], 1, 1e-2);
}

TEST_F(TelemetryTest, OneReadingServesAllAttemptsAndWhatIsGoneIsUnknown) {
  start();
  begin(1);
  begin(2);
  inventory.tree = [&](const os::TreeRoot& root) {
    return root.pid == 1002 ? std::nullopt : std::optional(os::TreeUsage{.processes = 1});
  };
  run_for(3 * kSecond);
  EXPECT_EQ(inventory.asked.back().trees.size(), 2u);
  EXPECT_TRUE(of(1).last());
  EXPECT_FALSE(of(2).last());
  EXPECT_FALSE(telemetry->end({{2}, 1})) << "nothing was read of it";
}

/// Each takes a core of the two; the third sleeps.
TEST_F(TelemetryTest, WhoTakesItsShareOfABusyMachineIsSlowed) {
  cores = 2;
  start();
  inventory.tree = [&](const os::TreeRoot& root) {
    return os::TreeUsage{.processes = 1, .cpu_ns = root.pid == 1003 ? 0 : clock.ns};
  };
  begin(1);
  run_for(10 * kSecond);
  EXPECT_NEAR(telemetry->share({{1}, 1})->alone_s(10), 10, 1e-3);
  begin(2);
  begin(3);
  run_for(10 * kSecond);
  EXPECT_NEAR(telemetry->share({{1}, 1})->alone_s(20, 2), 15, 0.5);
  EXPECT_NEAR(telemetry->share({{3}, 1})->alone_s(10, 2), 10, 1e-3) << "it wants no more";
  (void)telemetry->end({{1}, 1});
  EXPECT_FALSE(telemetry->share({{1}, 1}));
}

TEST_F(TelemetryTest, AttemptsThatAreShorterThanAMomentCostNothing) {
  start();
  for (int i = 0; i < 100; ++i) {
    begin(i);
    run_for(50 * kMillisecond);
    EXPECT_FALSE(telemetry->end({{i}, 1}));
  }
  EXPECT_TRUE(inventory.asked.empty());
  EXPECT_TRUE(rows.empty());
}

TEST_F(TelemetryTest, NothingIsAskedWhenNothingRunsOrReadingIsOff) {
  start();
  begin(1);
  run_for(2 * kSecond);
  (void)telemetry->end({{1}, 1});
  const std::size_t asked = inventory.asked.size();
  run_for(60 * kSecond);
  EXPECT_EQ(inventory.asked.size(), asked);
  EXPECT_TRUE(sim_timers.empty());
  start(0);
  begin(2);
  EXPECT_FALSE(telemetry->of({{2}, 1}));
  EXPECT_TRUE(sim_timers.empty());
}

TEST_F(TelemetryTest, AReadingThatFailsIsUnknownAndTheNextTellsAllSince) {
  start();
  begin(1);
  run_for(2 * kSecond);
  const std::uint32_t before = of(1).total().readings;
  inventory.fails = true;
  run_for(10 * kSecond);
  EXPECT_EQ(of(1).total().readings, before);
  inventory.fails = false;
  run_for(2 * kSecond);
  EXPECT_NEAR(*(*of(1).last())[Measure::Cores], 1, 1e-3);
  // One that could not be asked for is tried again, less and less often.
  inventory.refuses = true;
  run_for(10 * kSecond);
  EXPECT_GE(inventory.refused, 8);
  EXPECT_LE(inventory.refused, 20);
}

TEST_F(TelemetryTest, DearReadingsAreRarer) {
  start();
  begin(1);
  inventory.cost_ns = 20 * kMillisecond;  // of a core: 2 %, once a second
  run_for(300 * kSecond);
  const std::size_t before = inventory.asked.size();
  run_for(600 * kSecond);
  const std::size_t more = inventory.asked.size() - before;
  EXPECT_LE(more, 61u);  // at most ten times rarer
  EXPECT_GE(more, 59u);
}

TEST_F(TelemetryTest, GpusOfAnAttemptAreAddedUpWhereAllTell) {
  start();
  inventory.gpu = {.busy_percent = 90,
                   .used_bytes = 5,
                   .power_mw = 300'000,
                   .temperature_c = 70,
                   .clock_mhz = 1700,
                   .throttle = 4};
  begin(1, true, {"GPU-a", "GPU-b"});
  run_for(2 * kSecond);
  const UsageReading last = *of(1).last();
  EXPECT_EQ(last[Measure::GpuBusy], 90.0f);
  EXPECT_EQ(last[Measure::GpuMemory], 10.0f);
  EXPECT_EQ(last[Measure::GpuPower], 600.0f);
  EXPECT_EQ(last[Measure::GpuTemperature], 70.0f);
  EXPECT_EQ(last[Measure::GpuClock], 1700.0f);
  EXPECT_EQ(last.throttle, 4u);
  ASSERT_NE(telemetry->gpu("GPU-a"), nullptr);
  EXPECT_EQ(telemetry->gpu("GPU-a")->power_mw, 300'000);
  EXPECT_EQ(telemetry->gpu("GPU-c"), nullptr);
  (void)telemetry->end({{1}, 1});
  run_for(60 * kSecond);
  EXPECT_EQ(telemetry->gpu("GPU-a"), nullptr) << "old";
}

TEST_F(TelemetryTest, OfASharedGpuTheMemoryOfItsOwnProcessesIsTold) {
  start();
  inventory.gpu = {.busy_percent = 90, .used_bytes = 500, .power_mw = 300'000};
  begin(1, true, {"GPU-a"});
  telemetry->saw_gpu_memory({{1}, 1}, 100);
  run_for(2 * kSecond);
  EXPECT_EQ((*of(1).last())[Measure::GpuMemory], 500.0f) << "it is alone";
  telemetry->share_gpu({{1}, 1});
  telemetry->saw_gpu_memory({{1}, 1}, 200);
  run_for(2 * kSecond);
  EXPECT_EQ((*of(1).last())[Measure::GpuMemory], 200.0f);
  EXPECT_EQ((*of(1).last())[Measure::GpuPower], std::nullopt) << "nobody tells it apart";
  run_for(10 * kSecond);
  EXPECT_EQ((*of(1).last())[Measure::GpuMemory], std::nullopt) << "old";
  telemetry->saw_gpu_memory({{2}, 1}, 200);  // it is not live
}

TEST_F(TelemetryTest, MinutesAreRecordedByTheTenAndTheRestAtTheEnd) {
  start();
  begin(7);
  run_for(615 * kSecond);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].job, JobId{7});
  EXPECT_EQ(rows[0].attempt, 1);
  EXPECT_EQ(rows[0].at.wall_ns, rows[0].at.boot_ns) << "as the simulated clocks are";
  run_for(60 * kSecond);
  (void)telemetry->end({{7}, 1});
  ASSERT_EQ(rows.size(), 2u);
  std::uint32_t readings = 0;
  std::size_t minutes = 0;
  for (const row::Usage& row : rows) {
    const auto back = minutes_of_bytes(row.minutes, row.at.wall_ns);
    ASSERT_TRUE(back);
    for (const UsageBucket& minute : *back) readings += minute.readings;
    minutes += back->size();
  }
  EXPECT_EQ(minutes, 12u);
  EXPECT_GE(readings, 660u);
}

TEST_F(TelemetryTest, AShortAttemptLeavesNoRowAndALeavingCoordinatorWhatIsOver) {
  start();
  begin(1);
  begin(2);
  run_for(30 * kSecond);
  (void)telemetry->end({{1}, 1});
  EXPECT_TRUE(rows.empty());
  run_for(60 * kSecond);
  telemetry->save();
  ASSERT_EQ(rows.size(), 1u);
  telemetry->save();
  EXPECT_EQ(rows.size(), 1u);
}

/// The coordinator over a telemetry of its own.
TEST_F(TelemetryTest, TheOutcomeOfAnAttemptSaysWhatItUsed) {
  MemoryStore store;
  Simulation sim(store, clock);
  Timers its_timers = sim.sim_timers.timers();
  ReadInventory its_inventory(clock, sim.sim_timers);
  Telemetry its({.inventory = &its_inventory,
                 .clock = &clock,
                 .timers = &its_timers,
                 .record = [&](row::Usage usage) { sim.journal->record(std::move(usage)); }});
  // The same parts, and the telemetry.
  sim.core.reset();
  sim.core = std::make_unique<Coordinator>(
      Coordinator::Parts{.world = &sim.world,
                         .journal = sim.journal.get(),
                         .local = &sim.local,
                         .fake = sim.engine.get(),
                         .gpus = sim.gpus.get(),
                         .telemetry = &its,
                         .clock = &clock,
                         .timers = sim.timers.get(),
                         .machine = {.cores = {0, 1}, .memory_bytes = 1ull << 30},
                         .home = ::testing::TempDir(),
                         .boot_id = "boot-1",
                         .read_environment = [](SweepId) { return std::string(); },
                         .changed = [](const std::vector<JobId>&) {}});
  sim.core->recover();
  SweepSpec sweep = sweep_of("used", 1);
  sweep.steps.push_back(step_of("train"));
  bool is_taken = false;
  sim.core->submit(sweep, {}, [&](const Result<SubmitReply>& reply) { is_taken = bool(reply); });
  sim.turn();
  ASSERT_TRUE(is_taken);
  ASSERT_EQ(sim.job(1).state, JobState::Starting);
  sim.core->on_engine(engine_event::Started{.id = {{1}, 1}, .pid = 4711, .start_ticks = 9});
  sim.run_for(75 * kSecond);
  sim.core->on_engine(engine_event::Exited{
      .id = {{1}, 1}, .exit_code = 0, .signal = std::nullopt, .exited_at = clock.now()});
  sim.turn();
  EXPECT_EQ(sim.job(1).state, JobState::Done);
  ASSERT_TRUE(sim.job(1).last->outcome->usage);
  EXPECT_NEAR((*sim.job(1).last->outcome->usage)[Measure::Cores]->mean, 1, 1e-2);
  EXPECT_EQ(std::count_if(store.rows.begin(), store.rows.end(),
                          [](const Row& row) { return std::holds_alternative<row::Usage>(row); }),
            1);
}

}  // namespace
}  // namespace pergpu::testing
