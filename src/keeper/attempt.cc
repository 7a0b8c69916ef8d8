// Spawning, ending and judging one attempt.  Signals go to its process group or to everything below
// this keeper; which one is said at attempt.h.
#include "keeper/attempt.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "duration.h"
#include "keeper/folder.h"
#include "keeper/leftovers.h"
#include "keeper/outputs.h"
#include "keeper/signal_ahead.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/folder_lock.h"
#include "os/fs/folder_walk.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"
#include "os/process/program_trouble.h"
#include "os/process/spawn.h"

namespace pergpu::keeper {
namespace {

constexpr std::int64_t kLeftoverPause = 100 * kMillisecond;
constexpr std::int64_t kLeftoverGrace = 2'000 * kMillisecond;
constexpr std::int64_t kFirstKillAgain = 20 * kMillisecond;
constexpr std::int64_t kLastKillAgain = 1'000 * kMillisecond;
constexpr std::int64_t kComplainAfter = 5'000 * kMillisecond;  // and look again after as long
constexpr std::int64_t kSampleEvery = 500 * kMillisecond;
constexpr std::int64_t kPeakEvery = 5'000 * kMillisecond;  // of a group: one small file
constexpr int kShareEvery = 10;     // samples between two that read shares, which is expensive
constexpr int kFirstLeaseFd = 100;  // out of the way of numbers that shell scripts use
constexpr int kLowLeaseFd = 10;     // where there are too few
constexpr int kJobOomScore = 500;   // the kernel takes a job before the shell, and before us

/// The first of `count` descriptors that are only to be inherited.  REQUIRES: our limit is the one
/// that counts, since they are placed before the program's limits are set.
int first_lease_fd(std::size_t count) {
  constexpr rlim_t kOthers = 32;  // that are open while they are placed
  rlimit limit = {};
  const bool is_low = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
                      limit.rlim_cur < kFirstLeaseFd + 2 * static_cast<rlim_t>(count) + kOthers;
  return is_low ? kLowLeaseFd : kFirstLeaseFd;
}

os::ProcessAttributes attributes_of(const Shell& shell) {
  os::ProcessAttributes out;
  for (const ShellLimit& limit : shell.limits)
    out.limits.push_back({.resource = limit.resource, .soft = limit.soft, .hard = limit.hard});
  out.nice = shell.nice;
  out.policy = shell.policy;
  out.rt_priority = shell.rt_priority;
  out.io_priority = shell.io_priority;
  out.cpus.assign(shell.cpus.begin(), shell.cpus.end());
  out.ignored = shell.ignored;
  out.blocked = shell.blocked;
  out.timer_slack_ns = shell.timer_slack_ns;
  out.personality = shell.personality;
  out.core_filter = shell.core_filter;
  out.oom_score_adj = shell.oom_score_adj;
  out.group = shell.group;
  out.groups.assign(shell.groups.begin(), shell.groups.end());
  return out;
}

os::SpawnPlan spawn_plan_of(const Start& start, int log_fd, const std::vector<os::UniqueFd>& leases,
                            const std::vector<os::UniqueFd>& folder_locks,
                            const os::Cgroup* group) {
  os::SpawnPlan plan;
  plan.argv = start.argv;
  plan.env = start.env;
  plan.cwd = start.cwd;
  plan.stdout_fd = log_fd;
  plan.stderr_fd = log_fd;
  plan.new_session = true;
  plan.umask = static_cast<mode_t>(start.folder.umask);
  plan.oom_score_adj = kJobOomScore;
  plan.cpus.assign(start.cpu_list.begin(), start.cpu_list.end());
  if (start.shell) {
    plan.attributes = attributes_of(*start.shell);
    plan.limits = plan.attributes->limits;
    plan.oom_score_adj = std::max(kJobOomScore, plan.attributes->oom_score_adj);
  } else {
    for (const Limit& limit : start.limits)
      plan.limits.push_back({.resource = limit.resource, .soft = limit.soft});
  }
  int as = first_lease_fd(leases.size() + folder_locks.size());
  for (const os::UniqueFd& lease : leases) plan.fds.push_back({.fd = lease.get(), .as = as++});
  for (const os::UniqueFd& lock : folder_locks) plan.fds.push_back({.fd = lock.get(), .as = as++});
  plan.is_watched = false;  // the keeper waits for it
  if (group != nullptr) {
    plan.group_fd = group->born_in();
    plan.join_fds = group->join_fds();
  }
  return plan;
}

/// Ours, with nothing in it: the log of a START before this one, which started nothing.
bool is_untouched_log(const struct stat& st) {
  return S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_size == 0 && st.st_uid == ::geteuid();
}

/// To the first free name of log.old.txt, log.old.1.txt, …: a log that lies there is kept.
void move_aside(const os::HeldFolder& out, const std::string& log) {
  constexpr int kMostNames = 1000;
  for (int i = 0; i < kMostNames; ++i) {
    const std::string name = "log.old" + (i == 0 ? "" : "." + std::to_string(i)) + ".txt";
    const Result<std::optional<struct stat>> taken = out.look_at(name);
    if (taken && *taken) continue;
    (void)out.rename(log, name);
    return;
  }
}

/// A run's folder may be writable for a group: what a neighbor has put there under the log's name
/// (a link, their own file, another file of the user's, a FIFO) is not written to.  The log of
/// the attempt before was moved aside, so this one is a new file.
Result<os::UniqueFd> open_log(const Start& start, const os::HeldFolder& out) {
  constexpr int kTries = 4;  // a neighbor may put one there again
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK;
  const int folder = out.fd();
  const std::string log_name = os::name_of(start.log_path);
  const char* name = log_name.c_str();
  for (int i = 0; i < kTries; ++i) {
    const mode_t before = ::umask(static_cast<mode_t>(start.folder.umask));
    os::UniqueFd log(::openat(folder, name, kFlags | O_CREAT | O_EXCL, 0666));
    const int error = errno;
    ::umask(before);
    if (!log && error != EEXIST) return os_error("open " + start.log_path, error);
    if (!log) {
      log.reset(::openat(folder, name, kFlags));
      struct stat st = {};
      if (!log && errno == EISDIR) return os_error("open " + start.log_path, EISDIR);
      if (!log || ::fstat(log.get(), &st) < 0 || !is_untouched_log(st)) {
        move_aside(out, log_name);
        continue;
      }
    }
    // The job inherits the open file; on a regular one O_NONBLOCK means nothing, but can be seen.
    (void)::fcntl(log.get(), F_SETFL, O_APPEND);
    return log;
  }
  return os_error("open " + start.log_path, EEXIST);
}

Moment moment_now() {
  const Instant now = os::RealClock().now();
  return {.awake_ns = os::awake_now_ns(), .boot_ns = now.boot_ns, .wall_ns = now.wall_ns};
}

/// A log that cannot be looked at (its file server is gone) counts as written to right now.
LogStamp stamp_of_log(const os::UniqueFd& log, const Moment& now) {
  struct stat st = {};
  if (::fstat(log.get(), &st) < 0) return {.size = -1, .wall_ns = now.wall_ns};
  return {.size = st.st_size,
          .wall_ns = std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec};
}

}  // namespace

std::variant<Attempt, SpawnFailed> Attempt::begin(Start plan, os::HeldFolder out,
                                                  std::vector<os::UniqueFd> leases,
                                                  const os::Cgroup* group,
                                                  std::vector<os::UniqueFd> folder_locks) {
  const auto failed = [&](std::string phase, int error, std::string object) {
    return SpawnFailed{plan.id, std::move(phase), error, std::move(object)};
  };
  if (plan.argv.empty()) return failed("exec", EINVAL, "empty command");
  if (leases.size() != plan.lease_count)
    return failed("lease", EBADF, std::to_string(plan.lease_count) + " descriptors");

  if (os::parent_of(plan.log_path) != plan.folder.out)
    return failed("open log", EINVAL, plan.log_path);

  Result<os::UniqueFd> opened = open_log(plan, out);
  if (!opened && opened.error().os_errno == ENOENT) {  // it was removed right now
    const Result<os::HeldFolder> again = make_folder(plan.folder, plan.root);
    if (again && !prepare_folder(plan.folder, *again)) opened = open_log(plan, *again);
  }
  if (!opened) return failed("open log", opened.error().os_errno, plan.log_path);
  os::UniqueFd log = *std::move(opened);
  if (!folder_locks.empty()) os::lock_log(log.get());

  Attempt attempt;
  if (!plan.outputs.empty() || !plan.patterns.empty()) attempt.stamp_ = stamp_of(log.get());
  os::SpawnResult result = os::spawn(spawn_plan_of(plan, log.get(), leases, folder_locks, group));
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result)) {
    const int error = failure->os_errno;
    const bool may_be_seen = error == ENOENT || error == ENOTDIR || error == EACCES;
    std::string why;
    if (failure->phase == "exec" && may_be_seen)
      why = os::program_trouble(plan.argv[0], plan.cwd, plan.env);
    if (!why.empty()) return failed("program", error, std::move(why));
    return failed(failure->phase, error, failure->object);
  }

  const os::Spawned& spawned = std::get<os::Spawned>(result);
  attempt.pid_ = spawned.pid;
  // Ended or not: this keeper has not reaped it, so /proc still knows it.
  const std::optional<os::ProcStat> stat = os::read_stat(attempt.pid_);
  attempt.start_ticks_ = stat ? stat->start_ticks : 0;
  attempt.leases_ = std::move(leases);
  attempt.folder_locks_ = std::move(folder_locks);
  attempt.plan_ = std::move(plan);
  attempt.plan_.env = {};  // has served; may be large
  attempt.plan_.folder = {};
  attempt.enter(group, spawned.is_grouped);
  if (attempt.plan_.memory_bytes > 0) attempt.sample_at_ns_ = 0;
  if (attempt.plan_.idle_ns > 0 || attempt.plan_.stall_ns > 0) attempt.watch_quiet(std::move(log));
  return attempt;
}

/// A limit counts as held when the first process is in every group that it needs.
void Attempt::enter(const os::Cgroup* group, bool is_grouped) {
  group_ = group;
  if (group == nullptr || !is_grouped) return;
  cpu_is_held_ = group->cpu_version() != 0;
  memory_is_held_ = group->memory_version() != 0;
  if (!memory_is_held_) return;
  Result<os::UniqueFd> event = group->watch_memory();
  if (event)
    memory_event_ = *std::move(event);
  else
    memory_is_held_ = false;  // without an event: watched, below a limit that holds all the same
}

Started Attempt::started() const {
  Started out{.id = plan_.id, .pid = pid_, .start_ticks = start_ticks_};
  if (group_ != nullptr) out.groups = group_->folders();
  if (memory_is_held_) out.memory_held = group_->memory_version();
  if (cpu_is_held_) out.cpu_held = group_->cpu_version();
  return out;
}

std::vector<int> Attempt::lease_fds() const {
  std::vector<int> out;
  for (const os::UniqueFd& lease : leases_) out.push_back(lease.get());
  return out;
}

void Attempt::on_reaped(const os::Reaped& child, Instant now) {
  cpu_ns_ += child.cpu_ns;
  peak_bytes_ = std::max(peak_bytes_, child.max_rss_bytes);
  if (child.pid != pid_) return;
  quiet_.reset();
  first_ = child.status;
  ended_at_ = now;
}

/// When what the first process left is ended; nullopt: that has begun, or it lives.
std::optional<std::int64_t> Attempt::leftovers_due() const {
  if (!first_ || leftovers_told_) return std::nullopt;
  return stop_was_asked_ ? 0 : ended_at_.boot_ns + kLeftoverPause;
}

void Attempt::end_leftovers(std::int64_t now_ns) {
  leftovers_told_ = true;
  if (!stop_was_asked_) {
    const std::vector<os::TreeMember> left = os::descendants_of(::getpid());
    left_count_ = static_cast<std::int32_t>(left.size());
    left_names_ = names_of(left);
  }
  os::signal_descendants(SIGTERM);
  os::signal_descendants(SIGCONT);
  const std::int64_t kill_at = now_ns + std::min(plan_.grace_ns, kLeftoverGrace);
  kill_at_ns_ = std::min(kill_at_ns_.value_or(kill_at), kill_at);
}

void Attempt::stop(bool kill, std::int64_t now_ns) {
  quiet_.reset();
  stop_was_asked_ = true;
  if (!kill && !first_) {
    ::kill(-pid_, SIGTERM);
    ::kill(-pid_, SIGCONT);
  }
  const std::int64_t kill_at = now_ns + (kill ? 0 : std::max<std::int64_t>(plan_.grace_ns, 0));
  kill_at_ns_ = std::min(kill_at_ns_.value_or(kill_at), kill_at);
}

void Attempt::signal(int number) {
  if (first_ || std::exchange(signalled_, true)) return;
  const std::vector<GroupMember> members = members_of(pid_, number);
  if (members.empty()) ::kill(-pid_, number);  // nothing can be read of them
  for (const pid_t pid : signal_targets(members)) ::kill(pid, number);
}

void Attempt::on_memory(std::int64_t now_ns) {
  std::uint64_t times = 0;
  (void)!::read(memory_event_.get(), &times, sizeof times);
  if (!group_->has_run_out()) return;  // a group above it has
  memory_event_.reset();               // once is enough
  memory_ran_out_ = true;
  stop(/*kill=*/true, now_ns);
}

std::vector<std::variant<Memory, Notify, Quiet>> Attempt::on_time(std::int64_t now_ns) {
  std::vector<std::variant<Memory, Notify, Quiet>> out;
  if (const auto due = leftovers_due(); due && now_ns >= *due) end_leftovers(now_ns);
  if (kill_at_ns_ && now_ns >= *kill_at_ns_) {
    if (group_ != nullptr) os::kill_groups(group_->folders());
    os::kill_descendants();
    if (kill_again_after_ns_ == 0) complain_at_ns_ = now_ns + kComplainAfter;
    kill_again_after_ns_ = std::clamp(2 * kill_again_after_ns_, kFirstKillAgain, kLastKillAgain);
    kill_at_ns_ = now_ns + kill_again_after_ns_;
  }
  if (complain_at_ns_ && now_ns >= *complain_at_ns_) {
    if (std::optional<Notify> news = complain(now_ns)) out.push_back(*std::move(news));
  }
  if (sample_at_ns_ && now_ns >= *sample_at_ns_) {
    sample_at_ns_ = now_ns + (memory_is_held_ ? kPeakEvery : kSampleEvery);
    if (std::optional<Memory> exceeded = sample_memory()) out.push_back(*exceeded);
  }
  if (quiet_ && now_ns >= quiet_->next_time()) {
    for (Quiet& quiet : look_for_quiet()) out.push_back(std::move(quiet));
  }
  return out;
}

std::optional<std::int64_t> Attempt::next_time() const {
  std::optional<std::int64_t> out = leftovers_due();
  for (const std::optional<std::int64_t>& time : {kill_at_ns_, complain_at_ns_, sample_at_ns_}) {
    if (time) out = std::min(out.value_or(*time), *time);
  }
  if (quiet_) out = std::min(out.value_or(quiet_->next_time()), quiet_->next_time());
  return out;
}

/// The resident sets are an upper bound that costs little; the proportional shares decide, because
/// workers that fork share most of their pages.
std::optional<Memory> Attempt::sample_memory() {
  if (memory_is_held_) {
    peak_bytes_ = std::max(peak_bytes_, group_->used_bytes());
    return std::nullopt;
  }
  const std::vector<os::TreeMember> tree = os::descendants_of(::getpid());
  std::uint64_t bytes = 0;
  for (const os::TreeMember& member : tree) bytes += os::resident_bytes(member.pid);
  if (tree.size() > 1 && (bytes > plan_.memory_bytes || samples_++ % kShareEvery == 0)) {
    bytes = 0;
    for (const os::TreeMember& member : tree) bytes += os::proportional_bytes(member.pid);
    peak_bytes_ = std::max(peak_bytes_, bytes);
  } else if (tree.size() <= 1) {
    peak_bytes_ = std::max(peak_bytes_, bytes);
  }
  if (bytes <= plan_.memory_bytes) return std::nullopt;
  sample_at_ns_.reset();  // said once
  return Memory{.id = id(), .bytes = bytes};
}

/// Says what is left when that has changed: which process, and why it does not go.
std::optional<Notify> Attempt::complain(std::int64_t now_ns) {
  complain_at_ns_ = now_ns + kComplainAfter;
  std::string words = os::why_left_below(::getpid());
  if (words == resists_) return std::nullopt;
  resists_ = std::move(words);
  return Notify{.id = id(), .line = std::string(kResists) + resists_};
}

void Attempt::watch_quiet(os::UniqueFd log) {
  log_ = std::move(log);
  const Moment now = moment_now();
  quiet_.emplace(plan_.idle_ns, plan_.stall_ns, now, stamp_of_log(log_, now), tree_cpu_ns());
}

std::vector<Quiet> Attempt::look_for_quiet() {
  const Moment now = moment_now();
  const std::int64_t cpu_ns = quiet_->needs_cpu(now) ? tree_cpu_ns() : 0;
  std::vector<Quiet> out;
  for (const QuietWatch::Found& found : quiet_->look(now, stamp_of_log(log_, now), cpu_ns)) {
    out.push_back({.id = id(),
                   .is_stall = found.is_stall,
                   .silent_ns = found.silent_ns,
                   .cpu_ns = found.cpu_ns});
  }
  return out;
}

/// By the group where the kernel counts there; else by the processes that live and those that were
/// reaped.
std::int64_t Attempt::tree_cpu_ns() const {
  if (group_ != nullptr) {
    if (const std::optional<std::int64_t> counted = group_->cpu_ns()) return *counted;
  }
  std::int64_t sum = cpu_ns_;
  for (const os::TreeMember& member : os::descendants_of(::getpid())) sum += member.cpu_ns;
  return sum;
}

Exited Attempt::finish() {
  Exited out;
  out.id = id();
  if (const auto* exited = std::get_if<os::Exited>(&*first_)) out.exit_code = exited->code;
  if (const auto* signaled = std::get_if<os::Signaled>(&*first_)) out.signal = signaled->signal;
  out.cpu_ns = cpu_ns_;
  if (group_ != nullptr && group_->memory_version() != 0) {
    const os::CgroupMemory memory = group_->memory();
    out.oom_kills = std::max<std::uint64_t>(memory.kills, memory_ran_out_ ? 1 : 0);
    out.oom_at_limit = memory.at_limit;
    // With cached files in it the peak of a group means little unless the limit did not suffice;
    // then it is what was compared, unlike the resident sets, which count shared pages.
    if (out.oom_kills > 0 && memory.peak_bytes > 0) peak_bytes_ = memory.peak_bytes;
  }
  out.peak_memory_bytes = peak_bytes_;
  out.wall_ns = ended_at_.wall_ns;
  out.boot_ns = ended_at_.boot_ns;
  if (std::optional<MissingOutput> missing = first_missing(plan_.outputs, plan_.patterns, stamp_)) {
    out.missing_output = std::move(missing->path);
    out.missing_why = std::move(missing->why);
  }
  out.left_count = left_count_;
  out.left_names = left_names_;
  leases_.clear();
  folder_locks_.clear();
  return out;
}

}  // namespace pergpu::keeper
