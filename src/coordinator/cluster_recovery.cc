// After a restart: what was handed over lies in the folders of the sweeps.  Of a handover whose
// number was not noted, sbatch may have been killed before it asked, or after: the queue tells.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "coordinator/array_call.h"
#include "coordinator/cluster.h"
#include "os/file.h"

namespace pergpu {

/// A handover that is not closed.
struct Cluster::Found {
  store::Handover handover = {};
  std::string folder = {};
  std::int64_t number = 0;
  bool withdrawn = false;
  std::vector<std::int32_t> closed = {};  // tasks
  std::vector<store::Life> lives = {};
};

namespace {

constexpr std::size_t kLongest = 512u << 20;

std::int64_t noted_number(const std::string& folder) {
  const Result<std::string> text = os::read_file(folder + "/" + kSubmitted, 64);
  return text ? std::atoll(text->c_str()) : 0;
}

}  // namespace

void Cluster::recover(const std::vector<SweepId>& sweeps) {
  to_recover_ = sweeps;
  recovered_ = sweeps.empty();
}

void Cluster::ask_what_was() {
  std::vector<std::string> roots;
  for (const SweepId id : to_recover_) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep != nullptr) roots.push_back(folder_of(*sweep));
  }
  next_look_ns_ = parts_.clock->now().boot_ns + 5 * kSecond;
  busy_ = true;
  parts_.errands->run([this, roots, from = parts_.from]() -> std::function<void()> {
    auto found = std::make_shared<std::vector<Found>>();
    for (const std::string& root : roots) find(root, from, *found);
    std::string trouble;
    for (Found& one : *found) {
      if (one.number != 0) continue;
      Result<std::int64_t> number = number_of(client_, one.handover.key);
      if (number && *number == 0) {
        // A submit that is still on its way finds this when its tasks begin.
        (void)os::write_file_atomic(one.folder + "/" + kWithdrawn, "", 0644, true);
        one.withdrawn = true;
        number = number_of(client_, one.handover.key);
      }
      if (!number) {
        trouble = number.error().message;
        break;
      }
      one.number = *number;
    }
    return [this, found, trouble] {
      busy_ = false;
      trouble_ = trouble;
      if (trouble.empty()) {
        answers_.push_back([this, found] { recovered(std::move(*found)); });
      }
    };
  });
}

/// Which array has this comment; 0: none that Slurm knows of.
Result<std::int64_t> Cluster::number_of(slurm::Client& client, const std::string& key) {
  const Result<std::vector<slurm::QueueRecord>> queue = client.queue();
  if (!queue) return queue.error();
  for (const slurm::QueueRecord& record : *queue) {
    if (record.comment == key) return record.array_job_id;
  }
  return std::int64_t{0};
}

void Cluster::find(const std::string& root, const std::string& from, std::vector<Found>& out) {
  const Result<std::vector<std::string>> keys = os::list_dir(root);
  if (!keys) return;
  for (const std::string& key : *keys) {
    Found found{.folder = root + "/" + key};
    const Result<std::vector<std::string>> names = os::list_dir(found.folder);
    if (!names || std::binary_search(names->begin(), names->end(), kClosed)) continue;
    const Result<std::string> text =
        os::read_file(found.folder + "/" + store::kHandoverName, kLongest);
    if (!text) continue;  // sbatch was not asked yet
    Result<store::Handover> handover = store::handover_of(*text);
    if (!handover || handover->from != from) continue;
    found.handover = *std::move(handover);
    found.number = noted_number(found.folder);
    found.withdrawn = std::binary_search(names->begin(), names->end(), kWithdrawn);
    for (const std::string& name : *names) {
      const std::string begin = std::string(kClosed) + ".";
      if (name.starts_with(begin)) found.closed.push_back(std::atoi(name.c_str() + begin.size()));
    }
    for (const store::RecordName& name : store::lives_in(*names)) {
      Result<store::Life> life = store::read_life(found.folder, name);
      if (life) found.lives.push_back(*std::move(life));
    }
    out.push_back(std::move(found));
  }
}

void Cluster::recovered(std::vector<Found> found) {
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.handover.at_wall_ns < b.handover.at_wall_ns;
  });
  for (const Found& one : found) {
    Array array{.key = one.handover.key,
                .folder = one.folder,
                .jobs_each = one.handover.jobs_each,
                .number = one.number,
                .withdrawn = one.withdrawn};
    for (const store::HandedJob& handed : one.handover.jobs) {
      const Job* job = parts_.world->job(handed.job.id);
      if (job == nullptr || parts_.world->identity(job->id) != handed.job.identity) continue;
      array.step = {job->sweep, job->step};
      Task& task = array.tasks[handed.task];
      task.read = {handed.task, 1, 0};
      task.jobs.push_back(job->id);
    }
    for (const std::int32_t index : one.closed) {
      if (auto task = array.tasks.find(index); task != array.tasks.end())
        task->second.closed = true;
    }
    const std::string key = array.key;
    add(std::move(array));
    std::vector<ToldLife> lives;
    for (const store::Life& life : one.lives) lives.emplace_back(key, life);
    absorb(std::move(lives));
    Array& added = arrays_.at(key);
    if (added.number != 0) continue;
    for (auto& [index, task] : added.tasks) give_back(added, task);  // Slurm never had it
  }
  recovered_ = true;
  next_look_ns_ = 0;
  ask_soon();
  std::vector<JobId> orphans;
  parts_.world->live_jobs().for_each([&](JobId id) {
    const SweepId sweep = parts_.world->job(id)->sweep;
    const bool is_ours =
        std::find(to_recover_.begin(), to_recover_.end(), sweep) != to_recover_.end();
    if (is_ours && !holds(id)) orphans.push_back(id);
  });
  for (const JobId id : orphans) {
    end(id, {.lost = true, .lost_why = "what was handed over to Slurm is not there any more"});
  }
  for (const SweepId id : std::exchange(to_recover_, {})) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr) continue;
    for (const Step& step : sweep->steps) {
      for (const JobId job : step.current) {
        if (job) parts_.refresh(job);
      }
    }
  }
}

}  // namespace pergpu
