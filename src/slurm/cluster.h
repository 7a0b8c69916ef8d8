// What the coordinator knows of sweeps whose jobs a cluster runs.
//
// A job goes: wanted -> handed over (a folder with the handover, durable; then sbatch) -> its
// task's records are absorbed as they appear -> given back, when the task is closed: by its own
// last word, or because the cluster says that it has ended.
//
// The folders `<sweep>/.slurm/<key>/` are the truth about what was handed over; this object only
// remembers them.  They lie on the shared file system, so that another coordinator of the same user
// can go on with them (cluster_recovery.cc):
//   owner            whose it is (handover_owner.h)
//   handover.jsonl   written before sbatch is asked
//   submitted        the cluster's number of the array, written when sbatch has answered
//   withdrawn        it is not to run: tasks that come up find it and leave
//   closed           all of its tasks are; nothing of it is looked at again
//
// In an allocation of several nodes that was there before, "sbatch" is srun, an array is one job,
// and what it needs has ended before it is handed over (cluster_steps.cc).
//
// Everything that may block (files of the shared file system, Slurm's commands) is an errand: it
// runs on a separate thread, and what it finds comes back in a later turn.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "job/classify.h"
#include "os/clock.h"
#include "run/errands.h"
#include "slurm/array_call.h"
#include "slurm/cluster_lanes.h"
#include "slurm/handover_owner.h"
#include "slurm/handover_plan.h"
#include "slurm/handover_search.h"
#include "slurm/node_room.h"
#include "slurm/slurm_client.h"
#include "slurm/slurm_queue.h"
#include "slurm/slurm_steps.h"
#include "slurm/submit_pauses.h"
#include "state/world.h"
#include "store/present.h"
#include "store/records.h"
#include "timers.h"

namespace pergpu {

class Cluster {
 public:
  /// Beside the runs of a sweep: what was handed over.
  static constexpr char kFolder[] = ".slurm";

  struct Parts {
    const World* world = nullptr;
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    Errands* errands = nullptr;
    std::string from = {};        // this host and home, for the handovers
    std::string pergpu = {};      // the program, as the nodes find it
    std::string allocation = {};  // whose nodes are used; "": arrays go into the cluster's queue
    std::function<Result<std::string>(SweepId)> read_environment = {};
    // What a task reports, or what became of it, happens to the job.
    std::function<void(JobId, JobEvent, Instant)> record = {};
    std::function<void(row::Usage)> keep = {};
    /// A live attempt ended without a record; `writes`: its record is ours to close.
    std::function<void(JobId, const Evidence&, bool writes)> end = {};
    std::function<void(JobId, const std::string& reason)> cancel = {};
    std::function<void(JobId)> refresh = {};
    std::function<void(JobId)> touch = {};  // what is shown of it has changed
    /// Runs it once all that was recorded so far is durable.
    std::function<void(std::function<void()>)> when_durable = {};
    /// Runs it when this child has ended.
    std::function<void(std::shared_ptr<os::Spawned>, std::function<void()>)> when_ended = {};
  };
  explicit Cluster(Parts parts);

  /// Finds out what of these sweeps was handed over before.  Nothing of a sweep is handed over
  /// until then.
  void recover(const std::vector<SweepId>& sweeps);
  /// It was submitted, perhaps once more.  What a coordinator on another machine has handed over of
  /// it is this one's from now on.
  void arrive(SweepId sweep);
  /// Queued, and nothing it needs has failed: to be handed over as soon as what it waits for can be
  /// expressed to the cluster.  Again and again is the same as once.
  void want(JobId job);
  /// It is not to run any more: cancelled, held, or its row is gone.  The cluster is notified about
  /// what was handed over.
  void leave(JobId id);
  /// Its live attempt is to be ended; the records will show it.
  void stop(JobId id);
  /// Hands over, absorbs.  Once a turn; `may_change`: the store can be written.
  void settle(bool may_change);

  /// The site's longest array; nullopt: it was not asked yet.
  std::optional<std::int32_t> array_size() const {
    return array_size_ == 0 ? std::nullopt : std::optional(array_size_);
  }
  /// How many of a sweep's jobs run at once: what the allocation has room for, else what was seen
  /// so far; 0: not known.
  int lanes_of(const Sweep& sweep) const;
  /// What the task of a live attempt said of it last; null: nothing of late.
  const store::Present* present(AttemptId attempt) const;
  bool holds(JobId job) const { return places_.contains(job); }
  /// Nothing is handed over, or will be without a person's doing.
  bool idle() const;
  /// Something of it is handed over, or may be, for all that is known.
  bool has_open(SweepId sweep) const;
  /// What Slurm has of it, as text, which may begin yet: no task has reported its end.  "":
  /// nothing. `strictly`: what others have counts, and what cannot be found out.
  std::string why_not_gone(const Sweep& sweep, bool strictly) const;
  /// Of a queued job, in plain words.
  std::string why(JobId id) const;
  /// Of a live one: where it runs ("node n3, task 4711_2"); "": not known.
  std::string where(JobId id) const;

 private:
  struct Task {
    std::vector<JobId> jobs = {};
    store::RecordName read = {};  // up to where its records were absorbed
    bool whole = false;           // … and that life has reported all
    bool closed = false;
    std::optional<slurm::QueueRecord> seen = std::nullopt;  // by the last look
    int looks_after_end = 0;
    std::set<JobId> told_to_end = {};  // those of its jobs; that they have counts for nothing here
    bool was_held = false;             // in Slurm's queue, by us, to be taken out of it
    bool is_silent = false;            // of a step: nothing has been said yet, not even by srun
    // From its node's clock to ours, and for which life that was found out.
    std::int64_t shift_ns = 0;
    std::int32_t shifted_life = 0;
  };
  struct Array {
    std::string key = {};
    std::string folder = {};
    std::string node = {};    // of the allocation; "": Slurm chooses
    std::string others = {};  // whose it is, if not ours: it is only looked at
    StepKey step = {};
    std::int32_t jobs_each = 1;
    std::int64_t at_wall_ns = 0;  // when it was handed over
    std::int64_t number = 0;      // the cluster's; 0: not known yet
    bool withdrawn = false;       // it is not to run
    bool doubtful = false;        // whether Slurm has taken it is not known
    std::string unread = {};      // why the last look could not read all of its folder
    std::map<std::int32_t, Task> tasks = {};
    std::size_t open = 0;                  // tasks that are not closed
    std::map<JobId, JobId> numbered = {};  // here -> as it was handed over, where that differs
    JobId handed(JobId here) const {
      const auto it = numbered.find(here);
      return it == numbered.end() ? here : it->second;
    }
  };
  struct Place {
    std::string array = {};
    std::int32_t task = 0;
  };
  struct Seen;
  struct EndOrder;

  using ToldLife = std::pair<std::string, store::Life>;  // key of the array
  using HandedTask = std::pair<std::int64_t, std::int32_t>;
  using TaskName = std::pair<std::string, std::int32_t>;  // key of the array, index

  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  bool knows_site() const { return steps_ ? !nodes_.empty() : array_size_ != 0; }
  bool hand_over_next();
  bool hand_over_step();
  std::vector<NodeShare> used_of_nodes() const;
  std::function<std::function<void()>()> submit_of(const Sweep& sweep, ArrayPlan plan,
                                                   const Array& array,
                                                   const std::string& environment);
  std::function<std::function<void()>()> start_of(const Sweep& sweep, const ArrayPlan& plan,
                                                  const Array& array,
                                                  const std::string& environment);
  Result<std::vector<slurm::QueueRecord>> ask_queue();
  std::string why_not_handed(JobId id) const;
  std::string task_name(const Array& array, std::int32_t index) const;
  bool hand_over(const Sweep& sweep, ArrayPlan plan);
  bool end_tasks();
  void end_again(SweepId sweep);
  EndOrder order_of(const TaskName& name, const Array& array, Task& task) const;
  bool is_held_in_vain(const Task& task) const;
  /// Who has taken orders to end.
  struct Told {
    Result<void> by_folder = {};
    Result<void> by_slurm = {};
  };
  Told tell(const std::vector<EndOrder>& orders, const std::set<std::int64_t>& whole_arrays);
  void heard(const std::vector<EndOrder>& orders, const Told& told);
  void submitted(const std::string& key, Result<std::int64_t> number);
  void refuse(const Array& array, const std::string& words);
  std::int64_t next_after_pause(std::int64_t now_ns) const;
  void add(Array array);
  void look();
  void absorb(Seen seen);
  void absorb(std::vector<ToldLife>& lives);
  void absorb(const store::Record& record, JobId id, const Task& task);
  void translate(Instant& at, std::int32_t life, Task& task) const;
  ClusterLanes& lanes_of(SweepId id);
  void leave_lane(JobId id, std::int64_t end_ns);
  bool is_place_of(const Array& array, JobId id) const;
  void end(JobId id, const Evidence& evidence);
  void judge(Array& array, std::int32_t index, Task& task);
  void give_back(Array& array, Task& task);
  void close(Array& array, std::int32_t index, Task& task);
  void forget_closed();
  void mark_when_durable(const Array& array, const std::string& name);
  bool is_news(const store::Record& record, JobId id) const;
  std::string bring_back(const store::Record& record, JobId id);
  void ask_what_was();
  std::vector<std::string> search_paths() const;
  void search_in(const std::vector<std::string>& paths);
  void knows_again(SweepId id);
  void recovered(SweepId id, std::vector<FoundHandover> found, const std::string& claimant);
  void go_on_with(const FoundHandover& found);
  void close_found(const FoundHandover& found);
  void knows_all_of(const std::string& folder, mode_t mode);
  void end_orphans(SweepId sweep);
  /// For an errand, as the next ones are.
  HandoverAnswer answer(const HandoverQuestion& question);
  void hold_beside(const FoundHandover& found, const store::HandedJob& handed, JobId id);
  void stop_looking_at(const Array& array);
  void catch_up(JobId id, const event::Folded& state);
  void close_as_told(Array& array, const ClosedTasks& closed);
  void leave_to_others(Array& array);
  void leave_rest_to(const std::string& owner, SweepId sweep);
  void disown(Array& array, const std::string& by);
  void hold_for(const std::string& owner, JobId id);
  void let_go(JobId id);
  /// Which array has this comment; 0: none that Slurm knows of.
  Result<std::int64_t> number_of(const std::string& key);
  /// The same of a handover that Slurm may have taken: if it has not, it will not run any more.
  struct Doubt {
    std::int64_t number = 0;
    bool withdrawn = false;
  };
  Result<Doubt> settle_doubt(const std::string& folder, const std::string& key, mode_t mode);
  bool withdraw();
  void withdrew(const std::string& key, const Result<Doubt>& doubt);
  void give_up_on(JobId id, const std::string& words);
  /// Of tasks by the number of their array and their index: what the accounting says of the end of
  /// those that the queue has forgotten is added to it.  For an errand.
  static void add_forgotten(slurm::Client& client, const std::map<HandedTask, std::string>& open,
                            std::vector<slurm::QueueRecord>& queue);
  void see_present(const Array& array, std::int32_t index, const std::vector<store::Present>& told);
  void see_queue(const std::vector<slurm::QueueRecord>& queue);
  void ask_soon();
  void wake_at(std::int64_t boot_ns);
  /// Of files beside what was handed over of it.
  mode_t mode_of(SweepId id) const;
  static std::string folder_of(const Sweep& sweep) { return sweep.folder() + "/" + kFolder; }

  Parts parts_;
  slurm::Client client_;               // used by errands only
  std::optional<slurm::Steps> steps_;  // the same; nullopt: arrays go into the cluster's queue
  std::map<std::string, Array> arrays_;
  std::unordered_map<JobId, Place> places_;
  std::map<SweepId, std::set<JobId>> wanted_;
  std::map<SweepId, ClusterLanes> lanes_;
  std::map<JobId, store::Present> present_;  // its time: when it was read here
  std::set<TaskName> to_end_;                // with jobs that are to end
  std::int32_t array_size_ = 0;              // 0: not known yet
  bool has_accounting_ = false;
  std::vector<slurm::AllocationNode> nodes_ = {};  // of the allocation; empty: not known yet
  std::set<SweepId> to_recover_ = {};
  std::set<SweepId> arriving_ = {};  // those of them that were submitted just now
  std::set<SweepId> recovered_ = {};
  std::set<std::string> to_withdraw_ = {};  // keys of doubtful arrays that Slurm does not show
  std::map<JobId, int> wordless_ = {};      // tasks that have ended before they began it
  bool may_plan_ = false;  // something has changed since nothing could be handed over
  bool busy_ = false;      // an errand of hand_over() or look() is under way
  std::vector<std::function<void()>> answers_;  // of errands, for a turn that may change things
  SubmitPauses pauses_;
  std::int64_t next_plan_ns_ = kNever;  // when a pause is over
  std::int64_t next_recovery_ns_ = 0;
  std::int64_t next_end_ns_ = 0;
  std::int64_t end_pause_ns_ = 0;
  std::int64_t next_withdrawal_ns_ = 0;
  std::int64_t next_look_ns_ = 0;
  std::int64_t next_queue_ns_ = 0;
  std::int64_t queue_pause_ns_ = 0;
  std::int64_t next_present_ns_ = 0;
  Timers::Id timer_ = 0;
  std::string trouble_ = {};                      // of the last errand that failed, as text
  std::map<SweepId, std::string> troubles_ = {};  // that one sweep has
};

}  // namespace pergpu
