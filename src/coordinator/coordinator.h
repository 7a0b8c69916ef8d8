// The coordinator's decisions, without sockets and without a process around them: everything it
// touches comes in through Parts, so that a simulation runs the same code.
//
// The path of a job, in the order of the calls:
//   submit()  -> rows recorded, durable          -> refresh(): queued, ready
//   settle()  -> choose() -> [GPU: acquire]      -> begin(): event::Starting recorded
//             -> durable  -> launch(): Engine::start
//   on_engine(Started)    -> event::Started
//   on_engine(Exited)     -> classify, decide_next -> event::Ended, with the next Starting in one
//                            transaction; durable -> Engine::acknowledge, watchers
//
// Every method runs on the deciding thread and none blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/snapshot.h"
#include "coordinator/circuit_breaker.h"
#include "coordinator/folder_waits.h"
#include "coordinator/found_results.h"
#include "coordinator/storage_waits.h"
#include "forecast/forecast_input.h"
#include "forecast/learnt.h"
#include "forecast/telemetry.h"
#include "gpu/pool/gpu_care.h"
#include "gpu/pool/gpu_lanes.h"
#include "gpu/pool/lane_use.h"
#include "gpu/pool/mps_control.h"
#include "job/classify.h"
#include "job/schedule/gpu_need.h"
#include "job/schedule/queue.h"
#include "job/schedule/schedule.h"
#include "notify/notices.h"
#include "os/clock.h"
#include "os/ipc/free_port.h"
#include "os/process/cgroup_site.h"
#include "os/process/spawn.h"
#include "run/engine.h"
#include "run/environment.h"
#include "run/machine.h"
#include "spec/schema/settings.h"
#include "state/job_map.h"
#include "state/job_set.h"
#include "state/journal.h"
#include "state/lost_outputs.h"
#include "state/submit.h"
#include "state/world.h"
#include "timers.h"

namespace pergpu {

namespace store {
struct Present;
}

class AttemptPlanner;
class Cluster;
class Errands;
class MpsDaemons;
class Planning;
class SubmitFolders;

/// What is known of a live attempt beyond its job: gone with the process that knows it.
struct LiveAttempt {
  AttemptId id = {};
  Engine* engine = nullptr;
  StepKey key = {};
  Demand demand = {};
  LaneId lane = {};
  std::vector<std::string> gpus = {};
  int cpus = 1;
  std::vector<int> cpu_list = {};
  GpuTrial trial = {};    // `gpus = "auto"`: what it was seen to need
  bool is_tried = false;  // and that others know of it
  /// Others shared its GPU with it, or may have.
  bool had_company = false;
  bool starting_up = true;
  bool sent = false;  // the engine was asked to start (or reported it after a restart)
  std::string record_path = {};
  Timers::Id timeout_timer = 0;
  Timers::Id ready_timer = 0;
  Timers::Id signal_timer = 0;      // its `signal`, ahead of its timeout
  Timers::Id term_timer = 0;        // it was cancelled and sent its `signal`: the TERM
  Timers::Id disconnect_timer = 0;  // from MPS, ahead of its KILL
  bool signalled = false;
  int looks_above = 0;             // in a row that showed more GPU memory than its limit
  bool doubted = false;            // it is quiet: being looked at, or its stacks are being written
  std::string mps_trouble = {};    // why it is no client of MPS although it was to be one
  bool is_mps_client = false;      // a look at the daemon's clients has shown it
  int mps_misses = 0;              // looks that have not
  bool checks_mps = false;         // one is under way
  std::uint64_t memory_bytes = 0;  // what was measured when it passed its limit
  std::string status = {};
  std::string progress = {};
  int memory_held = 0;  // engine_event::Started
  int cpu_held = 0;
  std::string resists = {};  // processes that are left although they were killed, as text
  // Its end: it failed, and its GPUs are being looked at, or whether its allocation ends, too; what
  // the looks showed.
  bool examining = false;
  bool outlived = false;  // by the allocation
  bool deferred = false;  // its end, until a submit of its sweep is stored
  bool has_ended() const { return examining || deferred; }
  std::optional<gpu::AttemptFaults> faults = std::nullopt;
};

class Coordinator {
 public:
  struct Parts {
    World* world = nullptr;
    Journal* journal = nullptr;
    Engine* local = nullptr;
    Engine* fake = nullptr;
    Errands* errands = nullptr;  // null: no sweep can go to a cluster
    GpuLanes* gpus = nullptr;
    MpsDaemons* mps = nullptr;       // null: no job shares a GPU by MPS
    Telemetry* telemetry = nullptr;  // null: nothing is read
    os::Clock* clock = nullptr;
    Timers* timers = nullptr;
    Machine machine = {};
    os::Reach reach = {};        // what it can give to jobs
    bool is_service = false;     // of a service manager, which decides that
    os::CgroupSite groups = {};  // for words only
    std::string home = {};
    bool tells_home = true;       // pergpu in a job asks it (PERGPU_HOME)
    std::string node = {};        // of a cluster, whose allocation this is; "": a machine by itself
    std::string allocation = {};  // of several nodes, in which this is; "": it is in none
    std::string program = {};     // pergpu itself, as the nodes of a cluster find it
    std::string share = {};       // the socket of the meeting place, for jobs; "": there is none
    std::string boot_id = {};
    /// What became of attempts that another boot's coordinator has left, as text.
    std::string interruption = "the machine was restarted while it ran";
    /// The environment captured with a sweep: NAME=value entries, each ended by a NUL.
    std::function<Result<std::string>(SweepId)> read_environment;
    /// Runs it when this child has ended.
    std::function<void(std::shared_ptr<os::Spawned>, std::function<void()>)> when_ended = {};
    /// A job or sweep changed, and that is durable: for watchers.
    std::function<void(const std::vector<JobId>&)> changed;
    /// Runs work that may hang on files on another thread, and on this one what that returns.
    /// Empty: such work is left out.
    std::function<void(std::function<std::function<void()>()> work)> aside = {};
    /// The same for the folders of submits: elsewhere what hangs would hold them up, too.
    std::function<void(std::function<std::function<void()>()> work)> aside_for_submits = {};
    /// Sends what [notify] asks for; empty: nothing is sent.
    DeliverNotice deliver = {};
  };
  explicit Coordinator(Parts parts);
  ~Coordinator();

  /// After the world was loaded: brings the attempts of before to an end or adopts them, and puts
  /// the queue in order.
  void recover();

  /// Brings archived sweeps back (world.h): what names one, or one of its jobs, has to wait for it.
  /// `done` as in Journal::fetch().
  void fetch(std::vector<SweepId> archived, std::function<void(Result<void>)> done);
  /// Those that a submit or a preview of it has to do with.
  std::vector<SweepId> archived_for(const SweepSpec& file, const SubmitContext& context) const;

  /// The file as it is, or with the spelling of its output root under which a sweep of its name is
  /// known, or why that is not known; `then` runs at once where there is none to compare with.
  void find_root(SweepSpec file, const SubmitContext& context,
                 std::function<void(Result<SweepSpec>)> then);

  /// `done` runs when it is durable, or with what is wrong with it (nothing changed).
  void submit(SweepSpec sweep, SubmitContext context,
              std::function<void(Result<SubmitReply>)> done);
  /// What submit() would do, and what would start at once; nothing is recorded.
  /// REQUIRES: the GPUs are discovered, and nothing of archived_for() is archived.
  /// `found`: what judge_for_preview() said.
  Result<SubmitPreview> preview(const SweepSpec& file, const SubmitContext& given,
                                const LostOutputs& lost = {}, const FoundVerdict& found = {});
  /// What submit() would make of results that lie in the sweep's folder; `then` runs later or at
  /// once.
  void judge_for_preview(const SweepSpec& file, const SubmitContext& context,
                         const std::function<void(FoundVerdict)>& then);
  /// How declared outputs are looked at, on another thread.  Without it done jobs lose none.
  void look_for_outputs_by(LookForOutputs look);
  /// What preview() and plan() of a file need to know; `done` runs later or at once.  REQUIRES:
  /// nothing of archived_for() is archived.
  void survey_outputs(const SweepSpec& file, const SubmitContext& context,
                      std::function<void(LostOutputs)> done);

  struct PlanRequest {
    std::optional<SweepSpec> file = std::nullopt;  // as if it were submitted now
    SubmitContext context = {};                    // of `file`
    std::optional<std::vector<JobId>> jobs =
        std::nullopt;  // without `file`; null: all that are open
    GivenDurations given = {};
    int on = 0;             // as if there were this many GPUs, or lanes; 0: as it is
    LostOutputs lost = {};  // of `file`, as survey_outputs() found them
  };
  /// The schedule that is to be expected (docs/plan.md): `done` gets it in one of the next turns,
  /// or at once what is wrong with the request.  Nothing is recorded. REQUIRES: the GPUs are
  /// discovered, and nothing of archived_for() is archived.
  void plan(const PlanRequest& request, const std::function<void(Result<nlohmann::json>)>& done);
  /// When the last job of a sweep, or a job, is expected to have ended, by the boot clock; nullopt:
  /// it has, or that is not known.  Looked into again every few seconds (expected_end.cc).
  std::optional<std::int64_t> expected_end(SweepId sweep) const;
  std::optional<std::int64_t> expected_end(JobId job) const;

  struct Setting {
    std::string of;  // what selects it: "thirteen/*/train", "thirteen"
    std::string key;
    std::string from;
    std::string to;
  };
  struct Changed {
    std::vector<std::int64_t> changed;
    std::vector<std::int64_t> unchanged;
    std::vector<Setting> settings = {};  // of set()
  };
  Changed cancel(const std::vector<JobId>& jobs, bool kill, const std::string& reason);
  /// The same of those that have not started; the others go on.
  Changed cancel_queued(const std::vector<JobId>& jobs, const std::string& reason);
  Changed hold(const std::vector<JobId>& jobs, const std::string& reason);
  Changed release(const std::vector<JobId>& jobs);
  Changed retry(const std::vector<JobId>& jobs);
  /// Of the steps, or sweeps, of those that have not ended.  Invalid: that would change what others
  /// ask for, too; nothing was changed.
  Result<Changed> set(const std::vector<JobId>& jobs, const Settings& settings);
  /// What may speak against cleaning sweeps, looked up once for all that are asked for.
  struct CleanFacts {
    struct Folder {
      std::string path = {};
      SweepId sweep = {};
    };
    bool results = false;                // they are to be removed, too
    std::map<SweepId, JobId> live = {};  // a job of it that is not gone yet
    std::vector<Folder> folders = {};    // of all that are known, sorted by path
  };
  /// `results`: they are to be removed, too; else no folder is looked up.
  CleanFacts clean_facts(bool results) const;
  /// Why its history, and its results, must stay; "": they need not.  REQUIRES: it is in memory.
  std::string why_not_cleaned(const Sweep& sweep, const CleanFacts& facts) const;
  /// The results of these are about to be removed: until end_cleaning() no sweep is submitted into
  /// their folders, and none of their jobs is queued again.
  void begin_cleaning(const std::vector<SweepId>& sweeps);
  /// Its results are about to be put aside.  Should that not come to its end, its jobs are not what
  /// they were: what begin_cleaning() keeps out stays out until the sweep is forgotten, or all of
  /// them lie in their place again.
  void begin_moving(SweepId id);
  /// These are not shown any more.  `results`: they lie aside, and are yet to be removed.
  void forget(const std::vector<SweepId>& sweeps, bool results);
  /// `all_told`: of a forgotten sweep nothing lies aside any more; of another one all is in its
  /// place.  Else who removed the results has left, and may have left anything.
  void end_cleaning(SweepId id, bool all_told);
  bool is_cleaning(SweepId id) const { return cleaning_.contains(id); }
  std::size_t cleaning_count() const { return cleaning_.size(); }
  /// GPUs in quarantine, listed as for --devices, are used again; their UUIDs.
  Result<std::vector<std::string>> release_gpus(const std::string& list);
  /// Ctrl-C of a sweep's `run` (docs/commands.md): 1 hold what is queued, 2 stop what runs, 3 kill
  /// it.
  void interrupt(SweepId id, int level);
  void stop_all(StopCause cause, const std::string& reason);
  /// Before the process leaves: what is queued stays queued, for the next coordinator.
  void start_nothing_more();
  /// Nothing is started as long as `why` isn't empty; what runs goes on.
  void hold_starts(std::string why);
  /// The socket of the meeting place has moved: for attempts to come.
  void use_share(std::string socket);
  /// Runs `effect` once all that was decided so far is durable.
  void when_durable(std::function<void()> effect);

  /// While a known sweep's new submit is being stored its jobs do not change: requests that change
  /// jobs have to wait.
  bool frozen() const { return static_cast<bool>(frozen_); }

  void on_engine(const EngineEvent& e);
  /// The first look at the GPUs is over, or a later one has shown more of them.
  void gpus_discovered();
  bool is_ours(const GpuProcess& process) const;
  /// The live attempt's job whose process it is, as far as that shows.
  std::optional<JobId> job_of(const GpuProcess& process) const;
  /// Once per turn of the loop: chooses starts and flushes the journal.
  void settle();

  /// Every end that is durable was acknowledged to its keeper.
  bool told_all() const { return farewells_.empty(); }
  /// Nothing is live, nothing is ready, nothing waits for a time: the process may leave.
  bool idle() const;
  const World& world() const { return *parts_.world; }
  const GpuLanes& gpu_lanes() const { return *parts_.gpus; }
  /// Null: nothing is read.
  const Telemetry* telemetry() const { return parts_.telemetry; }
  const Learnt& learnt() const { return learnt_; }
  const Machine& machine() const { return parts_.machine; }
  const os::CgroupSite& groups() const { return parts_.groups; }
  const Notices& notices() const { return *notices_; }
  const CircuitBreaker& breaker() const { return breaker_; }
  const StorageWaits& storage_waits() const { return *storage_waits_; }
  const LiveAttempt* live(JobId job) const;
  /// What is reported of a live attempt on a cluster; null: nothing, or it is on this machine.
  const store::Present* present(AttemptId attempt) const;
  Instant now() const { return parts_.clock->now(); }
  std::size_t live_count() const { return live_.size(); }
  const std::map<JobId, LiveAttempt>& live() const { return live_; }
  /// "" while the store can be written, else why not.
  const std::string& store_failure() const { return parts_.journal->failure(); }
  std::size_t ready_count() const { return queue_.size(); }
  /// How many of the sweep's jobs can run at once.
  int lanes_of(const Sweep& sweep) const;
  /// The lanes that the sweep's jobs can run on, busy or not.
  std::vector<LaneSnapshot> lane_snapshots(const Sweep& sweep) const;
  /// Those of the machine's GPUs.
  std::vector<LaneSnapshot> gpu_lane_snapshots() const;
  /// Why a job is where it is, in plain words.
  std::string why(const Job& job) const;
  /// What the job asks for: its attempt's while it is live, else the next one's.
  Demand asked_by(const Job& job) const;
  /// Files of the step that changed since its first start.
  std::vector<std::string> warnings_of(const Job& job) const;
  std::string clamp_words(const SubmitContext& context) const;
  const os::Reach& reach() const { return parts_.reach; }

 private:
  Result<void> check_settings(const Sweep& sweep, const std::set<JobId>& named,
                              const Settings& settings) const;
  void record(JobId job, JobEvent e) { record(job, std::move(e), parts_.clock->now()); }
  void record(JobId job, JobEvent e, Instant at);
  void archive_ended();
  void touch(JobId job);
  void refresh(JobId id);
  void refresh_all();
  void hold_unfit();
  void refresh_sweep(SweepId id);
  void refresh_added(const SubmitReply& reply);
  void refresh_submitted(JobId job);
  void dependents_of(JobId id);
  void bring_back_dependents(JobId id, std::vector<JobId>& affected);
  void declare(const Sweep& sweep);
  void declare(const Sweep& sweep, ReadyQueue& queue, Capacity& capacity) const;
  LaneId::Pool pool_of(const Sweep& sweep, const StepSpec& step) const;
  std::string waiting_words(const Job& job) const;
  std::string where_on_cluster(const Job& job) const;
  std::string growth_words(const Job& job) const;
  bool misses_gpu() const;
  bool wants_gpu(const std::string& uuid) const;
  std::vector<std::string> failed_on(JobId id) const;
  /// What a job in queue_ was put in with.
  struct Standing {
    std::int64_t expected_ns = 0;
    Growths growths = {};
    GpuShape shape = 0;
  };
  Standing standing_of(const Job& job) const;
  ClassKey class_of(const Job& job) const;
  static ReadyJob ready_job(const Job& job, const Standing& standing);
  void leave_queue(const Job& job);
  void learn(const Job& job, LiveAttempt& live, const CpuShare& share);
  bool is_of(const LiveAttempt& live, const GpuProcess& process) const;
  void tell_idle(LaneId id, LaneSnapshot& lane) const;

  /// Nothing that concerns all jobs speaks against it.
  bool may_begin() const;
  void begin(const Choice& choice, const Demand& demand);
  void acquire(const Choice& choice, int overtaken);
  int count_acquiring(StepKey step) const;
  int meeting_port();
  bool is_frozen(const Job& job) const { return frozen_ && job.sweep == frozen_; }
  void acknowledge_again(AttemptId id);
  void defer(const EngineEvent& e);
  void launch(JobId id, const std::shared_ptr<AttemptPlan>& plan, const Error& failure);
  void send(LiveAttempt& live, const std::shared_ptr<AttemptPlan>& plan);
  void prepare_next();
  void await_lull();
  void vacate(LiveAttempt& live, bool gone);
  void drop_environment(SweepId id);

  bool cancel_waiting(const Job& job, const std::string& reason);
  void stop_attempt(const Job& job, StopCause cause, const std::string& reason, StopHow how);
  void resume_stop(LiveAttempt& live);
  bool gives_notice(const Job& job, StopCause cause, StopHow how) const;
  void give_notice(LiveAttempt& live);
  void send_signal(LiveAttempt& live);
  void stop_now(LiveAttempt& live, StopHow how);
  Timers::Id attempt_timer(AttemptId id, std::int64_t boot_ns,
                           std::function<void(LiveAttempt&)> due);
  void on_quiet(LiveAttempt& live, const engine_event::Quiet& quiet);
  void confirm_stall(LiveAttempt& live, const std::string& words, int looks);
  void end_stalled(LiveAttempt& live, const std::string& words);
  void watch_gpu_memory();
  struct GpuMemoryUse {
    std::string uuid = {};
    std::uint64_t bytes = 0;
  };
  std::optional<GpuMemoryUse> gpu_memory_of(const LiveAttempt& live, const GpuLook& look) const;
  void judge_gpu_memory(const GpuLook& look);
  void fit_to_need(Demand& demand, const GpuNeed* need) const;
  GpuShape shape_of(const Job& job) const;
  void sort_by_shape(const Sweep& sweep);
  void meet(LiveAttempt& joining);
  void watch_need(LiveAttempt& live, std::uint64_t bytes);
  void learn_need(LiveAttempt& live, const CpuShare& share);
  void learn_need(JobId id, const GpuNeed& need);
  void shrink(LiveAttempt& live);
  bool make_room(LiveAttempt& live, std::uint64_t bytes);
  bool joins_mps(const Job& job, const LiveAttempt& live) const;
  std::optional<MpsClient> mps_client(const LiveAttempt& live) const;
  void hold_mps(const LiveAttempt& live, std::function<void(LiveAttempt&)> then);
  TreeRoots roots_of(const LiveAttempt& live) const;
  void stop_mps_client(LiveAttempt& live, StopHow how);
  void disconnect_before_kill(LiveAttempt& live, bool leads);
  void check_mps(LiveAttempt& live);
  std::vector<std::string> values_of(const Job& job) const;
  void end_attempt(JobId id, const Evidence& evidence, const std::string& left_running = {});
  bool is_on_cluster(const Job& job) const;
  void take_from_cluster(JobId id, JobEvent e, Instant at);
  void stop_on_cluster(const Job& job, StopCause cause, const std::string& reason, StopHow how);
  void end_on_cluster(JobId id, const Evidence& evidence, bool writes);
  Next what_follows(const Job& job, const Outcome& outcome) const;
  void mind_needs(JobId id);
  std::unique_ptr<Cluster> make_cluster();
  std::unique_ptr<FolderWaits> make_folder_waits();
  std::unique_ptr<StorageWaits> make_storage_waits();
  void on_exit(LiveAttempt& live, const engine_event::Exited& exited);
  void on_lost(LiveAttempt& live, const engine_event::Lost& lost);
  void examine(LiveAttempt& live, const EngineEvent& end);
  void await_cluster(LiveAttempt& live, const EngineEvent& end);
  void arm_timers(LiveAttempt& live);
  void observe(const LiveAttempt& live, const engine_event::Started& started, bool is_new);
  void ready(LiveAttempt& live);
  void resist(LiveAttempt& live, std::string words);
  Engine& engine_of(const Sweep& sweep) const;
  void run_submits();
  void settle_root();
  bool may_find_results(const SweepSpec& file, const SubmitContext& context) const;
  void look_for_results();
  void refuse_submit(Error why);
  std::string why_cleaned_now(const SweepSpec& file, const SubmitContext& context) const;
  Result<void> check_place(const SweepSpec& sweep, const SubmitContext& context) const;
  Result<void> check_fits(const SweepSpec& sweep, const SubmitContext& context);
  Result<SubmitPlan> plan_checked(const SweepSpec& sweep, const SubmitContext& context,
                                  SweepId moved, const LostOutputs& lost);
  void rehearse(const SweepSpec& file, const SubmitContext& context, const SubmitPlan& plan,
                SubmitPreview& out) const;

  Result<ForecastInput> plan_input(const PlanRequest& request, std::vector<std::string>* notes);
  void go_on_planning(const std::shared_ptr<Planning>& planning,
                      const std::function<void(Result<nlohmann::json>)>& done);
  ForecastMachine forecast_machine(std::vector<std::string>* notes) const;
  void add_steps(ForecastMachine& machine, const ForecastJobs& jobs, const Sweep* planned,
                 const ReadyQueue& declared) const;
  struct ExpectedEnds;
  const ExpectedEnds& expected_ends() const;
  void foretell(ExpectedEnds& out) const;
  void estimate(ExpectedEnds& out) const;

  struct PendingSubmit {
    SweepSpec sweep;
    SubmitContext context;
    std::function<void(Result<SubmitReply>)> done;
    bool has_root = false;                           // find_root() was asked
    bool has_looked = false;                         // for results of others
    SweepId moved = {};                              // it is this one, whose folder was moved
    std::string note = {};                           // what is to be said of that
    std::optional<LostOutputs> lost = std::nullopt;  // nullopt: not looked for yet
  };
  struct Acquiring {
    Choice choice;
    Demand demand;      // as booked: a resubmit meanwhile may declare another one
    int overtaken = 0;  // ReadyQueue::overtaken() of its class before
  };
  struct Place {
    std::string root = {};
    std::string name = {};
  };
  struct Prepared {
    std::shared_ptr<AttemptPlan> plan;
    std::shared_ptr<Error> failure;  // without a message: there is none
    JobId job;
  };

  Parts parts_;
  GpuCare gpu_care_;
  LaneUse lane_use_;
  os::PortRange ports_;
  Learnt learnt_;
  ReadyQueue queue_;
  Capacity capacity_;
  std::map<JobId, LiveAttempt> live_;
  std::map<JobId, Acquiring> acquiring_;  // a GPU is being made ready for it
  CircuitBreaker breaker_;
  std::unordered_map<JobId, Timers::Id> not_before_;
  JobMap<Standing> ready_;      // what is in queue_
  std::vector<JobId> touched_;  // since the last flush, in order, each once
  JobSet touched_set_;
  std::set<SweepId> rest_;              // whose last open job may have ended in this turn
  std::unordered_set<JobId> foldered_;  // folders made ahead
  std::vector<Prepared> to_plan_;
  /// Acknowledgements of ended attempts: durable, sent when the lanes have their next jobs.
  std::vector<std::function<void()>> farewells_;
  bool lull_armed_ = false;
  std::vector<PendingSubmit> submits_;
  std::map<SweepId, Place> cleaning_;  // whose results are being removed
  bool submitting_ = false;
  bool leaving_ = false;
  std::string starts_held_ = {};    // why nothing is started; "": something may be
  SweepId frozen_ = {};             // its resubmit is being stored: its jobs do not change
  std::vector<JobId> missed_ = {};  // of these: what has to be refreshed then
  std::vector<EngineEvent> deferred_;
  bool store_retry_armed_ = false;
  bool watches_gpu_memory_ = false;
  std::unique_ptr<AttemptPlanner> planner_;
  std::unique_ptr<Cluster> cluster_;            // null: there is none
  std::uint64_t changes_ = 0;                   // of jobs, so far
  mutable std::unique_ptr<ExpectedEnds> ends_;  // as they were looked into last
  std::unique_ptr<Notices> notices_;
  std::unique_ptr<FolderWaits> folder_waits_;
  std::unique_ptr<StorageWaits> storage_waits_;
  std::unique_ptr<OutputSurvey> output_survey_;
  std::unique_ptr<SubmitFolders> submit_folders_;
};

}  // namespace pergpu
