// A keeper under test: the real program in a run folder of its own, and a coordinator's end of its
// socket that waits for messages with a deadline.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "keeper/connection.h"
#include "keeper/protocol.h"
#include "keeper/record.h"
#include "os/ipc/socket.h"
#include "os/process/cgroup.h"
#include "os/process/child.h"
#include "os/process/proc.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"

namespace pergpu::keeper::rig {

inline constexpr auto kDeadline = std::chrono::seconds(30);

/// Asks again until `condition` holds.  For facts that nobody announces (a process is gone).
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline std::string slurp(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline void spill(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = testing::TempDir() + "pergpu-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A coordinator's end of a connection.
class Client {
 public:
  explicit Client(os::UniqueFd fd) : connection_(std::move(fd)) {}

  template <typename Message>
  void send(const Message& message, const std::vector<int>& fds = {}) {
    connection_.send_with(message, fds);
    while (connection_.wants_write()) connection_.flush();
  }

  /// The next message, which must be a `Message`: any other fails the test.
  template <typename Message>
  Message expect() {
    for (;;) {
      const std::optional<Connection::Frame> frame = wait_frame();
      if (!frame) {
        ADD_FAILURE() << "no message of type " << static_cast<int>(Message::kType);
        return {};
      }
      if (frame->type == static_cast<std::uint8_t>(Message::kType))
        return decode<Message>(frame->payload).value_or(Message{});
      ADD_FAILURE() << "message of type " << int{frame->type} << " instead of "
                    << static_cast<int>(Message::kType);
      return {};
    }
  }
  /// Passes over other messages until a `Message` comes.
  template <typename Message>
  Message wait_for() {
    for (;;) {
      const std::optional<Connection::Frame> frame = wait_frame();
      if (!frame) {
        ADD_FAILURE() << "no message of type " << static_cast<int>(Message::kType);
        return {};
      }
      if (frame->type == static_cast<std::uint8_t>(Message::kType))
        return decode<Message>(frame->payload).value_or(Message{});
    }
  }
  std::vector<os::UniqueFd> take_fds(std::size_t count) { return connection_.take_fds(count); }
  /// True when the keeper closes the connection.
  bool wait_end() {
    while (open_) {
      if (!wait_frame()) return !open_;
    }
    return true;
  }

 private:
  std::optional<Connection::Frame> wait_frame() {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
      if (std::optional<Connection::Frame> frame = connection_.next()) return frame;
      if (!open_ || std::chrono::steady_clock::now() > end) return std::nullopt;
      pollfd p = {.fd = connection_.fd(), .events = POLLIN, .revents = 0};
      ::poll(&p, 1, 100);
      if (p.revents != 0) open_ = connection_.read();
    }
  }

  Connection connection_;
  bool open_ = true;
};

class KeeperTest : public testing::Test {
 protected:
  static constexpr std::int64_t kId = 7;

  void SetUp() override { make_run_folder(); }
  void make_run_folder() const {
    std::filesystem::create_directories(run());
    std::filesystem::permissions(run(), std::filesystem::perms::owner_all);
  }
  void TearDown() override {
    if (keeper_.pid == 0) return;
    // Stopping what is below it first keeps a failing test from leaving jobs behind.
    for (const os::TreeMember& member : os::descendants_of(keeper_.pid))
      ::kill(member.pid, SIGKILL);
    ::kill(keeper_.pid, SIGKILL);
    (void)os::wait_for(keeper_.pid);
    EXPECT_TRUE(eventually([&] { return os::remove_groups(group_folders()); }));
  }

  std::string run() const { return folder_.path() + run_name_; }
  std::string home() const { return folder_.path() + home_name_; }
  std::string out(const std::string& name = "out") const { return folder_.path() + "/" + name; }

  void start_keeper(const std::string& pergpu = "") {
    Result<os::UniqueFd> listener = os::listen_unix(socket_path(run(), kId));
    Result<os::UniqueFd> notify = os::bind_datagram(notify_path(run(), kId));
    ASSERT_TRUE(listener) << listener.error().message;
    ASSERT_TRUE(notify) << notify.error().message;
    os::SpawnPlan plan;
    plan.argv = {PERGPU_BINARY_DIR "/pergpu-keeper",
                 "--listen-fd",
                 "3",
                 "--notify-fd",
                 "4",
                 "--id",
                 std::to_string(kId),
                 "--run-dir",
                 run(),
                 "--home",
                 home(),
                 "--pergpu",
                 pergpu};
    const auto add_place = [&](const char* name, const os::CgroupPlace& place) {
      if (place) plan.argv.insert(plan.argv.end(), {name, os::to_text(place)});
    };
    add_place("--group-track", groups_.track);
    add_place("--group-memory", groups_.memory);
    add_place("--group-cpu", groups_.cpu);
    plan.env = {"PATH=/usr/bin:/bin", "PERGPU_HOME=relative"};  // of the coordinator
    plan.cwd = "/";
    plan.stderr_fd = 2;
    plan.fds = {{listener->get(), 3}, {notify->get(), 4}};
    plan.new_session = true;
    os::SpawnResult result = os::spawn(plan);
    ASSERT_TRUE(std::holds_alternative<os::Spawned>(result))
        << std::get<os::SpawnFailure>(result).phase;
    keeper_ = std::get<os::Spawned>(std::move(result));
  }

  Client connect() {
    Result<os::UniqueFd> fd = os::connect_unix(socket_path(run(), kId), /*nonblocking=*/true);
    EXPECT_TRUE(fd) << fd.error().message;
    return Client(fd ? *std::move(fd) : os::UniqueFd());
  }

  Start job(std::int64_t number, std::vector<std::string> argv) const {
    Start start;
    start.id = {.job = {number}, .number = 1};
    start.folder = {.out = out(), .attempt = 1, .umask = 022, .files = {}};
    start.argv = std::move(argv);
    start.env = {"PATH=/usr/bin:/bin"};
    start.cwd = folder_.path();
    start.log_path = out() + "/log.txt";
    start.record_path = out() + "/attempt.json";
    start.record_at_start = R"({"schema":1,"attempt":1,"outcome":null})";
    start.grace_ns = 30'000'000'000;
    return start;
  }
  Start shell(std::int64_t number, const std::string& script) const {
    return job(number, {"/bin/sh", "-c", script});
  }

  std::size_t keeper_fds() const {
    std::size_t count = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(keeper_.pid) + "/fd")) {
      (void)entry;
      ++count;
    }
    return count;
  }

  /// The groups that this machine offers; words() of it when there are none of this kind.
  static os::CgroupSite groups_of_this_machine() {
    ::unsetenv("PERGPU_CGROUP");
    return os::find_cgroups();
  }
  /// Those of this test's keeper that are there.
  std::vector<std::string> group_folders() const {
    return os::groups_named(groups_, os::cgroup_name(folder_.path(), kId));
  }

  TempFolder folder_;
  std::string home_name_;          // "": the folder
  std::string run_name_ = "/run";  // as in a home; set it before make_run_folder()
  os::CgroupSite groups_;          // handed to the keeper; none unless a test sets it
  os::Spawned keeper_;
};

}  // namespace pergpu::keeper::rig
