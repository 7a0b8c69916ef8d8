// A helper that did not succeed in its time is started again after a pause, forever: the lane
// stays closed as long as something of the tree may live.
#include "run/undertaker.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cstring>

#include "keeper/protocol.h"
#include "os/clock.h"
#include "os/fs/unnamed_file.h"
#include "os/process/child.h"
#include "os/process/spawn.h"

namespace pergpu {
namespace {

constexpr std::size_t kAtOnce = 8;
constexpr std::int64_t kRoundMs = 10'000;
constexpr std::int64_t kKeeperRoundMs = 3'000;
constexpr std::int64_t kPauseNs = 5'000'000'000;

}  // namespace

struct Undertaker::Burial {
  std::string key = {};  // a tree's marker, or a keeper's
  std::vector<std::string> words = {};
  Callbacks callbacks = {};
  os::Spawned helper = {};
  os::UniqueFd said = {};  // what it printed: the processes that are left
  bool is_cancelled = false;
};

namespace {

/// The loop reaps it.
void end_helper(const os::Spawned& helper) {
  if (helper.pidfd) (void)os::send_signal(helper.pidfd, SIGKILL);
}

std::string what_it_said(int fd) {
  char text[1024];
  const ssize_t n = ::pread(fd, text, sizeof text, 0);
  if (n <= 0) return "can't end some of its processes";
  return std::string(text, static_cast<std::size_t>(n));
}

}  // namespace

Undertaker::Undertaker(os::Loop& loop, std::string keeper_program)
    : loop_(loop),
      keeper_program_(std::move(keeper_program)),
      alive_(std::make_shared<bool>(true)) {}

Undertaker::~Undertaker() {
  *alive_ = false;
  for (const auto& [marker, burial] : burials_) end_helper(burial->helper);
}

void Undertaker::end(const os::TreeMarks& marks, Callbacks callbacks) {
  std::vector<std::string> words = {"--end-tree",
                                    "--pid",
                                    std::to_string(marks.pid),
                                    "--start-ticks",
                                    std::to_string(marks.start_ticks),
                                    "--marker",
                                    marks.marker,
                                    "--log",
                                    marks.log_path,
                                    "--limit-ms",
                                    std::to_string(kRoundMs)};
  for (const std::string& group : marks.groups) words.insert(words.end(), {"--group", group});
  enqueue(marks.marker, std::move(words), std::move(callbacks));
}

void Undertaker::end_keeper(const std::string& home, const std::string& home_id, KeeperId id,
                            Callbacks callbacks) {
  const std::string number = std::to_string(id.value);
  enqueue("keeper " + number,
          {"--end-keeper", "--id", number, "--home", home, "--home-id", home_id, "--limit-ms",
           std::to_string(kKeeperRoundMs)},
          std::move(callbacks));
}

void Undertaker::enqueue(std::string key, std::vector<std::string> words, Callbacks callbacks) {
  auto burial = std::make_shared<Burial>();
  burial->key = std::move(key);
  burial->words = std::move(words);
  burial->callbacks = std::move(callbacks);
  burials_[burial->key] = burial;
  waiting_.push_back(burial);
  start_some();
}

void Undertaker::start_some() {
  while (running_ < kAtOnce && !waiting_.empty()) {
    std::shared_ptr<Burial> burial = std::move(waiting_.front());
    waiting_.pop_front();
    if (!burial->is_cancelled) start(burial);
  }
}

void Undertaker::start(const std::shared_ptr<Burial>& burial) {
  os::SpawnPlan plan;
  plan.argv = {keeper_program_};
  plan.argv.insert(plan.argv.end(), burial->words.begin(), burial->words.end());
  plan.cwd = "/";
  plan.parent_death_signal = SIGKILL;  // the next coordinator decides again what is to be ended
  if (Result<os::UniqueFd> said = os::make_unnamed_file()) burial->said = *std::move(said);
  plan.stdout_fd = burial->said.get();
  os::SpawnResult result = os::spawn(plan);
  if (const auto* failure = std::get_if<os::SpawnFailure>(&result))
    return try_again(burial, "can't start " + keeper_program_ + ": " + failure->phase + ": " +
                                 std::strerror(failure->os_errno));
  burial->helper = std::get<os::Spawned>(std::move(result));
  ++running_;
  const int fd = burial->helper.pidfd.get();
  const auto on_end = [this, &loop = loop_, burial, alive = alive_, fd](std::uint32_t) {
    loop.unwatch(fd);
    const std::optional<os::Reaped> reaped = os::reap(burial->helper.pid);
    burial->helper = {};
    if (!*alive) return;
    --running_;
    if (reaped && reaped->status == os::ExitStatus(os::Exited{keeper::kTreeGone})) {
      if (!burial->is_cancelled) gone(*burial);
    } else {
      try_again(burial, what_it_said(burial->said.get()));
    }
    if (*alive) start_some();
  };
  const Result<void> watched = loop_.watch(fd, EPOLLIN, on_end);
  if (watched) return;
  --running_;
  end_helper(std::exchange(burial->helper, {}));
  try_again(burial, watched.error().message);
}

void Undertaker::gone(const Burial& burial) {
  const auto on_gone = burial.callbacks.on_gone;
  burials_.erase(burial.key);
  on_gone();
}

void Undertaker::cancel(const std::string& marker) {
  const auto node = burials_.extract(marker);
  if (node.empty()) return;
  node.mapped()->is_cancelled = true;
  end_helper(node.mapped()->helper);
}

void Undertaker::try_again(const std::shared_ptr<Burial>& burial, const std::string& why) {
  const std::int64_t now = os::boot_now_ns();
  loop_.at(now, [burial, why, alive = alive_] {
    if (*alive && !burial->is_cancelled) burial->callbacks.on_left(why);
  });
  loop_.at(now + kPauseNs, [this, burial, alive = alive_] {
    if (!*alive) return;
    waiting_.push_back(burial);
    start_some();
  });
}

}  // namespace pergpu
