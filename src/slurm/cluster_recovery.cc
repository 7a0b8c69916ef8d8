// After a restart, or on another machine: what was handed over lies in the folders of the sweeps.
// Of a handover whose number was not noted, sbatch may have been killed before it asked, or after:
// the queue shows it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "run/environment.h"
#include "slurm/array_call.h"
#include "slurm/cluster.h"
#include "slurm/handover_search.h"
#include "store/result_file.h"

namespace pergpu {

namespace {

constexpr std::int64_t kRecoveryPause = 5 * kSecond;

bool is_new(const Sweep& sweep, const World& world) {
  return std::all_of(sweep.steps.begin(), sweep.steps.end(), [&](const Step& step) {
    return std::all_of(step.current.begin(), step.current.end(), [&](JobId id) {
      return !id || (world.job(id)->attempts == 0 && !world.replaces(id));
    });
  });
}

/// Which jobs of this coordinator are those of a handover: others number them in their own way.
class JobsHere {
 public:
  JobsHere(const World& world, const Sweep& sweep, const store::Handover& handover)
      : world_(world), sweep_(sweep) {
    for (std::size_t run = 0; run < sweep.runs.size(); ++run) {
      runs_.emplace(sweep.runs[run].folder(), static_cast<std::int32_t>(run));
    }
    for (const row::Run& run : handover.runs) folders_.emplace(run.index, run.folder);
  }

  bool is(JobId id, const store::HandedJob& handed) const {
    const Job* job = id ? world_.job(id) : nullptr;
    return job != nullptr && job->sweep == sweep_.id && world_.identity(id) == handed.job.identity;
  }
  /// The job that works in the folder which this one was to work in; 0: there is none.
  JobId in_its_folder(const store::HandedJob& handed) const {
    for (std::size_t slot = 0; slot < sweep_.steps.size(); ++slot) {
      if (sweep_.steps[slot].spec.name != handed.job.step_name) continue;
      const auto index = static_cast<int>(slot);
      if (handed.job.run < 0) return World::current(sweep_, index, -1);
      const auto folder = folders_.find(handed.job.run);
      const auto run = folder == folders_.end() ? runs_.end() : runs_.find(folder->second);
      return run == runs_.end() ? JobId{} : World::current(sweep_, index, run->second);
    }
    return {};
  }

 private:
  const World& world_;
  const Sweep& sweep_;
  std::unordered_map<std::string, std::int32_t> runs_;     // by folder
  std::unordered_map<std::int32_t, std::string> folders_;  // of runs as they were handed over
};

}  // namespace

void Cluster::recover(const std::vector<SweepId>& sweeps) {
  to_recover_ = {sweeps.begin(), sweeps.end()};
}

void Cluster::arrive(SweepId sweep) {
  to_recover_.insert(sweep);
  arriving_.insert(sweep);
  next_recovery_ns_ = 0;
}

void Cluster::ask_what_was() {
  next_recovery_ns_ = parts_.clock->now().boot_ns + kRecoveryPause;
  std::vector<HandoverQuestion> questions;
  for (const SweepId id : to_recover_) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr) continue;
    const bool arrives = arriving_.contains(id);
    const bool begins = arrives && is_new(*sweep, *parts_.world);
    HandoverQuestion question{.sweep = id,
                              .from = parts_.from,
                              .root = folder_of(*sweep),
                              .homes = {sweep->root},
                              .umask = sweep->context.umask,
                              .takes = arrives,
                              .is_known = recovered_.contains(id),
                              .is_new = begins,
                              .reruns = begins && sweep->context.rerun};
    // Elsewhere it may be on another file system.
    if (sweep->root.starts_with(sweep->spec.folder + "/")) {
      question.homes.push_back(sweep->spec.folder);
    }
    for (const auto& [key, array] : arrays_) {
      if (array.others.empty()) question.known.insert(key);
      if (array.step.sweep == id && !array.others.empty()) question.is_known = false;
    }
    questions.push_back(std::move(question));
  }
  std::erase_if(to_recover_, [&](SweepId id) {
    return parts_.world->sweep(id) == nullptr || parts_.world->is_forgotten(id);
  });
  busy_ = true;
  parts_.errands->run([this, questions, paths = search_paths()]() -> std::function<void()> {
    search_in(paths);
    auto answers = std::make_shared<std::vector<std::pair<SweepId, HandoverAnswer>>>();
    for (const HandoverQuestion& question : questions) {
      answers->emplace_back(question.sweep, answer(question));
    }
    return [this, answers] {
      busy_ = false;
      for (auto& [sweep, one] : *answers) {
        if (!one.trouble.empty()) {
          troubles_[sweep] = one.trouble;
          next_recovery_ns_ = parts_.clock->now().boot_ns + kRecoveryPause;
          recovered_.erase(sweep);  // the claim may be written and the rest unread
          continue;
        }
        answers_.push_back([this, sweep = sweep, told = std::move(one)] {
          if (arriving_.contains(sweep) && !told.takes) return;  // it has been submitted since
          told.is_known ? knows_again(sweep) : recovered(sweep, told.found, told.claimant);
        });
      }
    };
  });
}

/// Where Slurm's programs may be, too: this one may have been started before their module was
/// loaded.
std::vector<std::string> Cluster::search_paths() const {
  std::set<SweepId> sweeps = to_recover_;
  for (const auto& [id, jobs] : wanted_) sweeps.insert(id);
  std::vector<std::string> out;
  for (const SweepId id : sweeps) {
    const Result<std::string> environment = parts_.read_environment(id);
    if (!environment) continue;
    for (const std::string& entry : entries_of(*environment)) {
      if (entry.starts_with("PATH=")) out.push_back(entry.substr(5));
    }
  }
  return out;
}

/// For an errand.
void Cluster::search_in(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    client_.search_also(path);
    if (steps_) steps_->search_also(path);
  }
}

HandoverAnswer Cluster::answer(const HandoverQuestion& question) {
  Result<HandoverAnswer> found = find_handovers(question);
  if (!found) return {.trouble = found.error().message};
  HandoverAnswer out = *std::move(found);
  for (FoundHandover& one : out.found) {
    if (one.number != 0 || one.closed.all || one.owner.who != parts_.from) continue;
    const Result<Doubt> doubt =
        settle_doubt(one.folder, one.handover.key, handover_mode(question.umask));
    if (!doubt) return {.trouble = doubt.error().message};
    one.number = doubt->number;
    one.withdrawn = one.withdrawn || doubt->withdrawn;
  }
  return out;
}

Result<std::int64_t> Cluster::number_of(const std::string& key) {
  const Result<std::vector<slurm::QueueRecord>> queue = ask_queue();
  if (!queue) return queue.error();
  for (const slurm::QueueRecord& record : *queue) {
    if (record.comment == key) return record.array_job_id;
  }
  return std::int64_t{0};
}

Result<Cluster::Doubt> Cluster::settle_doubt(const std::string& folder, const std::string& key,
                                             mode_t mode) {
  Result<std::int64_t> number = number_of(key);
  if (!number) return number.error();
  if (*number != 0) return Doubt{*number};
  // A submit that is still on its way finds this when its tasks begin.
  Result<void> written = store::write_result_file(folder, kWithdrawn, "", mode, true);
  if (!written) return written.error();
  number = number_of(key);
  if (!number) return number.error();
  if (*number != 0 && !steps_) {
    Result<void> cancelled = client_.cancel_pending(*number);
    if (!cancelled) return cancelled.error();
  }
  return Doubt{*number, true};
}

void Cluster::knows_again(SweepId id) {
  to_recover_.erase(id);
  arriving_.erase(id);
  troubles_.erase(id);
}

void Cluster::recovered(SweepId id, std::vector<FoundHandover> found, const std::string& claimant) {
  knows_again(id);
  const Sweep* sweep = parts_.world->sweep(id);
  if (sweep == nullptr) return;
  recovered_.insert(id);
  std::sort(found.begin(), found.end(), [](const FoundHandover& a, const FoundHandover& b) {
    return a.handover.at_wall_ns < b.handover.at_wall_ns;
  });
  std::erase_if(found, [this](const FoundHandover& one) {
    const auto it = arrays_.find(one.handover.key);
    return it != arrays_.end() && it->second.others.empty();
  });
  for (const FoundHandover& one : found) {
    const auto it = arrays_.find(one.handover.key);
    if (it != arrays_.end()) stop_looking_at(it->second);  // it is looked at again
    go_on_with(one);
  }
  // Only now is known which handover of a job is its last.
  for (const FoundHandover& one : found) close_found(one);
  next_look_ns_ = 0;
  ask_soon();
  end_orphans(id);
  const bool is_ours = claimant.empty() || claimant == parts_.from;
  if (!is_ours) leave_rest_to(claimant, id);
  lanes_of(id);
  end_again(id);
  for (const Step& step : sweep->steps) {
    for (const JobId job : step.current) {
      if (!job) continue;
      if (is_ours) let_go(job);
      parts_.refresh(job);
    }
  }
}

void Cluster::go_on_with(const FoundHandover& found) {
  Array array{.key = found.handover.key,
              .folder = found.folder,
              .node = found.handover.node,
              .others = found.owner.who == parts_.from ? std::string() : found.owner.who,
              .jobs_each = found.handover.jobs_each,
              .at_wall_ns = found.handover.at_wall_ns,
              .number = found.number,
              .withdrawn = found.withdrawn};
  array.step.sweep = found.sweep;
  const JobsHere jobs(*parts_.world, *parts_.world->sweep(found.sweep), found.handover);
  for (const store::HandedJob& handed : found.handover.jobs) {
    const bool has_its_number = !found.is_new_here && jobs.is(handed.job.id, handed);
    const JobId id = has_its_number ? handed.job.id : jobs.in_its_folder(handed);
    if (!jobs.is(id, handed)) {
      if (id && found.is_new_here && !found.closed.all) hold_beside(found, handed, id);
      continue;
    }
    array.step.step = parts_.world->job(id)->step;
    Task& task = array.tasks[handed.task];
    task.read = {handed.task, 1, 0};
    task.jobs.push_back(id);
    if (found.told_to_end.contains(handed.job.id)) task.told_to_end.insert(id);
    task.was_held = found.was_held.contains(handed.task);
    if (id != handed.job.id) array.numbered.emplace(id, handed.job.id);
    if (found.is_new_here) catch_up(id, handed.state);
    if (array.others.empty()) let_go(id);
  }
  if (array.tasks.empty() && found.is_new_here) return;
  for (auto& [index, task] : array.tasks) {
    task.closed = !found.is_new_here && found.closed.has(index);  // the store has all of it
  }
  const std::string key = array.key;
  add(std::move(array));
  std::vector<ToldLife> lives;
  for (const store::Life& life : found.lives) lives.emplace_back(key, life);
  absorb(lives);
}

void Cluster::close_found(const FoundHandover& found) {
  if (found.owner == Owner{parts_.from, true}) knows_all_of(found.folder, mode_of(found.sweep));
  const auto it = arrays_.find(found.handover.key);
  if (it == arrays_.end()) return;
  Array& array = it->second;
  close_as_told(array, found.closed);
  if (!array.others.empty()) leave_to_others(array);
  if (array.number == 0 && array.others.empty()) {
    for (auto& [index, task] : array.tasks) give_back(array, task);  // Slurm never had it
  }
}

/// What Slurm does not show of an array that it may have taken.  False: there is nothing to ask.
bool Cluster::withdraw() {
  std::erase_if(to_withdraw_, [this](const std::string& key) {
    const auto it = arrays_.find(key);
    return it == arrays_.end() || it->second.number != 0 || it->second.open == 0;
  });
  if (to_withdraw_.empty()) return false;
  const std::string key = *to_withdraw_.begin();
  const Array& array = arrays_.at(key);
  busy_ = true;
  parts_.errands->run([this, key, folder = array.folder,
                       mode = mode_of(array.step.sweep)]() -> std::function<void()> {
    const Result<Doubt> doubt = settle_doubt(folder, key, mode);
    return [this, key, doubt] {
      busy_ = false;
      next_withdrawal_ns_ = parts_.clock->now().boot_ns + kRecoveryPause;
      answers_.push_back([this, key, doubt] { withdrew(key, doubt); });
    };
  });
  return true;
}

void Cluster::withdrew(const std::string& key, const Result<Doubt>& doubt) {
  const auto it = arrays_.find(key);
  if (it == arrays_.end()) return;
  if (!doubt) {
    trouble_ = doubt.error().message;
    return;
  }
  to_withdraw_.erase(key);
  Array& array = it->second;
  array.number = doubt->number;
  array.withdrawn = doubt->withdrawn;
  if (array.number != 0) return ask_soon();  // Slurm reports the end of its tasks
  for (auto& [index, task] : array.tasks) close(array, index, task);
}

/// Two may not work in one folder: not before it has ended, whose command was another one.
void Cluster::hold_beside(const FoundHandover& found, const store::HandedJob& handed, JobId id) {
  const bool has_ended =
      std::any_of(found.lives.begin(), found.lives.end(), [&](const store::Life& life) {
        return life.task == handed.task && life.whole && life.file.closed;
      });
  // A number is noted of all that Slurm has: without one it is given back.
  const bool was_taken = found.number != 0 || found.owner.who != parts_.from;
  if (has_ended || !was_taken || found.closed.has(handed.task)) return;
  if (parts_.world->job(id)->state != JobState::Queued) return;
  if (found.number == 0) {
    const char* words =
        "another pergpu has queued a task with a different command for its folder: release the job "
        "when that task has ended";
    parts_.record(id, event::Held{words}, parts_.clock->now());
    return;
  }
  const std::string task = fmt::format("{}_{}", found.number, handed.task);
  parts_.record(id,
                event::Held{fmt::format("Slurm job {} uses its folder with a different command: "
                                        "run `scancel {}`, then release the job",
                                        task, task)},
                parts_.clock->now());
}

/// It had a history before it was handed over, which is in no record.
void Cluster::catch_up(JobId id, const event::Folded& state) {
  const Job& job = *parts_.world->job(id);
  const bool has_none = job.state == JobState::Queued && job.attempts == 0 && !job.last;
  if (has_none && state.attempts > 0) parts_.record(id, state, parts_.clock->now());
}

void Cluster::end_orphans(SweepId sweep) {
  std::vector<JobId> orphans;
  parts_.world->live_jobs().for_each([&](JobId id) {
    if (parts_.world->job(id)->sweep == sweep && !holds(id)) orphans.push_back(id);
  });
  for (const JobId id : orphans) {
    end(id, {.lost = true, .lost_why = "its submission to Slurm no longer exists"});
  }
}

}  // namespace pergpu
