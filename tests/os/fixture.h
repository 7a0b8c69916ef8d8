// What the tests of os/ share: a temporary folder, a loop with a deadline, and the descriptors of
// this process.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "os/clock.h"
#include "os/fs/file.h"
#include "os/loop.h"

namespace pergpu::os {

/// A folder of its own, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = ::testing::TempDir() + "/pergpu-os-XXXXXX";
    path_ = std::filesystem::canonical(::mkdtemp(pattern.data())).string();
  }
  ~TempDir() { EXPECT_TRUE(remove_tree(path_)); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A loop that fails the test instead of waiting for ever.
class TestLoop {
 public:
  TestLoop() : loop_(std::move(*Loop::create())) {}
  Loop& operator*() { return *loop_; }
  Loop* operator->() { return loop_.get(); }

  /// Runs until something calls stop().
  void run() {
    bool late = false;
    const Loop::TimerId deadline = loop_->at(boot_now_ns() + 30'000'000'000, [&] {
      late = true;
      loop_->stop();
    });
    const Result<void> ran = loop_->run();
    EXPECT_TRUE(ran);
    EXPECT_FALSE(late) << "waited 30 s for an event that did not come";
    loop_->cancel(deadline);
  }

  /// Lets everything that is ready now run: two timers, so that a whole batch lies between them.
  void settle() {
    loop_->at(0, [this] { loop_->at(0, [this] { loop_->stop(); }); });
    run();
  }

 private:
  std::unique_ptr<Loop> loop_;
};

inline std::pair<UniqueFd, UniqueFd> socket_pair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

inline std::size_t open_fds() { return list_dir("/proc/self/fd")->size(); }

}  // namespace pergpu::os
