// After a restart, or on another machine: what was handed over lies in the folders of the sweeps.
// Of a handover whose number was not noted, sbatch may have been killed before it asked, or after:
// the queue tells.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "coordinator/array_call.h"
#include "coordinator/cluster.h"
#include "os/file.h"

namespace pergpu {

/// A handover, as its folder tells of it.
struct Cluster::Found {
  SweepId sweep = {};
  store::Handover handover = {};
  std::string folder = {};
  Owner owner = {};
  std::int64_t number = 0;
  bool withdrawn = false;
  bool is_new_here = false;  // the store does not have all yet that came of it
  ClosedTasks closed = {};
  std::vector<store::Life> lives = {};
};

/// What is to be found out of a sweep.
struct Cluster::Question {
  SweepId sweep = {};
  std::string root = {};
  std::set<std::string> known = {};  // keys
  bool takes = false;                // what is others' is taken over
  bool is_new = false;               // none of its jobs has begun, as far as is known here
};

namespace {

constexpr std::size_t kLongest = 512u << 20;

std::int64_t noted_number(const std::string& folder) {
  const Result<std::string> text = os::read_file(folder + "/" + kSubmitted, 64);
  return text ? std::atoll(text->c_str()) : 0;
}

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
      runs_.emplace(sweep.runs[run].folder, static_cast<std::int32_t>(run));
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
  recovered_ = sweeps.empty();
}

void Cluster::arrive(SweepId sweep) {
  to_recover_.insert(sweep);
  arriving_.insert(sweep);
  recovered_ = false;
  next_look_ns_ = 0;
}

void Cluster::ask_what_was() {
  std::vector<Question> questions;
  for (const SweepId id : to_recover_) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr) continue;
    const bool arrives = arriving_.contains(id);
    Question question{.sweep = id,
                      .root = folder_of(*sweep),
                      .takes = arrives,
                      .is_new = arrives && is_new(*sweep, *parts_.world)};
    for (const auto& [key, array] : arrays_) {
      if (array.others.empty()) question.known.insert(key);
    }
    questions.push_back(std::move(question));
  }
  next_look_ns_ = parts_.clock->now().boot_ns + 5 * kSecond;
  busy_ = true;
  parts_.errands->run([this, questions, from = parts_.from]() -> std::function<void()> {
    auto found = std::make_shared<std::vector<Found>>();
    std::string trouble;
    for (const Question& question : questions) {
      if (Result<void> read = find(question, from, *found); !read) trouble = read.error().message;
    }
    for (Found& one : *found) {
      if (one.number != 0 || one.closed.all || one.owner.who != from || !trouble.empty()) continue;
      Result<std::int64_t> number = number_of(one.handover.key);
      if (number && *number == 0) {
        // A submit that is still on its way finds this when its tasks begin.
        (void)os::write_file_atomic(one.folder + "/" + kWithdrawn, "", 0644, true);
        one.withdrawn = true;
        number = number_of(one.handover.key);
      }
      if (!number) {
        trouble = number.error().message;
        break;
      }
      one.number = *number;
    }
    std::set<SweepId> asked;
    for (const Question& question : questions) asked.insert(question.sweep);
    return [this, found, trouble, asked] {
      busy_ = false;
      trouble_ = trouble;
      if (!trouble.empty()) return;
      answers_.push_back([this, found, asked] { recovered(asked, std::move(*found)); });
    };
  });
}

/// Which array has this comment; 0: none that Slurm knows of.
Result<std::int64_t> Cluster::number_of(const std::string& key) {
  const Result<std::vector<slurm::QueueRecord>> queue = ask_queue();
  if (!queue) return queue.error();
  for (const slurm::QueueRecord& record : *queue) {
    if (record.comment == key) return record.array_job_id;
  }
  return std::int64_t{0};
}

Result<void> Cluster::find(const Question& question, const std::string& from,
                           std::vector<Found>& out) {
  const Result<std::vector<std::string>> keys = os::list_dir(question.root);
  // A file system that does not answer is not an empty one.
  if (!keys && keys.error().kind != ErrorKind::NotFound) return keys.error();
  if (!keys) return {};
  for (const std::string& key : *keys) {
    if (question.known.contains(key)) continue;
    Found found{.sweep = question.sweep, .folder = question.root + "/" + key};
    const Result<std::vector<std::string>> names = os::list_dir(found.folder);
    if (!names) continue;
    std::optional<Owner> owner = owner_of(found.folder);
    if (!owner) continue;  // sbatch was not asked yet
    found.closed = closed_tasks(*names);
    if (found.closed.all && *owner == Owner{from}) continue;  // the store has all of it
    const Result<std::string> text =
        os::read_file(found.folder + "/" + store::kHandoverName, kLongest);
    if (!text) continue;  // as above
    Result<store::Handover> handover = store::handover_of(*text);
    if (!handover) continue;
    found.handover = *std::move(handover);
    if (question.takes && owner->who != from) {
      owner = Owner{from, true};
      Result<void> taken =
          os::write_file_atomic(found.folder + "/" + kOwner, to_text(*owner), 0644, true);
      if (!taken) return taken;
    }
    found.owner = *owner;
    found.is_new_here = question.is_new || *owner != Owner{from};
    found.number = noted_number(found.folder);
    found.withdrawn = std::binary_search(names->begin(), names->end(), kWithdrawn);
    for (const store::RecordName& name : store::lives_in(*names)) {
      Result<store::Life> life = store::read_life(found.folder, name);
      if (!life && life.error().kind != ErrorKind::NotFound) return std::move(life).error();
      if (life) found.lives.push_back(*std::move(life));
    }
    out.push_back(std::move(found));
  }
  return {};
}

void Cluster::recovered(const std::set<SweepId>& asked, std::vector<Found> found) {
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.handover.at_wall_ns < b.handover.at_wall_ns;
  });
  std::map<SweepId, std::string> newest;  // whose it is
  for (const Found& one : found) {
    if (parts_.world->sweep(one.sweep) == nullptr) continue;
    if (const auto it = arrays_.find(one.handover.key); it != arrays_.end()) {
      if (it->second.others.empty()) continue;
      stop_looking_at(it->second);  // it is looked at anew
    }
    go_on_with(one);
    newest[one.sweep] = one.owner.who;
    if (one.owner == Owner{parts_.from, true}) knows_all_of(one.folder);
  }
  for (const SweepId id : asked) {
    to_recover_.erase(id);
    arriving_.erase(id);
  }
  recovered_ = to_recover_.empty();
  next_look_ns_ = 0;
  ask_soon();
  end_orphans(asked);
  for (const auto& [sweep, owner] : newest) {
    if (owner != parts_.from) leave_rest_to(owner, sweep);
  }
  for (const SweepId id : asked) {
    const Sweep* sweep = parts_.world->sweep(id);
    if (sweep == nullptr) continue;
    lanes_of(id);
    for (const Step& step : sweep->steps) {
      for (const JobId job : step.current) {
        if (job) parts_.refresh(job);
      }
    }
  }
}

void Cluster::go_on_with(const Found& found) {
  Array array{.key = found.handover.key,
              .folder = found.folder,
              .node = found.handover.node,
              .others = found.owner.who == parts_.from ? std::string() : found.owner.who,
              .jobs_each = found.handover.jobs_each,
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
  absorb(std::move(lives));
  Array& added = arrays_.at(key);
  close_as_told(added, found.closed);
  if (!added.others.empty()) leave_to_others(added);
  if (added.number != 0 || !added.others.empty()) return;
  for (auto& [index, task] : added.tasks) give_back(added, task);  // Slurm never had it
}

/// Two may not work in one folder: not before it has ended, whose command was another one.
void Cluster::hold_beside(const Found& found, const store::HandedJob& handed, JobId id) {
  const bool has_ended =
      std::any_of(found.lives.begin(), found.lives.end(), [&](const store::Life& life) {
        return life.task == handed.task && life.whole && life.file.closed;
      });
  if (has_ended || parts_.world->job(id)->state != JobState::Queued) return;
  const std::string task = fmt::format("{}_{}", found.number, handed.task);
  parts_.record(id,
                event::Held{fmt::format("Slurm job {} has its folder for another command: `scancel "
                                        "{}`, then release it",
                                        task, task)},
                parts_.clock->now());
}

/// It had a history before it was handed over, of which no record tells.
void Cluster::catch_up(JobId id, const event::Folded& state) {
  const Job& job = *parts_.world->job(id);
  const bool has_none = job.state == JobState::Queued && job.attempts == 0 && !job.last;
  if (has_none && state.attempts > 0) parts_.record(id, state, parts_.clock->now());
}

void Cluster::end_orphans(const std::set<SweepId>& sweeps) {
  std::vector<JobId> orphans;
  parts_.world->live_jobs().for_each([&](JobId id) {
    if (sweeps.contains(parts_.world->job(id)->sweep) && !holds(id)) orphans.push_back(id);
  });
  for (const JobId id : orphans) {
    end(id, {.lost = true, .lost_why = "what was handed over to Slurm is not there any more"});
  }
}

}  // namespace pergpu
