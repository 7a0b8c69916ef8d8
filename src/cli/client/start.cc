// There is no event for "the socket exists and listens" that would not race with another client's
// coordinator, so connecting is tried again after 1, 2, 4 … 50 ms; the new process's end shortens
// the wait to the moment in which a winner of the lock would answer.
#include "cli/client/start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/client/allocation.h"
#include "cli/job_files/tail.h"
#include "daemon/main_loop.h"
#include "os/clock.h"
#include "os/process/child.h"
#include "os/process/paths.h"
#include "os/process/process_attributes.h"
#include "os/process/process_tree.h"
#include "os/process/spawn.h"

namespace pergpu::cli {
namespace {

/// After the new process ended, how long another one may take to listen.
constexpr std::int64_t kWinnerNs = 2'000'000'000;

/// Ours, with an absolute PERGPU_HOME where one is set: the coordinator runs in "/".
std::vector<std::string> environment(const Place& place,
                                     const std::optional<Allocation>& allocation) {
  std::vector<std::string> entries;
  if (allocation) {
    entries.push_back(fmt::format("{}={}", kAllocatedGpusName, devices_of(*allocation)));
    if (allocation->nodes > 1) {
      entries.push_back(fmt::format("{}={}", kAllocationName, allocation->job));
    }
  }
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with(kAllocatedGpusName) || text.starts_with(kAllocationName)) continue;
    const bool names_home = std::string_view(*entry).starts_with("PERGPU_HOME=");
    entries.push_back(names_home && !std::string_view(*entry).ends_with('=')
                          ? "PERGPU_HOME=" + place.home
                          : *entry);
  }
  return entries;
}

/// A FIFO in its place would hold us up, and a link would lead elsewhere.
Result<os::UniqueFd> open_log(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  os::UniqueFd log(::open(path.c_str(), kFlags, 0600));
  struct stat info = {};
  const bool is_fifo = !log && errno == ENXIO;
  if (!log && !is_fifo) return os_error("open " + path);
  if (is_fifo || ::fstat(log.get(), &info) < 0 || !S_ISREG(info.st_mode)) {
    return Error{ErrorKind::Invalid, 0, path + " is not a regular file; remove it"};
  }
  return log;
}

Result<os::Spawned> spawn_coordinator(const Place& place, pid_t predecessor) {
  Result<std::string> executable = os::own_executable();
  if (!executable) return std::move(executable).error();
  // Of a home that was named others may think that it outlives the allocation.
  const Result<std::optional<Allocation>> allocation =
      has_home_of_its_own() ? allocation_here() : std::optional<Allocation>();
  if (!allocation) return allocation.error();
  const Result<os::UniqueFd> log = open_log(place.log());
  if (!log) return log.error();
  os::SpawnPlan plan;
  plan.argv = {*executable, "coordinator", "run", "--asked-for"};
  if (predecessor != 0) {
    plan.argv.insert(plan.argv.end(), {"--succeed", std::to_string(predecessor)});
  }
  plan.env = environment(place, *allocation);
  plan.cwd = "/";
  plan.stdout_fd = log->get();
  plan.stderr_fd = log->get();
  plan.new_session = true;
  plan.umask = 077;
  plan.limits = os::raised_limits();  // it may not even be loaded with those of this shell
  os::SpawnResult result = os::spawn(plan);
  if (auto* failure = std::get_if<os::SpawnFailure>(&result)) {
    return os_error(fmt::format("start a coordinator ({} {})", failure->phase, failure->object),
                    failure->os_errno);
  }
  return std::move(std::get<os::Spawned>(result));
}

/// Lines of the log that were written since `begin`.
std::string last_words(const Place& place, std::int64_t begin) {
  std::string text;
  for (const std::string& line : last_lines(place.log(), 5, begin)) text += "\n  " + line;
  return text.empty() ? fmt::format("; {} has no message", place.log())
                      : fmt::format("; the last lines of {}:{}", place.log(), text);
}

}  // namespace

bool inside_a_job_of(const Place& place) {
  const char* mark = std::getenv(os::kMarkerName);
  return mark != nullptr && std::string_view(mark).starts_with(place.home + "/");
}

Result<Connection> start_coordinator(const Place& place, std::chrono::milliseconds deadline) {
  return succeed_coordinator(place, deadline, {});
}

Result<Connection> succeed_coordinator(const Place& place, std::chrono::milliseconds deadline,
                                       const Succession& succession) {
  const std::int64_t log_size = file_size(place.log());
  const bool waits_for_keeper = inside_a_job_of(place);
  Result<os::Spawned> coordinator = waits_for_keeper
                                        ? Result<os::Spawned>(os::Spawned{})
                                        : spawn_coordinator(place, succession.predecessor);
  if (!coordinator) {
    Error error = std::move(coordinator).error();
    error.kind = ErrorKind::Unavailable;
    return error;
  }

  if (succession.ask_to_leave) succession.ask_to_leave();
  os::RealClock clock;
  std::int64_t end_ns = clock.now().boot_ns + deadline.count() * 1'000'000;
  bool ended = waits_for_keeper;
  for (int pause_ms = 1;; pause_ms = std::min(2 * pause_ms, 50)) {
    Result<Connection> connection = Connection::open(found_again(place).socket(), deadline);
    if (connection || connection.error().kind != ErrorKind::NotFound) return connection;
    const std::int64_t now_ns = clock.now().boot_ns;
    if (now_ns >= end_ns) break;
    // poll() on the pidfd is the pause: it ends early when the process does.
    pollfd end{.fd = ended ? -1 : coordinator->pidfd.get(), .events = POLLIN, .revents = 0};
    if (::poll(&end, 1, pause_ms) > 0 && !ended) {
      ended = true;
      os::reap(coordinator->pid);
      end_ns = std::min(end_ns, clock.now().boot_ns + kWinnerNs);
    }
  }
  if (waits_for_keeper) {
    return Error{ErrorKind::Unavailable, 0,
                 "no coordinator answers, and pergpu can't start one inside a job, since it would "
                 "end with the job"};
  }
  return Error{
      ErrorKind::Unavailable, 0,
      fmt::format("the coordinator {}{}",
                  ended ? "exited before it answered"
                        : fmt::format("did not answer within {} s", deadline.count() / 1000),
                  last_words(place, log_size))};
}

}  // namespace pergpu::cli
