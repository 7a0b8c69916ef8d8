// kill_at: runs a coordinator and kills it, or a keeper of it, right before its n-th system call.
//
//   kill_at coordinator|keeper N COMMAND…
//
// Threads and processes that descend from COMMAND are followed; calls are counted over all threads
// and all processes of the wanted kind together.  Whoever executes another program than pergpu's
// own is let go at once.  One line on stdout: "killed PID before call N (name's number)", or, when
// COMMAND has ended before, "ended after T calls".  Everything else goes on untraced.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

namespace {

enum class Kind { Other, Coordinator, Keeper };

struct Tracee {
  pid_t process = 0;
  Kind kind = Kind::Other;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// By the program and its first argument.
Kind kind_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  char program[4096] = {};
  if (::readlink((folder + "/exe").c_str(), program, sizeof program - 1) < 0) return Kind::Other;
  const std::string_view name =
      std::string_view(program).substr(std::string_view(program).rfind('/') + 1);
  if (name == "pergpu-keeper") return Kind::Keeper;
  const std::string arguments = read_file(folder + "/cmdline");
  const std::size_t second = arguments.find('\0');
  const bool coordinates =
      second != std::string::npos &&
      std::string_view(arguments).substr(second + 1).starts_with("coordinator");
  return name == "pergpu" && coordinates ? Kind::Coordinator : Kind::Other;
}

pid_t process_of(pid_t thread) {
  const std::string status = read_file("/proc/" + std::to_string(thread) + "/status");
  const std::size_t at = status.find("\nTgid:");
  return at == std::string::npos ? thread : std::atoi(status.c_str() + at + 6);
}

/// The number of the system call that the thread is about to make; -1: it comes out of one.  Asked
/// of the kernel: stops do not simply alternate, an executed program begins with the exit of its
/// execve.
long call_about_to_be_made(pid_t thread) {
  __ptrace_syscall_info info = {};
  if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) < 0) {
    if (errno == ESRCH) return -1;  // killed meanwhile
    std::perror("kill_at: ptrace");
    std::exit(2);
  }
  return info.op == PTRACE_SYSCALL_INFO_ENTRY ? static_cast<long>(info.entry.nr) : -1;
}

class Tracer {
 public:
  Tracer(Kind wanted, long at) : wanted_(wanted), at_(at) {}

  int run(char** command) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::raise(SIGSTOP);
      ::execv(command[0], command);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, WUNTRACED);
    constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                              PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
    if (::ptrace(PTRACE_SEIZE, child, 0, kOptions) != 0) {
      std::perror("kill_at: ptrace");
      return 2;
    }
    tracees_[child] = {.process = child};
    ::kill(child, SIGCONT);
    for (;;) {
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) return report_end();
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        tracees_.erase(thread);
        if (thread == victim_) return 0;
        if (thread == child && victim_ == 0 && wanted_ == Kind::Coordinator) return report_end();
        continue;
      }
      if (WIFSTOPPED(status)) on_stop(thread, status);
    }
  }

 private:
  int report_end() const {
    std::printf("ended after %ld calls\n", calls_);
    return 0;
  }

  void on_stop(pid_t thread, int status) {
    const auto [entry, is_new] = tracees_.try_emplace(thread);
    Tracee& tracee = entry->second;
    if (is_new) tracee.process = process_of(thread);
    const int event = status >> 16;
    int signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXEC) {
      tracee = {.process = thread, .kind = kind_of(thread)};
      if (tracee.kind == Kind::Other) {
        tracees_.erase(thread);
        ::ptrace(PTRACE_DETACH, thread, 0, 0);
        return;
      }
      signal = 0;
    } else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK ||
               event == PTRACE_EVENT_VFORK) {
      unsigned long born = 0;
      ::ptrace(PTRACE_GETEVENTMSG, thread, 0, &born);
      const auto id = static_cast<pid_t>(born);
      // A thread is what its process is; a forked child is nothing before it executes a program.
      const bool is_thread = process_of(id) == tracee.process;
      Tracee& child = tracees_[id];
      child.process = is_thread ? tracee.process : id;
      child.kind = is_thread ? tracee.kind : Kind::Other;
      signal = 0;
    } else if (event == PTRACE_EVENT_STOP) {
      const bool is_group_stop =
          signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
      if (is_group_stop && !is_new) {
        ::ptrace(PTRACE_LISTEN, thread, 0, 0);
        return;
      }
      signal = 0;
    } else if (signal == (SIGTRAP | 0x80)) {
      signal = 0;
      const bool counts = tracee.kind == wanted_ && victim_ == 0;
      const long number = counts ? call_about_to_be_made(thread) : -1;
      if (number >= 0 && ++calls_ == at_) {
        std::printf("killed %d before call %ld (%ld)\n", tracee.process, calls_, number);
        std::fflush(stdout);
        victim_ = tracee.process;
        ::kill(victim_, SIGKILL);
        return;
      }
    }
    const bool counts = tracee.kind == wanted_ && victim_ == 0;
    ::ptrace(counts ? PTRACE_SYSCALL : PTRACE_CONT, thread, 0, signal);
  }

  Kind wanted_;
  long at_;
  long calls_ = 0;
  pid_t victim_ = 0;
  std::map<pid_t, Tracee> tracees_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view kind = argc > 1 ? argv[1] : "";
  if (argc < 4 || (kind != "coordinator" && kind != "keeper")) {
    std::fputs("usage: kill_at coordinator|keeper N COMMAND…\n", stderr);
    return 2;
  }
  return Tracer(kind == "keeper" ? Kind::Keeper : Kind::Coordinator, std::atol(argv[2]))
      .run(argv + 3);
}
