// Rules that the child obeys: no allocation, no lock, no return from child_main(), and bare system
// calls instead of library functions: a sanitizer's or the library's own bookkeeping would be done
// in the parent's memory.  All signals are blocked across the clone, because a handler of the
// parent that ran in the child would run in the parent's memory.
#include "os/process/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "os/kernel.h"
#include "os/process/child.h"
#include "os/process/end_watch.h"
#include "os/system_calls.h"

// The child runs on memory that the sanitizers believe to be the parent's.
#define PERGPU_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

// The C library's clone() under the name that ThreadSanitizer does not replace: its replacement
// takes the call for a fork and notes in the shared memory that threads must not be started any
// more.
#if defined(__GLIBC__)
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);
#else
#define __clone clone
#endif

namespace pergpu::os {
namespace {

enum class Phase : int { None, Session, Affinity, Chdir, Fds, Exec };

constexpr std::size_t kChildStackBytes = 32 * 1024;
constexpr int kLastSignal = 64;
constexpr std::size_t kKernelSignalSetBytes = 8;
constexpr unsigned long kIgnoreSignal = 1;  // SIG_IGN
static_assert(sizeof(rlimit) == 16, "prlimit64 takes 64-bit limits");

struct ChildLimit {
  int resource = 0;
  std::uint64_t soft = 0;
  bool has_hard = false;
  std::uint64_t hard = 0;
};

/// All that the child reads, prepared by the parent, and the failure that it writes.
struct ChildPlan {
  const char* const* argv = nullptr;
  const char* const* env = nullptr;
  const char* const* candidates = nullptr;  // ends with nullptr
  const char** shell_argv = nullptr;        // {"/bin/sh", <candidate>, argv[1] …}
  const char* cwd = nullptr;
  PlacedFd* fds = nullptr;
  std::size_t fd_count = 0;
  int first_free_fd = 3;
  const ChildLimit* limits = nullptr;
  std::size_t limit_count = 0;
  const ProcessAttributes* attributes = nullptr;
  bool set_groups = false;
  const gid_t* groups = nullptr;
  std::size_t group_count = 0;
  const cpu_set_t* cpus = nullptr;
  std::size_t cpus_bytes = 0;
  bool must_pin = false;
  std::uint64_t ignored = 0;  // signals
  std::uint64_t blocked = 0;
  const char* oom_text = nullptr;
  std::size_t oom_bytes = 0;
  mode_t umask = 0;
  bool set_umask = false;
  bool new_session = false;
  int parent_death_signal = 0;
  pid_t parent_pid = 0;
  const int* join_fds = nullptr;
  std::size_t join_count = 0;
  bool has_close_range = true;

  bool joined_all = true;
  Phase failed = Phase::None;
  int error = 0;
  std::size_t index = 0;  // of the descriptor concerned
};

/// "0" is the writer.  First of all, so that nothing that is made on the way counts elsewhere.
PERGPU_IN_CHILD void join_groups(ChildPlan& plan) {
  for (std::size_t i = 0; i < plan.join_count; ++i) {
    if (::syscall(SYS_write, plan.join_fds[i], "0", 1) != 1) plan.joined_all = false;
  }
}

[[noreturn]] PERGPU_IN_CHILD void leave() {
  for (;;) ::syscall(SYS_exit_group, 127);
}

[[noreturn]] PERGPU_IN_CHILD void fail(ChildPlan& plan, Phase phase, std::size_t index = 0) {
  plan.error = errno;
  plan.failed = phase;
  plan.index = index;
  leave();
}

PERGPU_IN_CHILD void set_dispositions(std::uint64_t ignored) {
  // The kernel's struct sigaction: the handler first, no flags, empty mask.
  const unsigned long standard[8] = {};
  const unsigned long ignore[8] = {kIgnoreSignal};
  for (int signal = 1; signal <= kLastSignal; ++signal) {
    const bool is_ignored = (ignored >> (signal - 1) & 1U) != 0;
    ::syscall(SYS_rt_sigaction, signal, is_ignored ? ignore : standard, nullptr,
              kKernelSignalSetBytes);
  }
}

/// As much of it as may be had: a job with less is better than none.
PERGPU_IN_CHILD void set_limit(const ChildLimit& wanted) {
  rlimit now = {};
  if (::syscall(SYS_prlimit64, 0, wanted.resource, nullptr, &now) < 0) return;
  rlimit next = {.rlim_cur = wanted.soft, .rlim_max = wanted.has_hard ? wanted.hard : now.rlim_max};
  if (!wanted.has_hard && next.rlim_max < next.rlim_cur) next.rlim_max = next.rlim_cur;
  if (next.rlim_cur > next.rlim_max) next.rlim_cur = next.rlim_max;
  if (next.rlim_cur == now.rlim_cur && next.rlim_max == now.rlim_max) return;
  if (::syscall(SYS_prlimit64, 0, wanted.resource, &next, nullptr) == 0) return;
  if (next.rlim_max > now.rlim_max) next.rlim_max = now.rlim_max;
  if (next.rlim_cur > next.rlim_max) next.rlim_cur = next.rlim_max;
  ::syscall(SYS_prlimit64, 0, wanted.resource, &next, nullptr);
}

/// The kernel compares priorities with the soft limits of the caller.
PERGPU_IN_CHILD void raise_soft_limit_in_child(int resource) {
  rlimit limit = {};
  if (::syscall(SYS_prlimit64, 0, resource, nullptr, &limit) < 0) return;
  if (limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::syscall(SYS_prlimit64, 0, resource, &limit, nullptr);
}

PERGPU_IN_CHILD void set_attributes(const ChildPlan& plan) {
  const ProcessAttributes& wanted = *plan.attributes;
  raise_soft_limit_in_child(RLIMIT_NICE);
  raise_soft_limit_in_child(RLIMIT_RTPRIO);
  const int priority = wanted.rt_priority;  // the kernel's struct sched_param
  ::syscall(SYS_sched_setscheduler, 0, wanted.policy, &priority);
  ::syscall(SYS_setpriority, PRIO_PROCESS, 0, wanted.nice);
  ::syscall(SYS_ioprio_set, kIoOfProcess, 0, wanted.io_priority);
  ::syscall(SYS_prctl, PR_SET_TIMERSLACK, wanted.timer_slack_ns, 0, 0, 0);
  ::syscall(SYS_personality, static_cast<unsigned long>(wanted.personality));
  if (plan.set_groups) {
    ::syscall(SYS_setgroups, plan.group_count, plan.groups);
    ::syscall(SYS_setresgid, wanted.group, wanted.group, wanted.group);
  }
}

/// Descriptors from 3 on, one by one: what close_range() does at once.
PERGPU_IN_CHILD bool close_each_at_exec() {
  const long folder =
      ::syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (folder < 0) return false;
  alignas(call::FolderEntry) char block[4096];
  long size = 0;
  while ((size = ::syscall(SYS_getdents64, folder, block, sizeof block)) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const call::FolderEntry*>(block + at);
      at += entry->bytes;
      int fd = 0;
      for (const char* digit = entry->name; *digit >= '0' && *digit <= '9'; ++digit)
        fd = fd * 10 + (*digit - '0');
      if (fd >= 3) ::syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
    }
  }
  ::syscall(SYS_close, folder);
  return size == 0;
}

PERGPU_IN_CHILD bool close_all_at_exec(bool has_close_range) {
  if (!has_close_range) return close_each_at_exec();
  return ::syscall(call::kCloseRange, 3U, ~0U, call::kCloseRangeCloexec) == 0;
}

/// Puts each descriptor in its place.  All are first copied above every target, so that no target
/// overwrites a source that is still needed.
PERGPU_IN_CHILD void place_fds(ChildPlan& plan) {
  if (!close_all_at_exec(plan.has_close_range)) fail(plan, Phase::Fds);
  for (std::size_t i = 0; i < plan.fd_count; ++i) {
    const long copy = ::syscall(SYS_fcntl, plan.fds[i].fd, F_DUPFD_CLOEXEC, plan.first_free_fd);
    if (copy < 0) fail(plan, Phase::Fds, i);
    plan.fds[i].fd = static_cast<int>(copy);
  }
  for (std::size_t i = 0; i < plan.fd_count; ++i) {
    if (::syscall(SYS_dup3, plan.fds[i].fd, plan.fds[i].as, 0) < 0) fail(plan, Phase::Fds, i);
  }
}

/// Best effort: a container may not allow it.
PERGPU_IN_CHILD void set_oom_score(const ChildPlan& plan) {
  const long fd =
      ::syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0) return;
  ::syscall(SYS_write, fd, plan.oom_text, plan.oom_bytes);
  ::syscall(SYS_close, fd);
}

/// execvp() over the prepared candidates: a file that may not be executed is remembered, one that
/// is not there is passed over, one without a known format goes to the shell.
[[noreturn]] PERGPU_IN_CHILD void exec_first(ChildPlan& plan) {
  bool denied = false;
  errno = ENOENT;
  for (const char* const* candidate = plan.candidates; *candidate != nullptr; ++candidate) {
    ::syscall(SYS_execve, *candidate, plan.argv, plan.env);
    if (errno == ENOEXEC) {
      plan.shell_argv[1] = *candidate;
      ::syscall(SYS_execve, plan.shell_argv[0], plan.shell_argv, plan.env);
    }
    const bool try_next = errno == ENOENT || errno == ENOTDIR || errno == EACCES ||
                          errno == ESTALE || errno == ENODEV || errno == ETIMEDOUT;
    if (!try_next) fail(plan, Phase::Exec);
    denied = denied || errno == EACCES;
  }
  if (denied) errno = EACCES;
  fail(plan, Phase::Exec);
}

PERGPU_IN_CHILD int child_main(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  join_groups(plan);
  set_dispositions(plan.ignored);
  if (plan.new_session && ::syscall(SYS_setsid) < 0) fail(plan, Phase::Session);
  if (plan.parent_death_signal != 0) {
    ::syscall(SYS_prctl, PR_SET_PDEATHSIG, plan.parent_death_signal, 0, 0, 0);
    if (::syscall(SYS_getppid) != plan.parent_pid) leave();  // it died before the signal was armed
  }
  if (plan.set_umask) ::syscall(SYS_umask, plan.umask);
  if (plan.cpus != nullptr && ::syscall(SYS_sched_setaffinity, 0, plan.cpus_bytes, plan.cpus) < 0 &&
      plan.must_pin)
    fail(plan, Phase::Affinity);
  if (plan.attributes != nullptr) set_attributes(plan);
  if (plan.oom_text != nullptr) set_oom_score(plan);
  if (plan.cwd != nullptr && ::syscall(SYS_chdir, plan.cwd) < 0) fail(plan, Phase::Chdir);
  place_fds(plan);
  for (std::size_t i = 0; i < plan.limit_count; ++i)  // last: a low RLIMIT_NOFILE hinders dup3
    set_limit(plan.limits[i]);
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &plan.blocked, nullptr, kKernelSignalSetBytes);
  exec_first(plan);
}

/// clone3(), which the C library does not offer: the child calls child_main(plan) on its own stack
/// and never returns.  -1 and errno as usual; ENOSYS where this processor's calls are not known
/// here.
long clone_into_group(call::CloneArguments& args, ChildPlan& plan) {
#if defined(__x86_64__)
  long result = call::kClone3;
  register void* argument asm("r8") = &plan;
  register int (*function)(void*) asm("r9") = child_main;
  asm volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "movq %%r8, %%rdi\n\t"
      "callq *%%r9\n\t"
      "hlt\n"
      "1:"
      : "+a"(result)
      : "D"(&args), "S"(sizeof args), "r"(argument), "r"(function)
      : "rcx", "r11", "memory", "cc");
#elif defined(__aarch64__)
  register long result asm("x0") = reinterpret_cast<long>(&args);
  register long size asm("x1") = sizeof args;
  register long number asm("x8") = call::kClone3;
  register void* argument asm("x9") = &plan;
  register int (*function)(void*) asm("x10") = child_main;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, #0\n\t"
      "mov x0, x9\n\t"
      "blr x10\n\t"
      "brk #0\n"
      "1:"
      : "+r"(result)
      : "r"(size), "r"(number), "r"(argument), "r"(function)
      : "memory", "cc");
#else
  (void)args;
  (void)plan;
  const long result = -ENOSYS;
#endif
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

/// A handle of the child, by the kernel or by what stands in for it.
class Handle {
 public:
  explicit Handle(bool is_wanted) : is_wanted_(is_wanted), by_kernel_(kernel_has_pidfds()) {}

  /// False: errno; nothing may be started.
  bool prepare() {
    if (by_kernel_ || !is_wanted_) return true;
    Result<EndWatch> watch = EndWatch::make();
    if (!watch) errno = watch.error().os_errno;
    if (watch) watch_ = *std::move(watch);
    return watch_.has_value();
  }
  int clone_flag() const { return by_kernel_ ? call::kClonePidfd : 0; }
  int* pidfd() { return &pidfd_; }
  UniqueFd take(pid_t pid) {
    if (watch_) return (*std::move(watch_)).begin(pid);
    return UniqueFd(pidfd_);
  }

 private:
  bool is_wanted_;
  bool by_kernel_;
  int pidfd_ = -1;
  std::optional<EndWatch> watch_ = std::nullopt;
};

/// Null-terminated array of pointers into `texts`.
std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(text.c_str());
  out.push_back(nullptr);
  return out;
}

struct CpuSetFree {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// The one attribute that lies with the memory, which the child shares until its exec: this process
/// has it meanwhile.
class CoreFilter {
 public:
  explicit CoreFilter(const std::optional<ProcessAttributes>& attributes) {
    if (!attributes) return;
    if (!now_) now_ = own_core_filter();
    if (!now_ || *now_ == attributes->core_filter) return;
    if (set_core_filter(attributes->core_filter)) before_ = now_;
  }
  ~CoreFilter() {
    if (before_ && !set_core_filter(*before_)) now_.reset();
  }
  CoreFilter(const CoreFilter&) = delete;
  CoreFilter& operator=(const CoreFilter&) = delete;

 private:
  /// That of this process, which nothing but this class sets.  nullopt: it has to be read.
  static inline std::optional<std::uint32_t> now_ = std::nullopt;
  std::optional<std::uint32_t> before_ = std::nullopt;
};

SpawnFailure describe(const SpawnPlan& plan, const ChildPlan& child) {
  const int error = child.error;
  switch (child.failed) {
    case Phase::None:
      break;
    case Phase::Session:
      return {"session", error, "setsid"};
    case Phase::Affinity: {
      std::string list;
      for (int cpu : plan.cpus) {
        if (!list.empty()) list += ',';
        list += std::to_string(cpu);
      }
      return {"affinity", error, "cores " + list};
    }
    case Phase::Chdir:
      return {"chdir", error, plan.cwd};
    case Phase::Fds:
      return {"fds", error, "descriptor " + std::to_string(child.index)};
    case Phase::Exec:
      return {"exec", error, plan.argv[0]};
  }
  return {"clone", error, plan.argv[0]};
}

bool has_name(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> env;
  // An environment that was cleared may have no list at all.
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    env.emplace_back(*entry);
  return env;
}

std::optional<std::string> value_in(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string& entry : env) {
    if (has_name(entry, name)) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

void set_variable(std::vector<std::string>& env, std::string_view name, std::string_view value) {
  std::erase_if(env, [&](const std::string& entry) { return has_name(entry, name); });
  env.push_back(std::string(name).append("=").append(value));
}

std::vector<std::string> exec_candidates(std::string_view program,
                                         const std::vector<std::string>& env) {
  if (program.empty()) return {};
  if (program.find('/') != std::string_view::npos) return {std::string(program)};
  std::string_view path = "/bin:/usr/bin";  // what the C library takes when PATH is not set
  for (const std::string& entry : env) {
    if (entry.rfind("PATH=", 0) == 0) {
      path = std::string_view(entry).substr(5);
      break;
    }
  }
  std::vector<std::string> out;
  for (;;) {
    const std::size_t colon = path.find(':');
    const std::string_view folder = path.substr(0, colon);
    std::string candidate(folder);  // an empty entry is the current folder
    if (!candidate.empty()) candidate += '/';
    out.push_back(candidate.append(program));
    if (colon == std::string_view::npos) return out;
    path.remove_prefix(colon + 1);
  }
}

SpawnResult spawn(const SpawnPlan& plan) {
  ChildPlan child;
  const std::vector<const char*> argv = pointers(plan.argv);
  const std::vector<const char*> env = pointers(plan.env);
  const std::vector<std::string> candidate_paths = exec_candidates(plan.argv[0], plan.env);
  const std::vector<const char*> candidates = pointers(candidate_paths);
  std::vector<const char*> shell_argv = {"/bin/sh", nullptr};
  shell_argv.insert(shell_argv.end(), argv.begin() + 1, argv.end());
  std::vector<ChildLimit> limits;
  for (const SpawnLimit& limit : plan.limits) {
    limits.push_back({.resource = limit.resource,
                      .soft = limit.soft,
                      .has_hard = limit.hard.has_value(),
                      .hard = limit.hard.value_or(0)});
  }
  const std::string oom_text = plan.oom_score_adj ? std::to_string(*plan.oom_score_adj) : "";

  UniqueFd dev_null;
  if (plan.stdin_fd < 0 || plan.stdout_fd < 0 || plan.stderr_fd < 0) {
    dev_null.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!dev_null) return SpawnFailure{"dev-null", errno, "/dev/null"};
  }
  const auto or_null = [&](int fd) { return fd >= 0 ? fd : dev_null.get(); };
  std::vector<PlacedFd> fds = {
      {or_null(plan.stdin_fd), 0}, {or_null(plan.stdout_fd), 1}, {or_null(plan.stderr_fd), 2}};
  fds.insert(fds.end(), plan.fds.begin(), plan.fds.end());
  for (const PlacedFd& placed : fds)
    child.first_free_fd = std::max(child.first_free_fd, placed.as + 1);

  std::unique_ptr<cpu_set_t, CpuSetFree> cpus;
  const std::vector<int>& cores =
      plan.cpus.empty() && plan.attributes ? plan.attributes->cpus : plan.cpus;
  child.must_pin = !plan.cpus.empty();
  if (!cores.empty()) {
    const int highest = *std::max_element(cores.begin(), cores.end());
    cpus.reset(CPU_ALLOC(static_cast<std::size_t>(highest) + 1));
    child.cpus_bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(highest) + 1);
    CPU_ZERO_S(child.cpus_bytes, cpus.get());
    for (int cpu : cores) CPU_SET_S(static_cast<std::size_t>(cpu), child.cpus_bytes, cpus.get());
    child.cpus = cpus.get();
  }

  child.argv = argv.data();
  child.env = env.data();
  child.candidates = candidates.data();
  child.shell_argv = shell_argv.data();
  child.cwd = plan.cwd.empty() ? nullptr : plan.cwd.c_str();
  child.fds = fds.data();
  child.fd_count = fds.size();
  child.limits = limits.data();
  child.limit_count = limits.size();
  if (plan.attributes) {
    child.attributes = &*plan.attributes;
    child.ignored = plan.attributes->ignored;
    child.blocked = plan.attributes->blocked;
    child.groups = plan.attributes->groups.data();
    child.group_count = plan.attributes->groups.size();
    child.set_groups = !has_groups(plan.attributes->groups, plan.attributes->group);
  }
  child.oom_text = plan.oom_score_adj ? oom_text.c_str() : nullptr;
  child.oom_bytes = oom_text.size();
  child.set_umask = plan.umask.has_value();
  child.umask = plan.umask.value_or(0);
  child.new_session = plan.new_session;
  child.parent_death_signal = plan.parent_death_signal;
  child.parent_pid = ::getpid();

  std::vector<int> join_fds = plan.join_fds;
  UniqueFd group;  // where no process can be born in it
  const bool joins_group = plan.group_fd >= 0 && !kernel_has(KernelCall::CloneIntoGroup);
  if (joins_group) {
    group.reset(::openat(plan.group_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (group) join_fds.push_back(group.get());
  }
  child.join_fds = join_fds.data();
  child.join_count = join_fds.size();
  child.has_close_range = kernel_has(KernelCall::CloseRange);
  Handle handle(plan.is_watched);
  if (!handle.prepare()) return SpawnFailure{"clone", errno, plan.argv[0]};

  const CoreFilter filter(plan.attributes);
  const std::unique_ptr<char[]> stack(new char[kChildStackBytes]);
  const auto top = (reinterpret_cast<std::uintptr_t>(stack.get()) + kChildStackBytes) & ~15UL;

  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int flags =
      CLONE_VM | CLONE_VFORK | handle.clone_flag() | SIGCHLD | (plan.sibling ? CLONE_PARENT : 0);
  pid_t pid = -1;
  bool is_grouped = !joins_group || group;
  if (plan.group_fd >= 0 && !joins_group) {
    call::CloneArguments args;
    args.flags = static_cast<std::uint64_t>(flags & ~SIGCHLD) | call::kCloneIntoCgroup;
    args.pidfd = reinterpret_cast<std::uintptr_t>(handle.pidfd());
    args.exit_signal = plan.sibling ? 0 : SIGCHLD;
    args.stack = reinterpret_cast<std::uintptr_t>(stack.get());
    args.stack_size = top - args.stack;
    args.cgroup = static_cast<std::uint64_t>(plan.group_fd);
    pid = static_cast<pid_t>(clone_into_group(args, child));
    is_grouped = pid >= 0;
  }
  // Without the group where that is not possible: one that is gone.
  if (pid < 0)
    pid = ::__clone(child_main, reinterpret_cast<void*>(top), flags, &child, handle.pidfd());
  const int clone_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  if (pid < 0) return SpawnFailure{"clone", clone_error, plan.argv[0]};
  UniqueFd pidfd = handle.take(pid);
  if (child.failed == Phase::None)
    return Spawned{
        .pid = pid, .pidfd = std::move(pidfd), .is_grouped = is_grouped && child.joined_all};
  if (!plan.sibling) (void)wait_for(pid);
  return describe(plan, child);
}

}  // namespace pergpu::os
