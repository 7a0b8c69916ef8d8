// Runs the real pergpu and looks at what it writes; every wait has a deadline and waits for an
// event.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "os/clock.h"
#include "os/fd.h"
#include "os/process/child.h"
#include "os/process/spawn.h"

namespace pergpu::cli {

inline constexpr std::int64_t kDeadlineNs = 60'000'000'000;  // generous: machines may be busy

inline std::string binary() { return std::string(PERGPU_BINARY_DIR) + "/pergpu"; }

/// A private folder with a home in it; short, because socket paths are.
class Scratch {
 public:
  Scratch() {
    std::string pattern = testing::TempDir() + "/pgXXXXXX";
    path_ = ::mkdtemp(pattern.data());
    ::mkdir(home().c_str(), 0700);
    ::mkdir(run_dir().c_str(), 0700);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string home() const { return path_ + "/h"; }
  std::string run_dir() const { return home() + "/run"; }
  std::string socket() const { return run_dir() + "/coordinator.sock"; }

 private:
  std::string path_;
};

class Program {
 public:
  Program(const Scratch& scratch, std::vector<std::string> arguments, int terminal = -1,
          std::vector<std::string> more_env = {}) {
    os::SpawnPlan plan;
    plan.argv = {binary()};
    plan.argv.insert(plan.argv.end(), arguments.begin(), arguments.end());
    plan.env = {"PATH=/usr/bin:/bin", "HOME=" + scratch.path(), "LANG=C.UTF-8",
                "PERGPU_HOME=" + scratch.home()};
    plan.env.insert(plan.env.end(), more_env.begin(), more_env.end());
    plan.cwd = scratch.path();
    std::array<int, 2> out_pipe{};
    std::array<int, 2> err_pipe{};
    EXPECT_EQ(::pipe2(out_pipe.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(err_pipe.data(), O_CLOEXEC), 0);
    out_.reset(out_pipe[0]);
    err_.reset(err_pipe[0]);
    const os::UniqueFd out_end(out_pipe[1]);
    const os::UniqueFd err_end(err_pipe[1]);
    plan.stdin_fd = terminal;
    plan.stdout_fd = out_end.get();
    plan.stderr_fd = terminal >= 0 ? terminal : err_end.get();
    os::SpawnResult result = os::spawn(plan);
    auto* spawned = std::get_if<os::Spawned>(&result);
    EXPECT_NE(spawned, nullptr) << "start " << binary();
    if (spawned) child_ = std::move(*spawned);
  }
  ~Program() {
    if (!code_ && child_.pid > 0) {
      signal(SIGKILL);
      wait();
    }
  }

  void signal(int number) {
    const Result<void> sent = os::send_signal(child_.pidfd, number);
    EXPECT_TRUE(sent) << sent.error().message;
  }

  /// The exit code (128 + n for a signal), after everything written was read.
  int wait() {
    if (code_) return *code_;
    pump([this] { return os::has_ended(child_.pidfd) && !open_; });
    if (!os::has_ended(child_.pidfd)) {
      ADD_FAILURE() << "does not end; it wrote:\n" << out << err;
      signal(SIGKILL);
    }
    const Result<os::Reaped> reaped = os::wait_for(child_.pid);
    EXPECT_TRUE(reaped);
    if (const auto* exited = std::get_if<os::Exited>(&reaped->status)) {
      code_ = exited->code;
    } else {
      code_ = 128 + std::get<os::Signaled>(reaped->status).signal;
    }
    return *code_;
  }

  /// Reads until stdout or stderr holds `text`.
  testing::AssertionResult says(const std::string& text) {
    const auto found = [&] {
      return out.find(text) != std::string::npos || err.find(text) != std::string::npos;
    };
    pump(found);
    if (found()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "never said \"" << text << "\"; it said:\n" << out << err;
  }

  std::string out;
  std::string err;

 private:
  template <typename Condition>
  void pump(Condition done) {
    os::RealClock clock;
    const std::int64_t end_ns = clock.now().boot_ns + kDeadlineNs;
    while (!done() && clock.now().boot_ns < end_ns) {
      std::array<pollfd, 3> fds = {pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0},
                                   pollfd{child_.pidfd.get(), POLLIN, 0}};
      // The pidfd stays readable for ever: once it was seen, only the pipes are waited for.
      const nfds_t count = os::has_ended(child_.pidfd) ? 2 : 3;
      ::poll(fds.data(), count, 200);
      read_from(out_, out);
      read_from(err_, err);
      open_ = out_ || err_;
    }
  }
  static void read_from(os::UniqueFd& fd, std::string& to) {
    if (!fd) return;
    for (;;) {
      pollfd ready{fd.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) return;
      std::array<char, 4096> block;
      const ssize_t n = ::read(fd.get(), block.data(), block.size());
      if (n <= 0) return fd.reset();
      to.append(block.data(), static_cast<std::size_t>(n));
    }
  }

  os::Spawned child_;
  os::UniqueFd out_;
  os::UniqueFd err_;
  bool open_ = true;
  std::optional<int> code_;
};

/// Skips visibly when the program is not built.
#define NEEDS_BINARY()                                                               \
  if (::access(::pergpu::cli::binary().c_str(), X_OK) != 0) {                        \
    GTEST_SKIP() << ::pergpu::cli::binary() << " is not built: nothing was checked"; \
  }

}  // namespace pergpu::cli
