// What may be had is found out by trying it where the kernel's rules depend on more than this
// process shows (a capability counts in the first user namespace only), and then undone.
#include "os/process/process_attributes.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "number.h"
#include "os/fs/file.h"

namespace pergpu::os {
namespace {

constexpr char kCoreFilterPath[] = "/proc/self/coredump_filter";
constexpr int kSignals = 64;
constexpr int kIoClassShift = 13;
constexpr int kIoBestEffort = (2 << kIoClassShift) | 4;
constexpr int kLowestNice = -20;
constexpr int kHighestRtPriority = 99;
constexpr int kNiceOfZeroLimit = 20;  // RLIMIT_NICE is 20 - nice
constexpr std::uint32_t kSamePersonality = 0xffffffff;
constexpr int kMostCores = 1 << 16;

struct Signals {
  std::uint64_t ignored = 0;
  std::uint64_t blocked = 0;
};
std::optional<Signals> remembered;

Signals signals_now() {
  Signals out;
  sigset_t mask;
  ::sigemptyset(&mask);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  for (int number = 1; number <= kSignals; ++number) {
    const std::uint64_t bit = std::uint64_t{1} << (number - 1);
    struct sigaction action = {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      out.ignored |= bit;
    if (::sigismember(&mask, number) == 1) out.blocked |= bit;
  }
  return out;
}

rlimit limit_now(int resource) {
  rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  (void)::getrlimit(resource, &limit);
  return limit;
}

bool set_limit(int resource, const rlimit& limit) { return ::setrlimit(resource, &limit) == 0; }

std::vector<SpawnLimit> limits_now() {
  std::vector<SpawnLimit> out;
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    const rlimit limit = limit_now(resource);
    out.push_back({.resource = resource, .soft = limit.rlim_cur, .hard = limit.rlim_max});
  }
  return out;
}

/// A set that is large enough for this kernel.
struct Cores {
  explicit Cores(std::size_t count)
      : bytes(CPU_ALLOC_SIZE(count)), words(bytes / sizeof(unsigned long)) {}
  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(words.data()); }
  std::size_t bytes;
  std::vector<unsigned long> words;
};

std::optional<Cores> affinity() {
  for (std::size_t count = CPU_SETSIZE; count <= kMostCores; count *= 4) {
    Cores cores(count);
    if (::sched_getaffinity(0, cores.bytes, cores.set()) == 0) return cores;
    if (errno != EINVAL) break;
  }
  return std::nullopt;
}

std::vector<int> list_of(std::optional<Cores> cores) {
  std::vector<int> out;
  if (!cores) return out;
  for (std::size_t core = 0; core < cores->bytes * 8; ++core) {
    if (CPU_ISSET_S(core, cores->bytes, cores->set())) out.push_back(static_cast<int>(core));
  }
  return out;
}

/// The kernel takes of all cores those that the control group has.
void widen_affinity() {
  std::optional<Cores> all = affinity();
  if (!all) return;
  std::fill(all->words.begin(), all->words.end(), ~0UL);
  (void)::sched_setaffinity(0, all->bytes, all->set());
}

int policy_now() {
  const int policy = ::sched_getscheduler(0);
  return policy < 0 ? SCHED_OTHER : policy & ~SCHED_RESET_ON_FORK;
}

int nice_of(pid_t process) {
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(process));
  return errno == 0 ? nice : 0;
}

std::vector<gid_t> groups_now() {
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> out(count > 0 ? static_cast<std::size_t>(count) : 0);
  const int got = ::getgroups(count, out.data());
  out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  std::sort(out.begin(), out.end());
  return out;
}

std::string word_of(const char* path) {
  constexpr std::size_t kShort = 64;
  Result<std::string> text = read_file(path, kShort);
  if (!text) return {};
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *std::move(text);
}

/// One above a hard limit, and back.
bool may_raise_limits() {
  for (const int resource : {RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING}) {
    const rlimit before = limit_now(resource);
    if (before.rlim_max == RLIM_INFINITY) continue;
    rlimit more = before;
    ++more.rlim_max;
    if (!set_limit(resource, more)) return false;
    (void)set_limit(resource, before);
    return true;
  }
  return true;
}

int nice_of_limit() {
  const rlim_t most = limit_now(RLIMIT_NICE).rlim_max;
  if (most == RLIM_INFINITY || most >= 40) return kLowestNice;
  return kNiceOfZeroLimit - static_cast<int>(most);
}

bool has_capability(unsigned capability) {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) < 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1U) != 0;
}

/// Any nice value, whatever the limit says.
bool may_prioritize() {
  const int before = nice_of(0);
  if (before <= kLowestNice || nice_of_limit() <= kLowestNice)
    return has_capability(CAP_SYS_NICE);  // nothing to try it with
  if (::setpriority(PRIO_PROCESS, 0, kLowestNice) != 0) return false;
  (void)::setpriority(PRIO_PROCESS, 0, before);
  return true;
}

/// What is given up could not be had again: of a shell that was given it from outside.
void shed_nice() {
  const int nice = nice_of(0);
  if (nice > 0 || (nice < 0 && (nice_of_limit() <= nice || may_prioritize())))
    (void)::setpriority(PRIO_PROCESS, 0, 0);
}

bool is_superset(const std::vector<gid_t>& a, const std::vector<gid_t>& b) {
  return std::includes(a.begin(), a.end(), b.begin(), b.end());
}

std::vector<gid_t> groups_of(pid_t process) {
  constexpr std::size_t kLongest = 1u << 20;
  std::vector<gid_t> out;
  const Result<std::string> text =
      read_file("/proc/" + std::to_string(process) + "/status", kLongest);
  const std::size_t at = text ? text->find("\nGroups:") : std::string::npos;
  if (at == std::string::npos) return out;
  const char* next = text->c_str() + at + sizeof("\nGroups:") - 1;
  for (;;) {
    while (*next == ' ' || *next == '\t') ++next;
    if (*next < '0' || *next > '9') break;
    char* end = nullptr;
    out.push_back(static_cast<gid_t>(std::strtoul(next, &end, 10)));
    next = end;
  }
  std::sort(out.begin(), out.end());
  return out;
}

constexpr int kOwnLimits[] = {RLIMIT_FSIZE, RLIMIT_CPU,   RLIMIT_AS,
                              RLIMIT_DATA,  RLIMIT_NPROC, RLIMIT_STACK};

/// Of a stack much more than it needs would only move where memory is mapped.
rlim_t enough_of(int resource, const rlimit& limit) {
  constexpr rlim_t kStack = rlim_t{8} << 20;
  if (resource != RLIMIT_STACK) return limit.rlim_max;
  return std::max(limit.rlim_cur, std::min(limit.rlim_max, kStack));
}

void raise_soft_limit(int resource) {
  rlimit limit = limit_now(resource);
  if (limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)set_limit(resource, limit);
}

}  // namespace

void remember_signals() { remembered = signals_now(); }

ProcessAttributes own_attributes() {
  ProcessAttributes out;
  out.limits = limits_now();
  out.nice = nice_of(0);
  out.policy = policy_now();
  sched_param param = {};
  if (::sched_getparam(0, &param) == 0) out.rt_priority = param.sched_priority;
  const long io = ::syscall(SYS_ioprio_get, kIoOfProcess, 0);
  out.io_priority = io < 0 ? 0 : static_cast<int>(io);
  out.cpus = own_cores();
  const Signals signals = remembered.value_or(signals_now());
  out.ignored = signals.ignored;
  out.blocked = signals.blocked;
  const int slack = ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  if (slack > 0) out.timer_slack_ns = slack;
  const int personality = ::personality(kSamePersonality);
  if (personality > 0) out.personality = static_cast<std::uint32_t>(personality);
  out.core_filter = own_core_filter().value_or(kUsualCoreFilter);
  out.oom_score_adj = whole_number<int>(word_of("/proc/self/oom_score_adj")).value_or(0);
  out.group = ::getegid();
  out.groups = groups_now();
  return out;
}

std::optional<std::uint32_t> own_core_filter() {
  return whole_number<std::uint32_t>(word_of(kCoreFilterPath), 16);
}

bool set_core_filter(std::uint32_t filter) {
  return static_cast<bool>(write_kernel_file(kCoreFilterPath, std::to_string(filter)));
}

bool has_groups(const std::vector<gid_t>& ascending, gid_t group) {
  return ::getegid() == group && groups_now() == ascending;
}

Reach own_reach() {
  Reach out;
  out.limits = limits_now();
  out.any_limit = may_raise_limits();
  const bool is_mighty = may_prioritize();
  out.lowest_nice = is_mighty ? kLowestNice : std::min(nice_of(0), nice_of_limit());
  out.only_idle = !is_mighty && policy_now() == SCHED_IDLE && nice_of_limit() > nice_of(0);
  const rlim_t most_rt = limit_now(RLIMIT_RTPRIO).rlim_max;
  out.most_rt_priority =
      is_mighty || most_rt > kHighestRtPriority ? kHighestRtPriority : static_cast<int>(most_rt);
  out.io_realtime = is_mighty;
  out.cpus = usable_cores();
  out.group = ::getegid();
  out.groups = groups_now();
  out.any_group = ::setgroups(out.groups.size(), out.groups.data()) == 0;
  out.groups.push_back(out.group);
  std::sort(out.groups.begin(), out.groups.end());
  out.groups.erase(std::unique(out.groups.begin(), out.groups.end()), out.groups.end());
  return out;
}

bool covers(const Reach& a, const Reach& b) {
  if (b.any_limit && !a.any_limit) return false;
  for (const SpawnLimit& limit : b.limits) {
    if (a.any_limit) break;
    const auto same = std::find_if(a.limits.begin(), a.limits.end(), [&](const SpawnLimit& its) {
      return its.resource == limit.resource;
    });
    if (same == a.limits.end() || same->hard.value_or(0) < limit.hard.value_or(0)) return false;
  }
  if (b.any_group && !a.any_group) return false;
  if (!a.any_group && (a.group != b.group || !is_superset(a.groups, b.groups))) return false;
  return a.lowest_nice <= b.lowest_nice && (b.only_idle || !a.only_idle) &&
         a.most_rt_priority >= b.most_rt_priority && (a.io_realtime || !b.io_realtime) &&
         std::includes(a.cpus.begin(), a.cpus.end(), b.cpus.begin(), b.cpus.end());
}

bool has_less(pid_t process) {
  if (nice_of(process) > nice_of(0)) return true;
  const int policy = ::sched_getscheduler(process) & ~SCHED_RESET_ON_FORK;
  if (policy == SCHED_IDLE && policy_now() != SCHED_IDLE) return true;
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    if (hard_limit_of(process, resource) < limit_now(resource).rlim_max) return true;
  }
  return !is_superset(groups_of(process), groups_now());
}

std::uint64_t hard_limit_of(pid_t process, int resource) {
  rlimit limit = {};
  // The library's prlimit() takes an enumeration whose name differs between libraries.
  return ::syscall(SYS_prlimit64, process, resource, nullptr, &limit) == 0 ? limit.rlim_max
                                                                           : RLIM_INFINITY;
}

void raise_own_limits() {
  for (const int resource : kOwnLimits) {
    rlimit limit = limit_now(resource);
    const rlim_t enough = enough_of(resource, limit);
    if (limit.rlim_cur == enough) continue;
    limit.rlim_cur = enough;
    (void)set_limit(resource, limit);
  }
  for (const int signal : {SIGXFSZ, SIGXCPU, SIGPIPE}) ::signal(signal, SIG_IGN);
}

std::vector<SpawnLimit> raised_limits() {
  std::vector<SpawnLimit> out;
  for (const int resource : kOwnLimits) {
    const rlimit limit = limit_now(resource);
    out.push_back({.resource = resource, .soft = enough_of(resource, limit)});
  }
  return out;
}

void shed_attributes(bool keep_cores) {
  // The kernel compares with the soft limit.
  for (const int resource : {RLIMIT_NICE, RLIMIT_RTPRIO}) raise_soft_limit(resource);
  const sched_param none = {};
  if (policy_now() != SCHED_OTHER) (void)::sched_setscheduler(0, SCHED_OTHER, &none);
  shed_nice();
  if (::syscall(SYS_ioprio_get, kIoOfProcess, 0) > 0 &&
      ::syscall(SYS_ioprio_set, kIoOfProcess, 0, 0) < 0) {
    (void)::syscall(SYS_ioprio_set, kIoOfProcess, 0, kIoBestEffort);
  }
  if (!keep_cores) widen_affinity();
  (void)::prctl(PR_SET_TIMERSLACK, kUsualTimerSlackNs, 0, 0, 0);
  (void)::personality(PER_LINUX);
  if (word_of("/proc/self/oom_score_adj") != "0")
    (void)write_kernel_file("/proc/self/oom_score_adj", "0");  // best effort
}

std::vector<int> own_cores() { return list_of(affinity()); }

std::vector<int> usable_cores() {
  std::optional<Cores> before = affinity();
  if (!before) return {};
  widen_affinity();
  std::vector<int> out = list_of(affinity());
  (void)::sched_setaffinity(0, before->bytes, before->set());
  return out;
}

std::string ulimit_option(int resource, bool hard) {
  constexpr char kLetters[] = {'t', 'f', 'd', 's', 'c', 'm', 'u', 'n',
                               'l', 'v', 'x', 'i', 'q', 'e', 'r', 'R'};
  if (resource < 0 || resource >= static_cast<int>(sizeof kLetters)) return {};
  return std::string("ulimit -") + (hard ? "H" : "") + kLetters[resource];
}

std::string limit_name(int resource) {
  switch (resource) {
    case RLIMIT_CPU:
      return "seconds of CPU time";
    case RLIMIT_FSIZE:
      return "bytes a file";
    case RLIMIT_DATA:
      return "bytes of data";
    case RLIMIT_STACK:
      return "bytes of stack";
    case RLIMIT_CORE:
      return "bytes of core dump";
    case RLIMIT_RSS:
      return "bytes resident";
    case RLIMIT_NPROC:
      return "processes";
    case RLIMIT_NOFILE:
      return "open files";
    case RLIMIT_MEMLOCK:
      return "bytes of locked memory";
    case RLIMIT_AS:
      return "bytes of address space";
    case RLIMIT_LOCKS:
      return "file locks";
    case RLIMIT_SIGPENDING:
      return "pending signals";
    case RLIMIT_MSGQUEUE:
      return "bytes of message queues";
    case RLIMIT_NICE:
      return "as limit of nice";
    case RLIMIT_RTPRIO:
      return "as real-time priority";
    case RLIMIT_RTTIME:
      return "microseconds of real-time CPU";
    default:
      return "of resource " + std::to_string(resource);
  }
}

}  // namespace pergpu::os
