// A process that is run up to a chosen instruction of its way, by ptrace.
//
// The way is recorded once, by single steps (each costs tens of microseconds on a virtual machine).
// To be at its k-th instruction another process that goes the same way runs freely into a
// breakpoint there, as often as that instruction came before.  Both are forked from this one, so
// code lies at the same addresses.
#pragma once

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "os/process/proc.h"
#include "share/rig.h"

#ifndef __x86_64__
#error "breakpoints and registers of another processor are not known here"
#endif

namespace pergpu::share {

/// A forked process that stops with SIGSTOP where the way begins, and where it ends.  Its calls are
/// made by the thread that forked it.
class Traced {
 public:
  explicit Traced(Forked& process) : pid_(process.pid()) { await_stop(); }
  /// First of all in the process.
  static void begin() {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
  }
  static void end() { ::raise(SIGSTOP); }

  std::uint64_t address() const { return registers().rip; }
  /// About to wait for a futex.
  bool is_about_to_sleep() const {
    user_regs_struct at = registers();
    constexpr std::uint64_t kFutex = 202;
    constexpr std::uint64_t kFutexWaitv = 449;
    constexpr std::uint64_t kWaitBitset = 9;
    // On no words at all: only to find out whether the call exists.
    bool waits = (at.rax == kFutexWaitv && at.rdi != 0) ||
                 (at.rax == kFutex && (at.rsi & 0x7F) == kWaitBitset);
    constexpr std::uint64_t kSyscall = 0x050F;
    return waits && (read(at.rip) & 0xFFFF) == kSyscall;
  }

  /// One instruction.  False: that was the end of the way.
  bool step() {
    start_step();
    return await_stop() == SIGTRAP;
  }
  /// To the end of its way, and on, without being traced.
  void run_on() {
    ::ptrace(PTRACE_CONT, pid_, nullptr, nullptr);
    if (await_stop() != SIGSTOP) std::abort();
    ::ptrace(PTRACE_DETACH, pid_, nullptr, nullptr);
  }
  /// Lets it go to sleep in the instruction at which it is.
  void fall_asleep() {
    start_step();
    while (true) {
      std::optional<os::ProcStat> stat = os::read_stat(pid_);
      if (stat && stat->state == 'S') return;
      ::usleep(20);
    }
  }
  /// After fall_asleep() and what wakes it.
  void wake_up() { await_stop(); }

  /// Runs until the instruction at `address` is about to be executed for the `times`-th time, now
  /// included.  False: the way is over before.
  bool run_to(std::uint64_t address, std::uint32_t times) {
    while (times > 0) {
      if (this->address() == address) {
        if (--times == 0) return true;
        if (!step()) return false;
        continue;
      }
      std::uint64_t word = read(address);
      constexpr std::uint64_t kBreak = 0xCC;
      write(address, (word & ~std::uint64_t{0xFF}) | kBreak);
      ::ptrace(PTRACE_CONT, pid_, nullptr, nullptr);
      int signal = await_stop();
      write(address, word);
      if (signal != SIGTRAP) return false;
      user_regs_struct at = registers();
      --at.rip;  // behind the breakpoint
      ::ptrace(PTRACE_SETREGS, pid_, nullptr, &at);
    }
    return true;
  }

 private:
  user_regs_struct registers() const {
    user_regs_struct at = {};
    if (::ptrace(PTRACE_GETREGS, pid_, nullptr, &at) != 0) std::abort();
    return at;
  }
  std::uint64_t read(std::uint64_t address) const {
    errno = 0;
    long word = ::ptrace(PTRACE_PEEKTEXT, pid_, address, nullptr);
    if (errno != 0) std::abort();
    return static_cast<std::uint64_t>(word);
  }
  void write(std::uint64_t address, std::uint64_t word) const {
    if (::ptrace(PTRACE_POKETEXT, pid_, address, word) != 0) std::abort();
  }
  void start_step() const { ::ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr); }
  int await_stop() const {
    int status = 0;
    while (::waitpid(pid_, &status, __WALL) < 0 && errno == EINTR) {
    }
    if (!WIFSTOPPED(status)) std::abort();  // it ended, by itself or by its alarm
    return WSTOPSIG(status);
  }

  pid_t pid_ = -1;
};

/// One instruction of a way.
struct Point {
  std::uint64_t address = 0;
  std::uint32_t times = 1;      // that it was there since the way began, or since it was woken
  bool after_sleeping = false;  // the process has slept before
  bool asleep = false;          // in the kernel, at this instruction
  bool beside_change = false;   // right before or after an instruction that others see
};

/// The way of a process from begin() to end().  `wake`: called when it sleeps; `has_changed`:
/// whether memory that others see is another than when it was asked last.
template <typename Wake, typename HasChanged>
std::vector<Point> record(Traced& process, Wake wake, HasChanged has_changed) {
  std::vector<Point> points;
  std::map<std::uint64_t, std::uint32_t> times;
  bool slept = false;
  do {
    Point point = {.address = process.address(), .after_sleeping = slept};
    point.times = ++times[point.address];
    point.beside_change = has_changed();
    if (point.beside_change && !points.empty()) points.back().beside_change = true;
    points.push_back(point);
    if (slept || !process.is_about_to_sleep()) continue;
    point.asleep = true;
    points.push_back(point);
    process.fall_asleep();
    wake();
    process.wake_up();
    slept = true;
    times.clear();
    points.push_back({.address = process.address(), .after_sleeping = true});
    (void)has_changed();  // by whoever woke it
    times[process.address()] = 1;
  } while (process.step());
  return points;
}

/// To where the process has slept and was woken, as it was recorded.  False: it went another way.
template <typename Wake>
bool pass_sleep(Traced& process, const std::vector<Point>& points, Wake wake) {
  for (const Point& point : points) {
    if (!point.asleep) continue;
    if (!process.run_to(point.address, point.times) || !process.is_about_to_sleep()) return false;
    process.fall_asleep();
    wake();
    process.wake_up();
    return true;
  }
  return false;
}

/// Brings a process to a point that was recorded.  False: it went another way.
template <typename Wake>
bool go_to(Traced& process, const std::vector<Point>& points, const Point& point, Wake wake) {
  if (point.after_sleeping && !pass_sleep(process, points, wake)) return false;
  if (!process.run_to(point.address, point.times)) return false;
  if (point.asleep) {
    if (!process.is_about_to_sleep()) return false;
    process.fall_asleep();
  }
  return true;
}

/// As many steps on, whatever way it goes (reading the clock has no fixed number of them).  False:
/// it went another way before it slept.
template <typename Wake>
bool step_to(Traced& process, const std::vector<Point>& points, std::size_t at, Wake wake) {
  std::size_t steps = 0;
  for (std::size_t i = 0; i < at; ++i) {
    if (points[i + 1].after_sleeping == points[at].after_sleeping) ++steps;
  }
  if (points[at].after_sleeping) {
    if (!pass_sleep(process, points, wake)) return false;
    --steps;  // the first one is where it is now
  }
  while (steps > 0 && process.step()) --steps;
  return true;
}

}  // namespace pergpu::share
