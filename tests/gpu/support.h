// What tests of gpu/ share: a folder of their own, a loop with a deadline, the fake NVML.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "os/clock.h"
#include "os/fs/file.h"
#include "os/loop.h"

namespace pergpu::gpu {

inline const std::string kFakeNvml = PERGPU_BINARY_DIR "/fake_nvml/libnvidia-ml.so.1";
inline const std::string kFakeNvmlOld = PERGPU_BINARY_DIR "/fake_nvml/old/libnvidia-ml.so.1";
inline const std::string kProbeProgram = PERGPU_BINARY_DIR "/fake_nvml/gpu_probe";

/// A new folder, gone with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = testing::TempDir() + "gpu.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { (void)os::remove_tree(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline void write(const std::string& path, std::string_view text) {
  const Result<void> written = os::write_file_atomic(path, text, 0644, false);
  ASSERT_TRUE(written) << written.error().message;
}

/// Sets an environment variable for one scope; nullptr: removes it.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~ScopedEnv() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// The fake NVML with a scenario that the test may replace at any time.
class FakeDriver {
 public:
  explicit FakeDriver(std::string_view scenario) { set(scenario); }
  void set(std::string_view scenario) { write(folder_ / "world.json", scenario); }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
  ScopedEnv library_{"PERGPU_NVML", kFakeNvml.c_str()};
  ScopedEnv world_{"FAKE_NVML_SCENARIO", (folder_ / "world.json").c_str()};
};

/// A loop that runs until something has happened; a test that waits in vain fails after 30 s.
class TestLoop {
 public:
  TestLoop() {
    Result<std::unique_ptr<os::Loop>> made = os::Loop::create();
    EXPECT_TRUE(made);
    loop_ = std::move(*made);
    loop_->on_turn([this] {
      if (until_ && until_()) loop_->stop();
    });
  }
  void run_until(std::function<bool()> happened) {
    if (happened()) return;
    until_ = std::move(happened);
    bool late = false;
    const os::Loop::TimerId timer = after(std::chrono::seconds(30), [&] {
      late = true;
      loop_->stop();
    });
    ASSERT_TRUE(loop_->run());
    loop_->cancel(timer);
    until_ = nullptr;
    ASSERT_FALSE(late) << "waited in vain";
  }
  os::Loop::TimerId after(std::chrono::nanoseconds delay, std::function<void()> callback) {
    return loop_->at(clock_.now().boot_ns + delay.count(), std::move(callback));
  }
  os::Loop& loop() { return *loop_; }
  os::RealClock& clock() { return clock_; }

 private:
  os::RealClock clock_;
  std::unique_ptr<os::Loop> loop_;
  std::function<bool()> until_;
};

}  // namespace pergpu::gpu
