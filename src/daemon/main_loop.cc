// Start: lock, store, replay, sockets, adoption.  Then the loop: callbacks, one settle() a turn.
#include "daemon/main_loop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "broker/meeting_place.h"
#include "coordinator/coordinator.h"
#include "coordinator/home_watch.h"
#include "coordinator/run_folder.h"
#include "coordinator/stop_mark.h"
#include "gpu/allocated_gpus.h"
#include "gpu/pool/mps_daemons.h"
#include "gpu/probe_inventory.h"
#include "notify/messenger.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/fs/boot_id.h"
#include "os/fs/file.h"
#include "os/fs/lock.h"
#include "os/ipc/socket.h"
#include "os/ipc/socket_folder.h"
#include "os/loop.h"
#include "os/process/cgroup_site.h"
#include "os/process/child.h"
#include "os/process/paths.h"
#include "os/process/process_attributes.h"
#include "os/test_hooks.h"
#include "run/errands.h"
#include "run/fake.h"
#include "run/local.h"
#include "server/server.h"
#include "slurm/allocation_watch.h"
#include "spec/text/units.h"
#include "store/copies.h"
#include "store/store.h"
#include "version.h"

namespace pergpu {
namespace {

constexpr std::size_t kMaxEnvironment = 64u << 20;
constexpr std::int64_t kLeaveAfterIdle = 60 * kSecond;
/// What lasts for less is not reported while it runs.
constexpr std::int64_t kPresentAfter = 3 * kSecond;
constexpr std::size_t kDiskThreads = 16;
constexpr char kStartedAnew[] = "the cluster restarted its task while it ran";

int complain(const Error& error) {
  fmt::print(stderr, "pergpu coordinator: {}\n", error.message);
  return 3;
}

/// Leaves after a minute without work, without clients and without memory that is to be kept,
/// unless it is a service.
class IdleWatch {
 public:
  IdleWatch(os::Loop& loop, os::Clock& clock, const Coordinator& coordinator, const Server& server,
            const MeetingPlace& place)
      : loop_(loop), clock_(clock), coordinator_(coordinator), server_(server), place_(place) {}

  void check() {
    const bool idle = coordinator_.idle() && server_.clients() == 0 && place_.kept() == 0;
    if (!idle) {
      if (armed_ != 0) loop_.cancel(std::exchange(armed_, 0));
    } else if (armed_ == 0) {
      armed_ = loop_.at(clock_.now().boot_ns + kLeaveAfterIdle, [this] {
        armed_ = 0;
        leaving_ = true;
        loop_.stop();
      });
    }
  }
  bool leaving() const { return leaving_; }

 private:
  os::Loop& loop_;
  os::Clock& clock_;
  const Coordinator& coordinator_;
  const Server& server_;
  const MeetingPlace& place_;
  os::Loop::TimerId armed_ = 0;
  bool leaving_ = false;
};

Result<std::unique_ptr<Store>> open_records(Task& task, RecordStore** records) {
  Result<std::unique_ptr<RecordStore>> opened = task.open_store();
  if (!opened) return std::move(opened).error();
  *records = opened->get();
  return std::unique_ptr<Store>(*std::move(opened));
}

/// What this process inherited: NAME=value entries, each ended by a NUL.
std::string own_environment() {
  std::string out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.append(*entry).push_back('\0');
  return out;
}

/// As the cluster calls this machine.
std::string node_name() {
  const char* name = std::getenv("SLURMD_NODENAME");
  return name == nullptr || *name == '\0' ? os::host_name() : name;
}

/// Whose nodes it uses; "": this machine's alone.
std::string allocation_of(bool is_task) {
  const char* job = is_task ? nullptr : std::getenv(kAllocationName);
  return job == nullptr ? std::string() : job;
}

/// Takes it when it has ended, and goes on.
void watch_child(os::Loop& loop, const std::shared_ptr<os::Spawned>& child,
                 const std::function<void()>& then) {
  const int fd = child->pidfd.get();
  (void)loop.watch(fd, EPOLLIN, [&loop, child, then, fd](std::uint32_t) {
    loop.unwatch(fd);
    (void)os::reap(child->pid);
    then();
  });
}

/// For tests: makes the coordinator complain of itself in its log.
Result<void> watch_turns(os::Loop& loop) {
  const char* limit = os::test_hook::kTurnLimit.value();
  if (limit == nullptr) return {};
  return loop.watch_turns(std::atoll(limit) * kMillisecond, [](std::int64_t ns) {
    std::fprintf(stderr, "pergpu: bug: a turn of the loop took %lld ms\n",
                 static_cast<long long>(ns / kMillisecond));
  });
}

/// For tests: the store folds as soon as this many events lie there, beside its commits.
Folding folding() {
  const char* from = os::test_hook::kFoldFrom.value();
  if (from == nullptr) return {};
  const std::int64_t begin = std::max<std::int64_t>(std::atoll(from), 2);
  return {.begin = begin, .keep = begin / 2, .always = begin, .slice = begin / 2};
}

/// PERGPU_READ_USAGE: the pause between two readings of what jobs use, or "off".  0: off.
Result<std::int64_t> pause_of_readings() {
  constexpr std::chrono::milliseconds kShortest{100};
  const char* text = std::getenv("PERGPU_READ_USAGE");
  if (text == nullptr || *text == '\0') return kSecond;
  if (std::string_view(text) == "off") return 0;
  const Result<std::chrono::milliseconds> pause = parse_duration(text);
  if (pause && *pause >= kShortest) return std::chrono::nanoseconds(*pause).count();
  return Error{ErrorKind::Invalid, 0,
               fmt::format("PERGPU_READ_USAGE is `{}`: expected the pause between two readings "
                           "(`1s`, at least `100ms`) or `off`",
                           text)};
}

std::string lock_note() { return fmt::format("the coordinator (process {})", ::getpid()); }

/// One coordinator per home; ErrorKind::Busy: another one serves it.  A holder of the lock that
/// does not answer is still starting, or was killed and is not quite gone, or is no coordinator
/// (`pergpu store`): it is waited for, and named when it stays.
Result<os::FileLock> lock_home(const CoordinatorOptions& options) {
  constexpr std::int64_t kLockPatience = 10 * kSecond;
  const int pause_ms = options.succeeds != 0 ? 1 : 10;  // no other one that waits may be faster
  const std::int64_t end = os::boot_now_ns() + kLockPatience;
  for (;;) {
    Result<os::FileLock> lock =
        os::FileLock::try_lock(options.home + "/coordinator.lock", lock_note());
    if (lock || lock.error().kind != ErrorKind::Busy) return lock;
    const Result<os::UniqueFd> other = os::connect_unix(coordinator_socket(options.run_dir), true);
    const Result<os::PeerCredentials> who =
        other ? os::peer_of(other->get()) : Result<os::PeerCredentials>(other.error());
    if (other && (options.succeeds == 0 || !who || who->pid != options.succeeds)) return lock;
    if (os::boot_now_ns() > end) {
      return Error{ErrorKind::Unavailable, 0, lock.error().message + ", which doesn't respond"};
    }
    ::poll(nullptr, 0, pause_ms);
  }
}

/// Whether nothing is under way any more.
bool leave_all(const std::vector<Errands*>& all) {
  constexpr std::chrono::seconds kPatience{3};
  bool is_over = true;
  for (Errands* errands : all) {
    // One that hangs was waited for long enough.
    is_over = errands->leave(is_over ? kPatience : std::chrono::seconds(0)) && is_over;
  }
  return is_over;
}

/// Looks for outputs on the thread of `errands`.
LookForOutputs look_on(Errands& errands) {
  return [&errands](std::vector<OutputsOfJob> jobs,
                    std::function<void(std::vector<LostOutput>)> done) {
    errands.run([jobs = std::move(jobs), done = std::move(done)]() -> std::function<void()> {
      return [lost = find_lost(jobs), done] { done(lost); };
    });
  };
}

/// What the shell happened to have that started this process stays with it no longer than it must:
/// jobs have what their own shells have.  A service manager and a cluster mean what they set.
void shed(const CoordinatorOptions& options) {
  const bool is_allocated = std::getenv(kAllocatedGpusName) != nullptr || !os::slurm_job().empty();
  if (!options.foreground && !options.task) os::shed_attributes(/*keep_cores=*/is_allocated);
  os::raise_descriptor_limit();  // two for each keeper; jobs get those of the submitting shell
}

}  // namespace

int coordinator_main(const CoordinatorOptions& options) {
  os::raise_own_limits();
  // Without it, every start would look like that of the machine: what runs would be given up.
  const std::string boot_id = os::boot_id();
  if (boot_id.empty())
    return complain({ErrorKind::Unavailable, 0,
                     "can't read the kernel's boot id; check that /proc is mounted"});
  const Result<std::int64_t> reading_pause = pause_of_readings();
  if (!reading_pause) return complain(reading_pause.error());
  const StopGate gate(options.home,
                      options.was_asked_for || options.foreground || options.succeeds != 0);
  Result<os::FileLock> lock = lock_home(options);
  if (!lock && lock.error().kind == ErrorKind::Busy) return 0;  // without a word
  if (!lock) return complain(lock.error());
  if (!options.task && gate.is_shut()) return 0;
  if (!options.task) {
    remove_stop_mark(options.home);
    reserve_stop_mark(options.home);
  }

  store::remove_left_copies(options.home);
  shed(options);
  const os::Reach reach = os::own_reach();  // by trying it, so before there are threads
  os::RealClock clock;
  Result<std::unique_ptr<os::Loop>> made = os::Loop::create();
  if (!made) return complain(made.error());
  os::Loop& loop = **made;
  Timers timers{
      .at = [&](std::int64_t at, std::function<void()> f) { return loop.at(at, std::move(f)); },
      .cancel = [&](Timers::Id id) { loop.cancel(id); }};

  std::optional<Task> task;
  RecordStore* records = nullptr;
  if (options.task) {
    Result<Task> read = Task::read(*options.task);
    if (!read) return complain(read.error());
    task = *std::move(read);
    if (task->is_closed()) return 0;
  }
  Result<std::unique_ptr<Store>> store =
      task ? open_records(*task, &records)
           : open_sqlite_store(options.home + "/pergpu.db", folding());
  if (!store) return complain(store.error());
  World world;
  Result<void> loaded = (*store)->load([&](const Row& row) { return world.absorb(row); },
                                       [&] {
                                         // A task knows of its own jobs only.
                                         return task ? Result<void>() : world.check_whole();
                                       });
  if (!loaded) return complain(loaded.error());
  Journal journal(world, **store);
  std::optional<HomeWatch> home;  // a task's is its cluster's
  if (!task) {
    home.emplace(HomeWatch::Parts{.clock = &clock,
                                  .home = options.home,
                                  .store = options.home + "/pergpu.db",
                                  .lock = &*lock,
                                  .note = lock_note(),
                                  .is_new = world.next_job_id() == JobId{1}});
  }

  Result<std::string> keeper = os::find_program("pergpu-keeper");
  if (!keeper) return complain(keeper.error());
  Result<std::string> self = os::own_executable();
  if (!self) return complain(self.error());
  const Result<std::string> sockets = os::socket_folder(options.run_dir);
  if (!sockets) return complain(sockets.error());
  const Result<std::string> with_mps = os::socket_folder(options.run_dir, kMpsRoom);
  if (!with_mps) return complain(with_mps.error());
  const os::CgroupSite groups = os::find_cgroups();  // before the first keeper is born
  Coordinator* coordinator = nullptr;
  auto on_engine = [&](const EngineEvent& e) { coordinator->on_engine(e); };
  LocalEngine local(loop, clock,
                    {.run_dir = options.run_dir,
                     .keeper_program = *keeper,
                     .pergpu_program = *self,
                     .home = options.home,
                     .boot_id = boot_id,
                     .groups = groups,
                     .has_home = [&] { return !home || home->has_home(); },
                     .on_event = on_engine,
                     .keepers_end_alone = task.has_value(),
                     .grace_of = [&world](AttemptId id) -> std::chrono::nanoseconds {
                       return world.step_of(*world.job(id.job)).spec.grace;
                     }});
  FakeEngine fake(
      clock, [&](std::int64_t at, std::function<void()> f) { return loop.at(at, std::move(f)); },
      on_engine);
  std::unique_ptr<gpu::ProbeInventory> inventory = gpu::ProbeInventory::create(loop, clock);
  const bool is_of_allocation = !task && std::getenv(kAllocatedGpusName) != nullptr;
  const char* given = std::getenv(task ? "CUDA_VISIBLE_DEVICES" : kAllocatedGpusName);
  gpu::AllocatedGpus allocated(*inventory, gpu::device_names(given == nullptr ? "" : given));
  GpuLanes gpus({.inventory = &allocated,
                 .loop = &loop,
                 .clock = &clock,
                 .timers = &timers,
                 .ours = [&](const GpuProcess& p) { return coordinator->is_ours(p); },
                 .job_of = [&](const GpuProcess& p) { return coordinator->job_of(p); },
                 .locks = options.locks});

  const Machine machine = read_machine();
  Telemetry telemetry({.inventory = inventory.get(),
                       .clock = &clock,
                       .timers = &timers,
                       .pause_ns = *reading_pause,
                       .cores = machine.core_count(),
                       .record = [&](row::Usage usage) { journal.record(std::move(usage)); }});
  Messenger messenger(loop, *self);
  Result<std::unique_ptr<Errands>> errands = Errands::create(loop);
  if (!errands) return complain(errands.error());
  Result<std::unique_ptr<Errands>> mps_errands = Errands::create(loop);
  if (!mps_errands) return complain(mps_errands.error());
  Result<std::unique_ptr<Errands>> file_errands = Errands::create(loop);
  if (!file_errands) return complain(file_errands.error());
  // Separate: what hangs on a disk must hold up neither a cluster nor MPS.  Several threads: a
  // look into a dead mount, which is given up after a while, keeps its thread.
  Result<std::unique_ptr<Errands>> disk_errands = Errands::create(loop, kDiskThreads);
  if (!disk_errands) return complain(disk_errands.error());
  MpsDaemons mps(**mps_errands, *with_mps + "/mps", find_mps_control());
  Server* server = nullptr;
  MeetingPlace* place = nullptr;
  Coordinator::Parts parts{
      .world = &world,
      .journal = &journal,
      .local = &local,
      .fake = &fake,
      .errands = task ? nullptr : errands->get(),
      .gpus = &gpus,
      .mps = &mps,
      .telemetry = &telemetry,
      .clock = &clock,
      .timers = &timers,
      .machine = machine,
      .reach = reach,
      .is_service = options.foreground,
      .groups = groups,
      .home = options.home,
      // On a node it is the task's; an allocation has its own home while none is named.
      .tells_home = !task && !is_of_allocation && allocation_of(false).empty(),
      .node = task ? node_name() : std::string(),
      .allocation = allocation_of(task.has_value()),
      .program = *self,
      .share = meeting_socket(*sockets),
      .boot_id = boot_id,
      .read_environment = [&](SweepId sweep) -> Result<std::string> {
        if (task) return own_environment();
        return os::read_file(fmt::format("{}/env/{}", options.home, sweep.value), kMaxEnvironment);
      },
      .when_ended = [&](const std::shared_ptr<os::Spawned>& child,
                        const std::function<void()>& then) { watch_child(loop, child, then); },
      .changed =
          [&](const std::vector<JobId>& jobs) {
            if (server != nullptr) server->changed(jobs);
            if (place != nullptr) place->review();
          },
      .aside = [&](auto work) { (*file_errands)->run(std::move(work)); },
      .aside_for_submits = [&](auto work) { (*disk_errands)->run(std::move(work)); },
      .deliver =
          [&](const NoticeRequest& request, std::function<void(Result<void>)> done) {
            messenger.send(request.text, request.limit_ns, std::move(done));
          }};
  if (task) parts.interruption = kStartedAnew;
  Coordinator core(std::move(parts));
  core.look_for_outputs_by(look_on(**disk_errands));
  coordinator = &core;
  const auto look_at_home = [&] {
    if (!home || !home->look()) return;
    core.hold_starts(home->trouble());
    const std::string& trouble = home->trouble();
    fmt::print(stderr, "pergpu: {}\n", trouble.empty() ? "the home is back in order" : trouble);
  };

  bool ordered_to_leave = false;
  bool kill_jobs = false;
  const auto leave = [&](bool sticks) -> Result<void> {
    ordered_to_leave = true;
    core.start_nothing_more();
    // Without the mark keepers wait all the same, since each is asked to.
    return sticks && !task ? write_stop_mark(options.home) : Result<void>();
  };
  Result<std::unique_ptr<Server>> opened =
      Server::open(loop, core,
                   {.home = options.home,
                    .run_dir = options.run_dir,
                    .version = PERGPU_VERSION,
                    .most_clients = std::clamp<std::size_t>(os::descriptor_limit() / 4, 64, 1024),
                    .trouble =
                        [&] {
                          look_at_home();
                          return home ? home->trouble() : std::string();
                        },
                    .may_be_replaced =
                        [&] {
                          const bool is_busy = core.cleaning_count() > 0 || ordered_to_leave ||
                                               place == nullptr || place->kept() > 0;
                          return !options.foreground && !task && !is_of_allocation && !is_busy;
                        },
                    .leave =
                        [&](bool kill, bool replaced) {
                          const Result<void> marked = leave(/*sticks=*/!replaced);
                          kill_jobs = kill_jobs || kill;  // who asked for that waits for it
                          if (kill)
                            core.stop_all(StopCause::Cancel, "pergpu coordinator stop --kill");
                          return Server::Leaving{.kills = kill_jobs,
                                                 .unmarked = marked ? "" : marked.error().message};
                        },
                    .backup =
                        [&](std::string file, std::function<void(Result<std::int64_t>)> done) {
                          // Elsewhere a disk that hangs would hold up every commit.
                          if (store::is_copy(options.home, file)) {
                            (*store)->backup(std::move(file), std::move(done));
                          } else {
                            done(Error{ErrorKind::Invalid, 0,
                                       file + " isn't a valid name for a copy in " + options.home});
                          }
                        },
                    .read_usage =
                        [&](JobId job, std::int32_t attempt,
                            const std::function<void(Result<std::vector<row::Usage>>)>& done) {
                          (*store)->read_usage(job, attempt, done);
                        }});
  if (!opened) return complain(opened.error());
  server = opened->get();

  const std::size_t some = std::clamp<std::size_t>(os::descriptor_limit() / 8, 32, 1024);
  Result<std::unique_ptr<MeetingPlace>> met =
      MeetingPlace::open(loop, {.run_dir = options.run_dir,
                                .most_visitors = some,
                                .most_held = some,
                                .most_processes = some,
                                .sweep_of = [&](JobId id) -> std::optional<SweepId> {
                                  const Job* job = world.job(id);
                                  if (job == nullptr) return std::nullopt;
                                  return job->sweep;
                                },
                                .name_of =
                                    [&](SweepId id) {
                                      const Sweep* sweep = world.sweep(id);
                                      return sweep == nullptr ? std::string() : sweep->name;
                                    },
                                .can_run =
                                    [&](SweepId id) {
                                      const Sweep* sweep = world.sweep(id);
                                      return sweep != nullptr && sweep->open > 0;
                                    }});
  if (!met) return complain(met.error());
  place = met->get();

  Result<void> completions =
      loop.watch((*store)->completion_fd(), EPOLLIN, [&](std::uint32_t) { (*store)->drain(); });
  if (!completions) return complain(completions.error());
  Result<void> signals =
      loop.on_signals({SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}, [&](int signal) {
        if (task) return task->on_signal(signal, core, *records);
        if (signal != SIGTERM && signal != SIGINT) return;
        const Result<void> marked = leave(/*sticks=*/true);  // jobs go on: keepers wait
        if (!marked) fmt::print(stderr, "pergpu: {}\n", unmarked_words(marked.error().message));
      });
  if (!signals) return complain(signals.error());

  if (Result<void> watched = watch_turns(loop); !watched) return complain(watched.error());
  AllocationWatch allocation({.job = os::slurm_job(),
                              .errands = errands->get(),
                              .clock = &clock,
                              .timers = &timers,
                              .ended = [&](const std::string& words) {
                                (void)leave(/*sticks=*/false);
                                kill_jobs = true;
                                core.stop_all(StopCause::Cancel, words);
                              }});
  if (is_of_allocation) allocation.begin();
  IdleWatch idle(loop, clock, core, **opened, **met);
  std::optional<RunFolder> run_folder;
  if (home) {
    look_at_home();
    run_folder.emplace(RunFolder::Parts{
        .loop = &loop,
        .clock = &clock,
        .home = options.home,
        .path = options.run_dir,
        .has_home =
            [&] {
              look_at_home();
              return home->has_home();
            },
        .is_whole = [&] { return server->is_reachable() && place->is_reachable(); },
        .restore = [&](const std::string& folder) -> Result<void> {
          Result<void> restored = server->listen(folder);
          if (restored) restored = place->listen(folder);
          const Result<std::string> reached = os::socket_folder(folder);
          if (restored && reached) core.use_share(meeting_socket(*reached));
          return restored;
        },
        .tell_keepers = [&](const std::string& folder) { local.restore_files(folder); }});
  }
  core.recover();
  if (task) {
    task->begin(core, loop, **errands);
    loop.at(clock.now().boot_ns + kPresentAfter,
            [&] { task->tell_present(core, loop, **errands); });
  }
  gpus.discover([&] { core.gpus_discovered(); });
  loop.on_turn([&] {
    if (task) task->mind_time(core);
    // Nothing starts for a home that is going.
    if (run_folder && run_folder->has_seen_removal()) look_at_home();
    core.settle();
    if (!options.foreground && !task) idle.check();
    const bool settled = journal.idle() && core.told_all() && mps.idle();
    if (task && settled && task->should_leave(core)) loop.stop();
    if (ordered_to_leave && settled && (!kill_jobs || core.live_count() == 0)) loop.stop();
    if (!home) return;
    const bool is_spent = home->is_given_up() && settled && core.live_count() == 0;
    if (is_spent || home->is_succeeded()) loop.stop();
  });
  Result<void> ran = loop.run();
  server->tell_left();
  (*mps_errands).reset();
  (*errands).reset();  // what is under way uses parts of the coordinator
  const bool is_stuck = !leave_all({file_errands->get(), disk_errands->get()});
  if (!is_stuck) {
    (*file_errands).reset();
    (*disk_errands).reset();
  }
  const auto finish = [&] {
    if (!ran) return complain(ran.error());
    local.release(/*revive=*/home && home->is_succeeded());
    if (!task) return 0;
    if (Result<void> told = task->finish(*records, world); !told) return complain(told.error());
    return task->exit_code(world);
  };
  const int code = finish();
  if (!is_stuck) return code;
  // A thread hangs on a disk: the parts that it may use stay, and what others wait for is let go,
  // since the kernel may keep a dead process's descriptors for as long as its thread hangs.
  std::fputs("pergpu: a file system doesn't respond; exiting without waiting for it\n", stderr);
  met->reset();
  opened->reset();
  store->reset();
  *lock = os::FileLock();
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace pergpu
