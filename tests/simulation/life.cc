// A coordinator that may be killed at any call that leaves it (life.h).
#include "simulation/life.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

namespace pergpu::simulation {
namespace {

constexpr int kCores = 8;
constexpr std::uint64_t kMemory = 64ull << 30;
constexpr std::string_view kDevices = "CUDA_VISIBLE_DEVICES=GPU-";

std::vector<std::string> gpus_of(const AttemptPlan& plan) {
  for (const std::string& variable : plan.env) {
    if (variable.starts_with(kDevices)) return {variable.substr(kDevices.size() - 4)};
  }
  return {};
}

}  // namespace

// ---- engine ------------------------------------------------------------------------------------

MachineEngine::MachineEngine(Surroundings& around, const World& world,
                             std::function<void(const EngineEvent&)> on_event)
    : around_(around), world_(world), on_event_(std::move(on_event)) {
  around_.machine.connect([this](const EngineEvent& event) { on_event_(event); });
}
MachineEngine::~MachineEngine() { around_.machine.connect({}); }

KeeperId MachineEngine::assign(LaneId /*lane*/) { return {++last_keeper_}; }

void MachineEngine::prepare(LaneId /*lane*/, const FolderPlan& /*folder*/) {}

void MachineEngine::start(LaneId lane, AttemptPlan plan) {
  around_.faults.pass();
  if (!around_.history.may_start(plan.id)) {
    throw Violation("attempt " + to_string(plan.id) + " is started, its intent is not durable");
  }
  check_limits(plan.id);
  const std::vector<std::string> gpus = gpus_of(plan);
  around_.machine.start(lane, std::move(plan), gpus);
}

/// What the sweep's author asked for.  The people of a story do not change these numbers.
void MachineEngine::check_limits(AttemptId id) const {
  const Job& job = *world_.job(id.job);
  const StepSpec& step = world_.step_of(job).spec;
  int of_step = 1;
  int cpus = step.cpus.value_or(0);
  std::uint64_t memory = step.memory_bytes.value_or(0);
  std::map<std::string, int> uses;
  for (const std::string& name : step.uses) ++uses[name];
  for (const auto& [other_id, tree] : around_.machine.trees()) {
    if (!tree.alive() && tree.phase != Tree::Phase::Sent) continue;
    const Job& other = *world_.job(other_id.job);
    const StepSpec& theirs = world_.step_of(other).spec;
    if (other.sweep == job.sweep && other.step == job.step) ++of_step;
    for (const std::string& name : theirs.uses) ++uses[name];
    cpus += theirs.cpus.value_or(0);
    memory += theirs.memory_bytes.value_or(0);
  }
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) throw Violation("attempt " + to_string(id) + " is started beyond " + what);
  };
  require(of_step <= step.max_parallel.value_or(of_step), "max_parallel of its step");
  for (const std::string& name : step.uses) {
    require(uses[name] <= world_.limits().at(name), "the limit " + name);
  }
  if (step.cpus) require(cpus <= kCores, "the machine's cores");
  if (step.memory_bytes) require(memory <= kMemory, "the machine's memory");
  for (const Need& need : step.needs) {
    const Sweep& sweep = world_.sweep_of(job);
    const Step& needed = sweep.steps[static_cast<std::size_t>(need.step)];
    // What a person queued again between the intent and the start did hold when it was decided.
    int since = 0;
    for (const JobId other : needed.current) {
      const Job* one = other ? world_.job(other) : nullptr;
      const bool is_open = one != nullptr && !is_ended(one->state);
      const bool is_counted =
          is_open && (one->run < 0 || sweep.runs[static_cast<std::size_t>(one->run)].listed);
      if (is_counted && one->queued_at.boot_ns >= job.last->starting_at.boot_ns) ++since;
    }
    const std::string words = world_.path_of(job) + " needs " + needed.spec.name + ", of which " +
                              std::to_string(needed.done) + " are done, " +
                              std::to_string(needed.ended) + " of " + std::to_string(needed.total) +
                              " have ended and " + std::to_string(since) + " are queued since";
    if (need.scope == Need::Scope::All) require(needed.done + since >= needed.total, words);
    if (need.scope == Need::Scope::Ended) require(needed.ended + since >= needed.total, words);
  }
}

void MachineEngine::stop(AttemptId id, StopHow how) {
  around_.faults.pass();
  around_.machine.stop(id, how);
}

void MachineEngine::signal(AttemptId id, int number) {
  around_.faults.pass();
  around_.machine.signal(id, number);
}

void MachineEngine::write_stacks(AttemptId /*id*/, const std::string& /*path*/,
                                 std::function<void(bool)> done) {
  around_.faults.pass();
  around_.agenda.in(around_.dice.spread(kMillisecond, 30 * kSecond), Owner::Coordinator,
                    [done = std::move(done)] { done(true); });
}

void MachineEngine::acknowledge(AttemptId id, std::string /*record_path*/,
                                std::string /*final_record*/) {
  around_.faults.pass();
  if (around_.history.may_start(id)) {
    throw Violation("attempt " + to_string(id) + " is forgotten, its outcome is not durable");
  }
  around_.machine.acknowledge(id);
}

void MachineEngine::adopt(std::vector<ExpectedAttempt> expected) {
  around_.faults.pass();
  around_.machine.adopt(expected);
}

// ---- probe -------------------------------------------------------------------------------------

void Probe::look(std::function<void(const GpuLook&)> done) {
  around_.faults.pass();
  const bool is_silent = around_.faults.silent_probe && around_.dice.percent(15);
  const std::int64_t takes =
      is_silent ? 5 * kSecond : around_.dice.spread(kMillisecond, 50 * kMillisecond);
  answered_until_ = std::max(answered_until_, around_.clock.boot_ns + takes);
  around_.agenda.at(answered_until_, Owner::Coordinator, [this, is_silent, done = std::move(done)] {
    if (is_silent) return done({.why = "the probe did not answer in 5 s"});
    const bool is_odd = around_.faults.silent_probe;
    GpuLook look = around_.machine.look(is_odd && around_.dice.percent(10));
    look.driver_mismatch = is_odd && around_.dice.percent(2);
    if (look.driver_mismatch) look.why = "driver and library are of different versions";
    done(look);
  });
}

// ---- a life ------------------------------------------------------------------------------------

Life::Life(Surroundings& around, std::shared_ptr<const World> before)
    : world(std::make_shared<World>()),
      store(around.disk, *world, around.agenda, around.dice, around.faults,
            [this](const row::Event& row) { check_intent(row); }),
      journal_(*world, store),
      around_(around),
      timers_{.at =
                  [&around](std::int64_t at, std::function<void()> what) {
                    return around.agenda.at(at, Owner::Coordinator, std::move(what));
                  },
              .cancel = [&around](Timers::Id id) { around.agenda.cancel(id); }},
      probe_(around),
      engine_(around, *world, [this](const EngineEvent& event) { core_->on_engine(event); }),
      fake_(
          around.clock,
          [this](std::int64_t at, std::function<void()> what) { timers_.at(at, std::move(what)); },
          [this](const EngineEvent& event) { core_->on_engine(event); }),
      gpus_({.inventory = &probe_,
             .loop = &around.loop,
             .clock = &around.clock,
             .timers = &timers_,
             .ours = [](const GpuProcess& process) { return process.uid == 1000u; }}) {
  const Result<void> loaded = store.load([&](const Row& row) { return world->absorb(row); },
                                         [&] { return world->check_whole(); });
  if (!loaded) throw Violation("the store contradicts itself: " + loaded.error().message);
  if (before) {
    World archived;
    std::set<SweepId> ids;
    for (const auto& [id, sweep] : world->archived()) ids.insert(id);
    const Result<void> read =
        around.disk.replay(ids, [&](const Row& row) { return archived.absorb(row); });
    if (!read) throw Violation("the archive contradicts itself: " + read.error().message);
    for (const Job& job : before->jobs()) {
      const Job* again = world->job(job.id);
      if (again == nullptr) again = archived.job(job.id);
      if (again == nullptr || !(*again == job)) {
        throw Violation("job " + std::to_string(job.id.value) + " is another after a restart");
      }
    }
  }
  pergpu::Machine computer;
  for (int core = 0; core < kCores; ++core) computer.cores.push_back(core);
  computer.memory_bytes = kMemory;
  core_ = std::make_unique<Coordinator>(Coordinator::Parts{
      .world = world.get(),
      .journal = &journal_,
      .local = &engine_,
      .fake = &fake_,
      .gpus = &gpus_,
      .clock = &around.clock,
      .timers = &timers_,
      .machine = std::move(computer),
      .home = "/nowhere",
      .boot_id = around.boot_id,
      .read_environment = [this](SweepId sweep) -> Result<std::string> {
        if (!around_.disk.has_environment(sweep)) {
          // The record of an end may be made again when all jobs of its sweep have ended.
          bool is_open = false;
          world->open_jobs().for_each(
              [&](JobId id) { is_open = is_open || world->job(id)->sweep == sweep; });
          if (is_open) throw Violation("a job is to start, and its sweep's environment is gone");
          return os_error("read the environment of a sweep that has ended", ENOENT);
        }
        return std::string("PATH=/bin\0", 10);
      },
      .changed = [](const std::vector<JobId>&) {}});
  core_->recover();
  gpus_.discover([this] { core_->gpus_discovered(); });
  turn();
}

void Life::turn() {
  core_->settle();
  check();
}

/// Everything that is alive belongs to an attempt that the coordinator knows as the job's last.
void Life::check() const {
  for (const auto& [id, tree] : around_.machine.trees()) {
    if (!tree.alive()) continue;
    if (!world->archived_with(id.job).empty()) continue;  // given up long ago
    const Job* job = world->job(id.job);
    if (job == nullptr) throw Violation("attempt " + to_string(id) + " of no known job is alive");
    if (job->last == nullptr || job->last->number != id.number) {
      throw Violation("attempt " + to_string(id) + " is alive, and it is not the last one");
    }
  }
}

/// A look right before has shown the GPU as it must be.  (What could not be stored is appended
/// again later; it was decided then.)
void Life::check_intent(const row::Event& row) const {
  const auto* start = std::get_if<event::Starting>(&*row.event);
  if (start == nullptr || row.at.boot_ns != around_.clock.boot_ns) return;
  const StepSpec& step = world->step_of(*world->job(row.job)).spec;
  for (const std::string& uuid : start->placement.gpus) {
    around_.machine.check_may_use(uuid, step.outsiders == Outsiders::Avoid,
                                  start->placement.share > 0);
  }
}

}  // namespace pergpu::simulation
