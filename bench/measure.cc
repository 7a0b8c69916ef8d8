// measure --out FILE [--after COMMAND] -- PROGRAM ARG…: wall time of PROGRAM, and CPU time of all
// its descendants, daemons included, as one line of JSON in FILE.
//
// It is a sub-reaper: whatever detaches itself (a coordinator, keepers) becomes its child in the
// end and is waited for, so that its CPU time is counted.  Wall time ends with PROGRAM itself.
// COMMAND (run by /bin/sh when PROGRAM has ended) tells daemons to leave; its own CPU time is left
// out. What has not left 20 s later is killed and counted in "killed".
//
// Its own process is tiny: getrusage's maximum of the children would otherwise start at the size
// of the parent that forked them.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kPatienceSeconds = 20;

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

pid_t start(char* const* argv) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execvp(argv[0], argv);
    std::perror(argv[0]);
    ::_exit(127);
  }
  return pid;
}

/// Kills the children that are left (grandchildren become children as their parents end).
int kill_children() {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", ::getpid());
  std::FILE* file = std::fopen(path, "re");
  if (!file) return 0;
  int pid = 0;
  int count = 0;
  while (std::fscanf(file, "%d", &pid) == 1) {
    ::kill(pid, SIGKILL);
    ++count;
  }
  std::fclose(file);
  return count;
}

volatile sig_atomic_t impatient = 0;

}  // namespace

int main(int argc, char** argv) {
  const char* out = nullptr;
  char* after = nullptr;
  int first = 1;
  for (; first + 1 < argc && std::strcmp(argv[first], "--") != 0; first += 2) {
    if (std::strcmp(argv[first], "--out") == 0) out = argv[first + 1];
    if (std::strcmp(argv[first], "--after") == 0) after = argv[first + 1];
  }
  ++first;
  if (!out || first >= argc) {
    std::fputs("usage: measure --out FILE [--after COMMAND] -- PROGRAM ARG...\n", stderr);
    return 2;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  const double began = now();
  const pid_t program = start(argv + first);
  int program_status = 0;
  int reaped = 0;
  for (pid_t pid = 0; pid != program; ++reaped) {
    int status = 0;
    pid = ::waitpid(-1, &status, 0);
    if (pid < 0) return 1;
    if (pid == program) program_status = status;
  }
  const double wall = now() - began;

  double after_cpu = 0;
  if (after) {
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char* const command[] = {shell, option, after, nullptr};
    const pid_t pid = start(command);
    rusage used{};
    if (::wait4(pid, nullptr, 0, &used) == pid) {
      after_cpu = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    }
  }

  struct sigaction action {};
  action.sa_handler = [](int) { impatient = 1; };
  ::sigaction(SIGALRM, &action, nullptr);  // without SA_RESTART: it ends waitpid
  ::alarm(kPatienceSeconds);
  int killed = 0;
  while (true) {
    const pid_t pid = ::waitpid(-1, nullptr, 0);
    if (pid > 0) ++reaped;
    if (pid < 0 && !impatient) break;  // ECHILD: nobody is left
    if (!impatient) continue;
    const int now_killed = kill_children();
    killed += now_killed;
    if (now_killed == 0) break;
  }

  rusage all{};
  ::getrusage(RUSAGE_CHILDREN, &all);
  const double cpu = seconds_of(all.ru_utime) + seconds_of(all.ru_stime) - after_cpu;
  std::FILE* file = std::fopen(out, "we");
  if (!file) return 1;
  const int exit_code =
      WIFEXITED(program_status) ? WEXITSTATUS(program_status) : 128 + WTERMSIG(program_status);
  std::fprintf(file,
               "{\"wall_s\":%.6f,\"cpu_s\":%.6f,\"max_rss_kib\":%ld,\"reaped\":%d,\"killed\":%d,"
               "\"exit\":%d}\n",
               wall, cpu, all.ru_maxrss, reaped, killed, exit_code);
  std::fclose(file);
  return 0;
}
