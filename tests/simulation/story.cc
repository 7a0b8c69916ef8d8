// The order of a story: trouble for some thousand events, then peace (story.h).
#include "simulation/story.h"

#include <utility>

#include "gpu/lease.h"

namespace pergpu::simulation {
namespace {

constexpr std::int64_t kMostInPeace = 500'000;

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  events += other.events;
  jobs += other.jobs;
  journal_events += other.journal_events;
  outcomes += other.outcomes;
  kills += other.kills;
  power_cuts += other.power_cuts;
  keeper_kills += other.keeper_kills;
  full_disks += other.full_disks;
  simulated_s += other.simulated_s;
  fingerprint ^= other.fingerprint;
  return *this;
}

Story::Story(std::uint64_t seed, os::Loop& loop, bool shows)
    : dice_(seed),
      agenda_(clock_),
      faults_(Faults::choose(dice_)),
      machine_(clock_, agenda_, dice_, faults_, dice_.pick({0, 1, 2, 4, 8})),
      history_([this](AttemptId id) -> const Truth& { return machine_.truth(id); }, shows),
      disk_([this](const Row& row, int allowed_retries) { history_.take(row, allowed_retries); }),
      around_{clock_, agenda_, dice_, faults_, machine_, disk_, history_, loop, "boot-1"},
      people_(dice_, history_, machine_.gpus().size()) {}

Tally Story::run() {
  const std::int64_t troubled = dice_.spread(200, 6000);
  begin_life();
  person();
  trouble();
  while (tally_.events < troubled) step();
  bring_peace();
  for (std::int64_t steps = 0; !is_over(); ++steps) {
    if (agenda_.empty()) throw Violation("nothing is left to happen: " + what_waits());
    if (steps > kMostInPeace) throw Violation("the queue does not drain: " + what_waits());
    step();
  }
  check_end();
  tally_.jobs = static_cast<std::int64_t>(history_.job_count());
  tally_.journal_events = history_.event_count();
  tally_.outcomes = history_.outcome_count();
  tally_.fingerprint = history_.fingerprint();
  tally_.simulated_s += clock_.boot_ns / kSecond;
  return tally_;
}

void Story::step() {
  ++tally_.events;
  try {
    agenda_.step();
    if (life_) life_->turn();
  } catch (const Killed&) {
    kill(false);
  }
}

void Story::begin_life() {
  if (life_) return;
  try {
    life_ = std::make_unique<Life>(around_, std::exchange(before_, nullptr));
    people_.insist(*life_);
  } catch (const Killed&) {
    kill(false);
  }
}

void Story::kill(bool with_power) {
  ++(with_power ? tally_.power_cuts : tally_.kills);
  faults_.kill_at = 0;
  before_.reset();
  if (life_) {
    if (life_->is_durable()) before_ = life_->world;
    if (!with_power) life_->store.kill();
  }
  life_.reset();
  machine_.disconnect();
  if (with_power) {
    machine_.restart();
    agenda_.cancel_all(Owner::People);
    tally_.simulated_s += clock_.boot_ns / kSecond;
    clock_.wall_offset += clock_.boot_ns + dice_.spread(kSecond, kHour);
    clock_.boot_ns = kSecond;
    around_.boot_id = "boot-" + std::to_string(++boots_);
    before_.reset();  // what was live is ended by the restart
    if (!is_peace_) {
      person();
      trouble();
    }
  }
  // Keepers and clients start the next one by themselves.
  agenda_.in(dice_.spread(kMillisecond, 12 * kSecond), Owner::Machine, [this] { begin_life(); });
}

void Story::person() {
  agenda_.in(dice_.spread(10 * kMillisecond, 1000 * kSecond), Owner::People, [this] {
    if (is_peace_) return;
    person();
    if (life_) people_.act(*life_);
  });
}

void Story::trouble() {
  agenda_.in(dice_.spread(10 * kMillisecond, 1000 * kSecond), Owner::People, [this] {
    if (is_peace_) return;
    trouble();
    trouble_strikes();
  });
}

void Story::trouble_strikes() {
  if (faults_.kills && dice_.one_in(4)) faults_.kill_at = dice_.spread(1, 64);
  if (faults_.keeper_kills && dice_.one_in(4)) {
    ++tally_.keeper_kills;
    machine_.kill_a_keeper();
  }
  machine_.shake_gpus();
  if (faults_.wall_clock && dice_.one_in(10)) {
    clock_.wall_offset += dice_.between(-kHour, kHour);
  }
  if (faults_.full_disks && life_ && dice_.one_in(10)) {
    ++tally_.full_disks;
    life_->store.is_full = true;
    agenda_.in(dice_.spread(kMillisecond, 100 * kSecond), Owner::Coordinator,
               [this] { life_->store.is_full = false; });
  }
  if (faults_.power_cuts && dice_.one_in(20)) kill(true);
}

void Story::bring_peace() {
  is_peace_ = true;
  faults_.stop();
  machine_.heal();
  if (life_) {
    life_->store.is_full = false;
    people_.insist(*life_);
    life_->turn();
  }
}

/// Every job has ended; nobody waits for an answer.
bool Story::is_over() {
  if (!life_ || people_.waits_for_answer() || !life_->is_durable()) return false;
  people_.release_gpus(*life_, machine_);
  if (!life_->core().idle()) return false;
  for (const GpuSnapshot& gpu : life_->core().gpu_lanes().gpus()) {
    if (gpu.state == "quarantined") return false;  // all are well
  }
  bool any_left = false;
  for (const Job& job : life_->world->jobs()) any_left = any_left || !is_ended(job.state);
  if (any_left) {
    people_.release_all(*life_);
    life_->turn();
  }
  return !any_left;
}

std::string Story::what_waits() const {
  if (!life_) return "there is no coordinator";
  std::string words = people_.waits_for_answer() ? "a submit has no answer" : "";
  if (!life_->is_durable()) words += "; the store is not done";
  words += " " + std::to_string(life_->core().ready_count()) + " ready";
  for (const LaneSnapshot& lane : life_->core().gpu_lanes().lanes()) {
    words += "\n  " + lane.uuid + " " + lane.state + ": " + lane.why;
  }
  for (const Job& job : life_->world->jobs()) {
    if (is_ended(job.state)) continue;
    words += "\n  job " + std::to_string(job.id.value) + " (" + life_->world->path_of(job) + ") " +
             std::string(to_string(job.state)) + ": " + life_->core().why(job);
  }
  return words;
}

void Story::check_end() {
  if (machine_.alive() != 0) throw Violation("everything has ended, and something still runs");
  if (!machine_.empty()) {
    throw Violation("attempt " + to_string(machine_.trees().begin()->first) +
                    " was never acknowledged to its keeper");
  }
  before_ = life_->world;
  life_.reset();
  machine_.disconnect();
  const Result<gpu::LeaseFolder> others = gpu::LeaseFolder::open();
  for (const Gpu& one : machine_.gpus()) {
    if (!others->take(one.reading.uuid)) {
      throw Violation("the lease of " + one.reading.uuid + " is left");
    }
  }
  // One more restart finds the same jobs and starts nothing.
  begin_life();
  if (!life_->core().idle()) throw Violation("a restart after the end has found something to do");
}

}  // namespace pergpu::simulation
