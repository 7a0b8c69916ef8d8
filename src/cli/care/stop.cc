// The process is watched by a handle, which is opened before it is asked to leave.  Its jobs are
// gone when it says so in its last line: it does not leave before their process trees have ended.
#include "cli/care/stop.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "coordinator/stop_mark.h"
#include "daemon/main_loop.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/fs/lock.h"
#include "os/process/child.h"
#include "os/process/paths.h"
#include "os/process/proc.h"
#include "plural.h"
#include "run/living_keepers.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kStopAnswer{10};  // of a coordinator that is starting, or asked what is left
constexpr seconds kLeaving{15};     // beyond the longest grace: the last is ended 5 s after it
constexpr seconds kProcess{10};     // from its last line to its end
constexpr seconds kKilled{1};       // from the end of a killed one's connection to its own
constexpr std::int64_t kUnknown = -1;
constexpr std::size_t kMostNamed = 5;

bool has_ended_within(const os::UniqueFd& process, seconds patience) {
  pollfd end{.fd = process.get(), .events = POLLIN, .revents = 0};
  const auto wait = milliseconds(patience);
  return ::poll(&end, 1, static_cast<int>(wait.count())) > 0;
}

bool has_keeper_socket(const std::string& folder) {
  const Result<std::vector<std::string>> names = os::list_dir(folder);
  if (!names) return names.error().kind != ErrorKind::NotFound;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    const bool is_number = name.find_first_not_of("0123456789", 1) == std::string::npos;
    return name.size() > 1 && name[0] == 'k' && is_number;
  });
}

/// Keepers that a coordinator has left: their jobs run on.  Where sockets can't be in the run
/// folder they are in <home>/run, and for a moment in neither; by /proc not all are seen
/// everywhere.
bool has_keepers(const Place& place) {
  if (has_keeper_socket(place.run_dir)) return true;
  if (has_keeper_socket(os::run_folder_in(place.home))) return true;
  const std::string identity = home_identity(place.home);
  const std::vector<LivingKeeper> living = living_keepers(place.home);
  return std::any_of(living.begin(), living.end(), [&](const LivingKeeper& keeper) {
    return keeper.words.home_id.empty() || keeper.words.home_id == identity;
  });
}

/// A job that keeps the coordinator from leaving.
struct Left {
  std::int64_t job = 0;
  std::string name = {};
  std::string why = {};
};

class Stop {
 public:
  Stop(Place place, const StopOptions& options) : place_(std::move(place)), options_(options) {}

  int run() {
    Result<Connection> connection = connect();
    if (!connection && connection.error().kind == ErrorKind::NotFound) return none_runs();
    if (!connection) return fail(connection.error());
    pid_ = connection->peer().pid;
    Result<os::UniqueFd> process = os::open_handle(static_cast<pid_t>(pid_));
    const json request = {{"op", "stop"}, {"kill", options_.kill}, {"wait", true}};
    if (Result<void> sent = connection->send(to_line(request) + "\n"); !sent) {
      return fail(sent.error());
    }
    const Result<std::string> line = connection->read_line(kStopAnswer);
    if (!line) return fail(line.error());
    const Result<json> reply = unwrap_reply(*line);
    if (!reply) return fail(reply.error());
    return wait(*connection, *reply, process ? &*process : nullptr);
  }

 private:
  /// One that holds the lock of the home and does not answer yet is waited for.  NotFound: none
  /// runs, and none that is about to start, unless for a command, will.
  Result<Connection> connect() {
    const bool starts = options_.kill && has_keepers(place_);
    Client client(place_, starts ? Client::Start::IfNeeded : Client::Start::Never);
    const std::int64_t end = os::boot_now_ns() + std::chrono::nanoseconds(kStopAnswer).count();
    for (;;) {
      Result<Connection> connection = client.connect();
      if (connection || connection.error().kind != ErrorKind::NotFound) return connection;
      const Result<os::FileLock> lock = os::FileLock::try_lock(place_.home + "/coordinator.lock");
      if (lock || lock.error().kind != ErrorKind::Busy) {
        const Result<void> marked = lock ? write_stop_mark(place_.home) : lock.error();
        if (!marked) unmarked_ = marked.error().message;
        return connection;
      }
      if (os::boot_now_ns() > end) {
        return Error{ErrorKind::Unavailable, 0,
                     fmt::format("can't stop the coordinator: {}, but it doesn't answer on {}",
                                 lock.error().message, place_.socket())};
      }
      ::poll(nullptr, 0, 20);
    }
  }

  int none_runs() {
    const bool may_run = has_keepers(place_);
    if (!options_.as_json) {
      say(may_run ? "no coordinator is running, but jobs of the last one may be (`pergpu "
                    "coordinator stop "
                    "--kill` ends them)"
                  : "no coordinator is running");
    }
    return tell(true, may_run ? kUnknown : 0, {}, "");
  }

  int wait(Connection& connection, const json& reply, const os::UniqueFd* process) {
    const bool tells = reply.contains("pid");  // one of an earlier release leaves without a word
    kills_ = reply.value("kill", options_.kill);
    unmarked_ = reply.value("unmarked", std::string());
    const std::int64_t jobs = reply.value("jobs", tells ? std::int64_t{0} : kUnknown);
    const seconds longest{kills_ ? reply.value("longest_s", std::int64_t{0}) : 0};
    if (kills_ && jobs > 0) {
      say(fmt::format("waiting for {} to end: SIGTERM now, SIGKILL after the grace of at most {} s",
                      counted(jobs, "job"), longest.count()));
    }
    Result<std::string> line = connection.read_line(longest + kLeaving);
    if (!line && line.error().kind == ErrorKind::Busy) return still_there();
    const Result<json> left = line ? unwrap_reply(*line) : Result<json>(line.error());
    if (!left && tells && kills_) {
      const bool lives = process != nullptr && !has_ended_within(*process, kKilled);
      return lives ? lost_touch() : broke_off();
    }
    if (process != nullptr && !has_ended_within(*process, kProcess)) return hangs();
    await_reaping();
    return gone(left ? left->value("running", std::int64_t{0}) : kUnknown, jobs);
  }

  /// An ended process is still seen by its number until init takes it, at once as a rule.
  void await_reaping() const {
    constexpr std::int64_t kPatienceNs = 200'000'000;
    const std::int64_t end = os::boot_now_ns() + kPatienceNs;
    while (os::read_stat(static_cast<pid_t>(pid_)) && os::boot_now_ns() < end) {
      ::poll(nullptr, 0, 5);
    }
  }

  int gone(std::int64_t running, std::int64_t asked) {
    if (options_.as_json) return tell(true, running, {}, "");
    if (kills_ && asked == kUnknown) {
      say("the coordinator has stopped; one of its release doesn't report which jobs it ended");
    } else if (kills_) {
      say(asked == 0 ? "the coordinator has stopped; no job was running"
                     : fmt::format("the coordinator has stopped; {} ended", counted(asked, "job")));
    } else {
      say("the coordinator has stopped; running jobs continue; the next command that needs a "
          "coordinator starts one, which takes them over");
    }
    return tell(true, running, {}, "");
  }

  /// It was killed before its jobs had ended.
  int broke_off() {
    return tell(false, kUnknown, {},
                fmt::format("the coordinator (process {}) ended before its jobs, which may still "
                            "run; end them with `pergpu coordinator stop --kill` again",
                            pid_));
  }

  int lost_touch() {
    return tell(
        false, kUnknown, {},
        fmt::format("the coordinator (process {}) is still there, but its connection broke; "
                    "it leaves when its jobs are gone: `pergpu coordinator stop --kill` "
                    "again waits for that",
                    pid_));
  }

  int hangs() {
    return tell(
        false, kUnknown, {},
        fmt::format("the coordinator has finished, but its process {} still exists: it waits for a "
                    "file system or a cluster that doesn't answer; no record is lost",
                    pid_));
  }

  int still_there() {
    const std::vector<Left> left = what_is_left();
    const std::string store = store_trouble();
    std::string why = fmt::format("the coordinator (process {}) is still running: ", pid_);
    if (!store.empty()) {
      why += fmt::format("it can't write its store ({}); it stops when it can", store);
    } else if (!left.empty()) {
      why +=
          fmt::format("{} did not end; it stops when they have ended", counted(left.size(), "job"));
    } else {
      why += "it reports no reason; see " + place_.log();
    }
    return tell(false, static_cast<std::int64_t>(left.size()), left, why);
  }

  std::string store_trouble() const {
    const Result<json> status = ask_once({{"op", "status"}});
    return status ? status->value("store", std::string()) : std::string();
  }

  std::vector<Left> what_is_left() const {
    const Result<json> all = ask_once({{"op", "ps"}, {"sel", json::array()}, {"older", true}});
    if (!all || !kills_) return {};
    json live = json::array();
    for (const json& job : all->value("jobs", json::array())) {
      const std::string state = job.value("state", std::string());
      if (state == "starting" || state == "running" || state == "stopping") {
        live.push_back(std::to_string(job.value("id", std::int64_t{0})));
      }
    }
    if (live.empty()) return {};
    const Result<json> why = ask_once({{"op", "why"}, {"sel", live}, {"older", true}});
    std::vector<Left> out;
    if (!why) return out;
    for (const json& job : why->value("jobs", json::array())) {
      out.push_back({.job = job.value("id", std::int64_t{0}),
                     .name = job.value("name", std::string()),
                     .why = job.value("why", std::string())});
    }
    return out;
  }

  Result<json> ask_once(const json& request) const {
    Result<Connection> connection = Connection::open(place_.socket(), kStopAnswer);
    if (!connection) return std::move(connection).error();
    if (Result<void> sent = connection->send(to_line(request) + "\n"); !sent) return sent.error();
    const Result<std::string> line = connection->read_line(kStopAnswer);
    return line ? unwrap_reply(*line) : Result<json>(line.error());
  }

  /// `running`: jobs that go on, or kUnknown.
  int tell(bool is_stopped, std::int64_t running, const std::vector<Left>& left, std::string why) {
    if (!unmarked_.empty()) why += (why.empty() ? "" : "; ") + unmarked_words(unmarked_);
    if (options_.as_json) {
      json jobs = json::array();
      for (const Left& one : left) {
        jobs.push_back({{"id", one.job}, {"name", one.name}, {"why", one.why}});
      }
      print(output_line({{"schema", 1},
                         {"stopped", is_stopped},
                         {"pid", pid_ == 0 ? json(nullptr) : json(pid_)},
                         {"running", running == kUnknown ? json(nullptr) : json(running)},
                         {"left", jobs},
                         {"why", why}}));
    }
    if (!why.empty()) say("pergpu: " + why);
    for (std::size_t i = 0; !options_.as_json && i < left.size() && i < kMostNamed; ++i) {
      say(fmt::format("  job {} {}: {}", left[i].job, left[i].name, left[i].why));
    }
    if (!options_.as_json && left.size() > kMostNamed) {
      say(fmt::format("  and {} more: `pergpu ps`", left.size() - kMostNamed));
    }
    return why.empty() ? kOk : kSomeFailed;
  }

  Place place_;
  StopOptions options_;
  std::int64_t pid_ = 0;
  bool kills_ = false;
  std::string unmarked_ = {};  // why the stop mark could not be left
};

}  // namespace

int stop_coordinator(const StopOptions& options) {
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  if (!place->said.empty()) say("pergpu: home is " + place->home + ": " + place->said);
  return Stop(std::move(*place), options).run();
}

}  // namespace pergpu::cli
