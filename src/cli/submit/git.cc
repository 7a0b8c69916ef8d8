// Untracked files do not count as dirty: result folders lie beside the sweep file, and looking for
// them may walk millions of files.  A status that takes too long is taken as dirty: clean must be
// known, not hoped for.
#include "cli/submit/git.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "os/clock.h"
#include "os/process/child.h"
#include "os/process/spawn.h"

namespace pergpu::cli {
namespace {

constexpr std::int64_t kDeadlineNs = 2'000'000'000;
constexpr std::size_t kEnough = 4096;

/// stdout of a program that ended with 0 before the deadline.
std::optional<std::string> output_of(std::vector<std::string> argv) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) < 0) return std::nullopt;
  const os::UniqueFd out(ends[0]);
  os::UniqueFd in(ends[1]);
  os::SpawnPlan plan;
  plan.argv = std::move(argv);
  plan.env = os::own_environment();
  plan.env.emplace_back("GIT_OPTIONAL_LOCKS=0");
  plan.stdout_fd = in.get();
  plan.new_session = true;  // git must not ask for a password on our terminal
  os::SpawnResult spawned = os::spawn(plan);
  in.reset();
  auto* child = std::get_if<os::Spawned>(&spawned);
  if (!child) return std::nullopt;

  os::RealClock clock;
  const std::int64_t end_ns = clock.now().boot_ns + kDeadlineNs;
  std::string text;
  bool complete = false;
  std::array<char, 4096> block;
  while (!complete && text.size() < kEnough) {
    const std::int64_t left_ns = end_ns - clock.now().boot_ns;
    pollfd readable{.fd = out.get(), .events = POLLIN, .revents = 0};
    if (left_ns <= 0 || ::poll(&readable, 1, static_cast<int>(left_ns / 1'000'000 + 1)) <= 0) break;
    const ssize_t n = ::read(out.get(), block.data(), block.size());
    if (n < 0) break;
    complete = n == 0;
    text.append(block.data(), static_cast<std::size_t>(n));
  }
  if (!complete) {
    [[maybe_unused]] const Result<void> sent = os::send_signal(child->pidfd, SIGKILL);
  }
  const Result<os::Reaped> ended = os::wait_for(child->pid);
  if (text.size() >= kEnough) return text;  // enough to know: git was stopped in mid-sentence
  const bool well = ended && ended->status == os::ExitStatus(os::Exited{0});
  return complete && well ? std::optional(text) : std::nullopt;
}

}  // namespace

GitState git_state_of(const std::string& folder) {
  GitState state;
  const std::optional<std::string> head = output_of({"git", "-C", folder, "rev-parse", "HEAD"});
  if (!head || head->size() < 40) return state;
  state.commit = head->substr(0, head->find('\n'));
  const std::optional<std::string> changes =
      output_of({"git", "-C", folder, "status", "--porcelain", "--untracked-files=no"});
  state.dirty = !changes || !changes->empty();
  return state;
}

}  // namespace pergpu::cli
