// Rules that the child obeys: no allocation, no lock, no return from child_main(), and bare system
// calls instead of library functions: a sanitizer's or the library's own bookkeeping would be done
// in the parent's memory.  All signals are blocked across the clone, because a handler of the
// parent that ran in the child would run in the parent's memory.
#include "os/spawn.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "os/child.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4U
#endif

// The child runs on memory that the sanitizers believe to be the parent's.
#define PERGPU_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

// The C library's clone() under the name that ThreadSanitizer does not replace: its replacement
// takes the call for a fork and notes in the shared memory that threads must not be started any
// more.
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);

namespace pergpu::os {
namespace {

enum class Phase : int { None, Session, Affinity, Chdir, Fds, Limit, Exec };

constexpr std::size_t kChildStackBytes = 32 * 1024;
constexpr int kLastSignal = 64;
constexpr std::size_t kKernelSignalSetBytes = 8;
static_assert(sizeof(rlimit) == 16, "prlimit64 takes 64-bit limits");

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
  const rlimit* limits = nullptr;
  const int* limit_resources = nullptr;
  std::size_t limit_count = 0;
  const cpu_set_t* cpus = nullptr;
  std::size_t cpus_bytes = 0;
  const char* oom_text = nullptr;
  std::size_t oom_bytes = 0;
  mode_t umask = 0;
  bool set_umask = false;
  bool new_session = false;
  int parent_death_signal = 0;
  pid_t parent_pid = 0;
  const int* join_fds = nullptr;
  std::size_t join_count = 0;

  bool joined_all = true;
  Phase failed = Phase::None;
  int error = 0;
  std::size_t index = 0;  // of the limit or descriptor concerned
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

PERGPU_IN_CHILD void default_dispositions() {
  // The kernel's struct sigaction in any of its layouts: default action, no flags, empty mask.
  const unsigned long standard[8] = {};
  for (int signal = 1; signal <= kLastSignal; ++signal)
    ::syscall(SYS_rt_sigaction, signal, standard, nullptr, kKernelSignalSetBytes);
}

/// Puts each descriptor in its place.  All are first copied above every target, so that no target
/// overwrites a source that is still needed.
PERGPU_IN_CHILD void place_fds(ChildPlan& plan) {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) < 0) fail(plan, Phase::Fds);
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
  default_dispositions();
  if (plan.new_session && ::syscall(SYS_setsid) < 0) fail(plan, Phase::Session);
  if (plan.parent_death_signal != 0) {
    ::syscall(SYS_prctl, PR_SET_PDEATHSIG, plan.parent_death_signal, 0, 0, 0);
    if (::syscall(SYS_getppid) != plan.parent_pid) leave();  // it died before the signal was armed
  }
  if (plan.set_umask) ::syscall(SYS_umask, plan.umask);
  if (plan.cpus != nullptr && ::syscall(SYS_sched_setaffinity, 0, plan.cpus_bytes, plan.cpus) < 0)
    fail(plan, Phase::Affinity);
  if (plan.oom_text != nullptr) set_oom_score(plan);
  if (plan.cwd != nullptr && ::syscall(SYS_chdir, plan.cwd) < 0) fail(plan, Phase::Chdir);
  place_fds(plan);
  for (std::size_t i = 0; i < plan.limit_count; ++i) {  // last: a low RLIMIT_NOFILE hinders dup3
    if (::syscall(SYS_prlimit64, 0, plan.limit_resources[i], &plan.limits[i], nullptr) < 0)
      fail(plan, Phase::Limit, i);
  }
  const unsigned long none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kKernelSignalSetBytes);
  exec_first(plan);
}

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

/// clone3(), which the C library does not offer: the child calls child_main(plan) on its own stack
/// and never returns.  -1 and errno as usual; ENOSYS where this processor's calls are not known
/// here.
long clone_into_group(clone_args& args, ChildPlan& plan) {
#if defined(__x86_64__)
  long result = SYS_clone3;
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
  register long number asm("x8") = SYS_clone3;
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

/// Null-terminated array of pointers into `texts`.
std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(text.c_str());
  out.push_back(nullptr);
  return out;
}

/// Without those that the child inherits as they should be.
struct PreparedLimits {
  std::vector<rlimit> values = {};
  std::vector<int> resources = {};
  std::vector<SpawnLimit> asked = {};
};

PreparedLimits prepare_limits(const std::vector<SpawnLimit>& limits) {
  PreparedLimits out;
  for (const SpawnLimit& limit : limits) {
    rlimit value = {};
    const rlim_t soft = limit.soft == ~std::uint64_t{0} ? RLIM_INFINITY : limit.soft;
    if (::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &value) < 0)
      value = {.rlim_cur = 0, .rlim_max = 0};  // an unknown resource: setrlimit will say so
    else if (value.rlim_cur == soft)
      continue;
    value.rlim_cur = soft;
    value.rlim_max = std::max(value.rlim_max, value.rlim_cur);
    out.asked.push_back(limit);
    out.values.push_back(value);
    out.resources.push_back(limit.resource);
  }
  return out;
}

struct CpuSetFree {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

std::string limit_name(int resource) {
  switch (resource) {
    case RLIMIT_AS:
      return "RLIMIT_AS";
    case RLIMIT_CORE:
      return "RLIMIT_CORE";
    case RLIMIT_CPU:
      return "RLIMIT_CPU";
    case RLIMIT_DATA:
      return "RLIMIT_DATA";
    case RLIMIT_FSIZE:
      return "RLIMIT_FSIZE";
    case RLIMIT_MEMLOCK:
      return "RLIMIT_MEMLOCK";
    case RLIMIT_NOFILE:
      return "RLIMIT_NOFILE";
    case RLIMIT_NPROC:
      return "RLIMIT_NPROC";
    case RLIMIT_RSS:
      return "RLIMIT_RSS";
    case RLIMIT_STACK:
      return "RLIMIT_STACK";
    default:
      return "resource " + std::to_string(resource);
  }
}

SpawnFailure describe(const SpawnPlan& plan, const ChildPlan& child,
                      const std::vector<SpawnLimit>& limits) {
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
    case Phase::Limit: {
      const SpawnLimit& limit = limits[child.index];
      const std::string value =
          limit.soft == ~std::uint64_t{0} ? "unlimited" : std::to_string(limit.soft);
      return {"limit", error, limit_name(limit.resource) + "=" + value};
    }
    case Phase::Exec:
      return {"exec", error, plan.argv[0]};
  }
  return {"clone", error, plan.argv[0]};
}

}  // namespace

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
  const PreparedLimits limits = prepare_limits(plan.limits);
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
  if (!plan.cpus.empty()) {
    const int highest = *std::max_element(plan.cpus.begin(), plan.cpus.end());
    cpus.reset(CPU_ALLOC(static_cast<std::size_t>(highest) + 1));
    child.cpus_bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(highest) + 1);
    CPU_ZERO_S(child.cpus_bytes, cpus.get());
    for (int cpu : plan.cpus)
      CPU_SET_S(static_cast<std::size_t>(cpu), child.cpus_bytes, cpus.get());
    child.cpus = cpus.get();
  }

  child.argv = argv.data();
  child.env = env.data();
  child.candidates = candidates.data();
  child.shell_argv = shell_argv.data();
  child.cwd = plan.cwd.empty() ? nullptr : plan.cwd.c_str();
  child.fds = fds.data();
  child.fd_count = fds.size();
  child.limits = limits.values.data();
  child.limit_resources = limits.resources.data();
  child.limit_count = limits.values.size();
  child.oom_text = plan.oom_score_adj ? oom_text.c_str() : nullptr;
  child.oom_bytes = oom_text.size();
  child.set_umask = plan.umask.has_value();
  child.umask = plan.umask.value_or(0);
  child.new_session = plan.new_session;
  child.parent_death_signal = plan.parent_death_signal;
  child.parent_pid = ::getpid();

  child.join_fds = plan.join_fds.data();
  child.join_count = plan.join_fds.size();

  const std::unique_ptr<char[]> stack(new char[kChildStackBytes]);
  const auto top = (reinterpret_cast<std::uintptr_t>(stack.get()) + kChildStackBytes) & ~15UL;

  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const int flags =
      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD | (plan.sibling ? CLONE_PARENT : 0);
  pid_t pid = -1;
  bool is_grouped = true;
  if (plan.group_fd >= 0) {
    clone_args args = {};
    args.flags = static_cast<std::uint64_t>(flags & ~SIGCHLD) | CLONE_INTO_CGROUP;
    args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
    args.exit_signal = plan.sibling ? 0 : SIGCHLD;
    args.stack = reinterpret_cast<std::uintptr_t>(stack.get());
    args.stack_size = top - args.stack;
    args.cgroup = static_cast<std::uint64_t>(plan.group_fd);
    pid = static_cast<pid_t>(clone_into_group(args, child));
    is_grouped = pid >= 0;
  }
  // Without the group where that is not possible: an old kernel, a filter, a group that is gone.
  if (pid < 0) pid = ::__clone(child_main, reinterpret_cast<void*>(top), flags, &child, &pidfd);
  const int clone_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  if (pid < 0) return SpawnFailure{"clone", clone_error, plan.argv[0]};
  UniqueFd handle(pidfd);
  if (child.failed == Phase::None)
    return Spawned{
        .pid = pid, .pidfd = std::move(handle), .is_grouped = is_grouped && child.joined_all};
  if (!plan.sibling) (void)wait_for(pid);
  return describe(plan, child, limits.asked);
}

}  // namespace pergpu::os
