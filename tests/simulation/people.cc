// What people ask for, by chance (people.h).
#include "simulation/people.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace pergpu::simulation {
namespace {

constexpr std::size_t kMostFiles = 4;

std::string number(std::int64_t value) { return std::to_string(value); }

}  // namespace

StepSpec People::new_step(std::size_t place) {
  StepSpec step{.name = "step" + number(static_cast<std::int64_t>(place)),
                .command = {"true", "1"}};
  for (std::size_t earlier = 0; earlier < place; ++earlier) {
    if (!dice_.percent(40)) continue;
    step.needs.push_back({.step = static_cast<int>(earlier),
                          .scope = dice_.pick({Need::Scope::SameRun, Need::Scope::SameRun,
                                               Need::Scope::All, Need::Scope::Ended})});
  }
  step.once = dice_.percent(15);
  if (dice_.percent(gpus_ > 0 ? 60 : 0)) {
    step.gpus = 1;
    if (dice_.percent(40)) step.gpu_share = dice_.pick({250, 300, 500, 700});
    if (dice_.percent(20)) step.gpu = dice_.pick({"*A*", gpus_ > 1 ? "*B*" : "*fake*"});
    if (dice_.percent(20)) step.outsiders = Outsiders::Ignore;
  }
  if (dice_.percent(20)) step.cpus = static_cast<int>(dice_.between(1, 8));
  if (dice_.percent(20)) step.memory_bytes = static_cast<std::uint64_t>(dice_.between(1, 64)) << 30;
  if (dice_.percent(30)) {
    step.timeout = std::chrono::milliseconds(dice_.spread(10, 10'000'000));
  }
  if (dice_.percent(20)) {
    const auto longest = step.timeout.value_or(std::chrono::hours(1));
    step.signal = {
        .number = 10,
        .ahead = std::min(longest / 2, std::chrono::milliseconds(dice_.spread(1, 600'000)))};
  }
  step.grace = std::chrono::milliseconds(dice_.spread(10, 100'000));
  if (dice_.percent(50)) {
    step.retries.max = static_cast<int>(dice_.between(0, 3));
    if (dice_.percent(30)) step.retries.delay = std::chrono::milliseconds(dice_.spread(1, 100'000));
    if (dice_.percent(20)) step.retries.on = {OutcomeClass::Exit, OutcomeClass::Timeout};
  }
  step.rerun = !dice_.percent(15);
  if (dice_.percent(25)) step.max_parallel = static_cast<int>(dice_.between(1, 3));
  if (dice_.percent(20)) step.uses = {dice_.one_in(2) ? "disk" : "net"};
  if (dice_.percent(15)) {
    step.max_starting = static_cast<int>(dice_.between(1, 2));
    step.ready = std::chrono::milliseconds(dice_.spread(10, 120'000));
  }
  step.priority = static_cast<int>(dice_.between(-1, 1));
  if (dice_.percent(20)) step.expect = "{x}m";
  return step;
}

People::File People::new_file() {
  File file;
  file.sweep.name = "sweep" + number(static_cast<std::int64_t>(files_.size()));
  file.sweep.folder = "/nowhere";
  file.sweep.columns = {"x"};
  file.sweep.limits = {{"disk", 2}, {"net", 3}};
  const std::int64_t runs = dice_.spread(1, 60);
  for (std::int64_t i = 1; i <= runs; ++i)
    file.sweep.runs.push_back({"{\"x\":" + number(i) + "}", {}});
  const std::int64_t steps = dice_.between(1, 4);
  for (std::int64_t i = 0; i < steps; ++i) {
    file.sweep.steps.push_back(new_step(static_cast<std::size_t>(i)));
  }
  file.lanes = dice_.one_in(2) ? dice_.between(1, 6) : 0;
  return file;
}

/// As an editor leaves it: rows gone, rows new, another command.
void People::change(File& file) {
  std::vector<RunSpec>& runs = file.sweep.runs;
  if (dice_.one_in(2) && runs.size() > 1) {
    runs.erase(runs.begin() + dice_.below(static_cast<std::int64_t>(runs.size())));
  }
  if (dice_.one_in(2)) runs.push_back({"{\"x\":" + number(1000 + ++keys_) + "}", {}});
  if (dice_.one_in(3)) {
    StepSpec& step = file.sweep.steps[static_cast<std::size_t>(
        dice_.below(static_cast<std::int64_t>(file.sweep.steps.size())))];
    step.command.back() += "1";
  }
  file.accepted = false;
}

void People::submit(Life& life) {
  if (asked_) return;
  if (files_.empty() || (files_.size() < kMostFiles && dice_.one_in(3))) {
    files_.push_back(new_file());
    asked_ = Asked{.file = files_.size() - 1};
  } else {
    asked_ = Asked{
        .file = static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(files_.size())))};
    if (dice_.one_in(2)) change(files_[asked_->file]);
  }
  const File& file = files_[asked_->file];
  asked_->context = {.env = {"PATH=/bin"},
                     .lanes = file.lanes,
                     .rerun = dice_.percent(10),
                     .only_new = dice_.percent(10),
                     .add = dice_.percent(20),
                     .key = "key" + number(++keys_)};
  asked_->repeats = file.accepted;
  send(life);
}

void People::send(Life& life) {
  life.core().submit(
      files_[asked_->file].sweep, asked_->context,
      [this, key = asked_->context.key](const Result<SubmitReply>& reply) {
        if (!asked_ || asked_->context.key != key) return;
        const Asked asked = *std::exchange(asked_, std::nullopt);
        if (!reply) {
          if (reply.error().kind == ErrorKind::Corrupt) throw Violation(reply.error().message);
          return;
        }
        for (const std::int64_t job : reply->jobs) {
          if (!history_.knows({job})) {
            throw Violation("job " + number(job) + " was accepted and is not durable");
          }
        }
        if (asked.repeats && reply->fresh != 0) {
          throw Violation("the same sweep again has added " + number(reply->fresh) + " jobs");
        }
        files_[asked.file].accepted = true;
      });
}

void People::insist(Life& life) {
  if (asked_) send(life);
}

std::vector<JobId> People::choose_jobs(const World& world) {
  std::vector<JobId> out;
  const std::int64_t count = world.next_job_id().value - 1;
  const std::int64_t first = dice_.between(1, count);
  const std::int64_t last = std::min(count, first + dice_.spread(1, 16) - 1);
  for (std::int64_t id = first; id <= last; ++id) out.push_back({id});
  return out;
}

void People::act(Life& life) {
  if (life.world->next_job_id() == JobId{1} || dice_.percent(30)) return submit(life);
  const std::vector<JobId> jobs = choose_jobs(*life.world);
  std::vector<SweepId> archived;
  for (const JobId job : jobs) {
    for (const SweepId sweep : life.world->archived_with(job)) archived.push_back(sweep);
  }
  life.core().fetch(archived, [this, &life, jobs](const Result<void>& there) {
    if (!there) throw Violation(there.error().message);
    for (const JobId job : jobs) {
      if (life.world->job(job) == nullptr) throw Violation("a job that was fetched is not there");
    }
    if (!life.core().frozen()) ask(life, jobs);  // the server makes such requests wait
  });
}

void People::ask(Life& life, const std::vector<JobId>& jobs) {
  Coordinator& core = life.core();
  switch (dice_.below(8)) {
    case 0:
      (void)core.cancel(jobs, dice_.one_in(4), "cancelled by hand");
      break;
    case 1:
      (void)core.hold(jobs, "held by hand");
      break;
    case 2:
    case 3:
      (void)core.release(jobs);
      break;
    case 4:
    case 5:
      (void)core.retry(jobs);
      break;
    case 6:
      core.interrupt(life.world->job(jobs.front())->sweep, static_cast<int>(dice_.between(1, 3)));
      break;
    default:
      submit(life);
      break;
  }
}

void People::release_all(Life& life) {
  std::vector<JobId> held;
  for (const Job& job : life.world->jobs()) {
    if (job.state == JobState::Held) held.push_back(job.id);
  }
  if (!held.empty() && !life.core().frozen()) (void)life.core().release(held);
}

void People::release_gpus(Life& life, Machine& machine) {
  if (life.core().frozen()) return;
  for (const GpuSnapshot& gpu : life.core().gpu_lanes().gpus()) {
    if (gpu.state != "quarantined") continue;
    const auto one = std::find_if(machine.gpus().begin(), machine.gpus().end(),
                                  [&](const Gpu& g) { return g.reading.uuid == gpu.uuid; });
    const bool is_lemon = gpu.why.find("different steps failed on it") != std::string::npos;
    if (!is_lemon && !one->needs_a_person) continue;
    if (life.core().release_gpus(gpu.uuid)) machine.released(gpu.uuid);
  }
}

}  // namespace pergpu::simulation
