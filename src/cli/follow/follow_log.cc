// One job's output as it grows, for `run -- CMD` (its only job) and `logs -f`.
//
// The job's end comes by the watch, its bytes by the file; the end is acted upon only after the
// file was read to its end, so no last line is lost.  A retry's log is a new file: the old one is
// read out, then the new one is followed.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/snapshot.h"
#include "cli/client/watch.h"
#include "cli/follow/follow.h"
#include "cli/follow/interrupts.h"
#include "cli/follow/json_lines.h"
#include "cli/follow/wait_reason.h"
#include "cli/job_files/log_reader.h"
#include "cli/term/exit_code.h"
#include "cli/term/standard_output.h"
#include "cli/term/terminal.h"
#include "cli/term/terminal_signs.h"
#include "duration.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/loop.h"
#include "os/terminal.h"
#include "view/model/job_facts.h"
#include "view/text/escape.h"
#include "view/text/long_text.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

/// How the job's end becomes our exit code.
int code_of(const JobSnapshot& job) {
  if (job.state == "done") return kOk;
  if (job.signal) return 128 + *job.signal;
  if (job.exit && *job.exit != 0) return *job.exit;
  return kSomeFailed;
}

struct Plan {
  json request;                               // of the watch
  std::optional<Interrupts> interrupts = {};  // nullopt: Ctrl-C only ends the looking
  std::int64_t offset = 0;                    // where the log of `offset_attempt` is taken up
  std::int64_t offset_attempt = 0;
  bool print_job = false;  // --json: the job's snapshot at the end
  bool as_lines = false;   // --json: each line of the log as JSON
  bool to_terminal = false;
  bool bell = false;  // when the job has ended
};

class LogFollower {
 public:
  LogFollower(std::unique_ptr<os::Loop> loop, const Place& place, Plan plan)
      : loop_(std::move(loop)),
        client_(place, Client::Start::IfNeeded),
        plan_(std::move(plan)),
        wait_reason_(*loop_, place,
                     [](const std::string& name, const std::string& why) {
                       say(fmt::format("pergpu: {} is queued: {}", name, why));
                     }),
        watch_(*loop_, client_, plan_.request,
               {.on_event = [this](const json& event) { on_event(event); },
                .on_gap = [](const std::string&) {},
                .on_failed = [this](const Error& why) { leave(fail(why)); }}) {}

  int follow() {
    Result<void> watched =
        loop_->on_signals({SIGINT, SIGTERM, SIGHUP}, [this](int signal) { on_signal(signal); });
    if (!watched) return fail(watched.error());
    auto reader = LogReader::create(
        *loop_, [this](std::string_view bytes) { write(bytes); },
        [this](LogReader::Restart how) { on_restart(how); });
    if (!reader) return fail(reader.error());
    reader_ = std::move(*reader);
    watch_.start();
    if (!code_) {
      if (plan_.interrupts) arm_tick();
      const Result<void> ran = loop_->run();
      if (!ran) return fail(ran.error());
    }
    reader_->drain();
    finish_line();
    if (job_.id != 0) say_end();
    const bool has_ended = view::is_ended(job_) || job_.state == "held";
    if (plan_.bell && has_ended && can_redraw(STDERR_FILENO))
      TerminalSigns(STDERR_FILENO, true, false).ring();
    return code_.value_or(kSomeFailed);
  }

 private:
  void on_event(const json& event) {
    const std::string kind = event.value("event", std::string());
    if (kind == "snapshot") {
      for (const json& job : event.value("jobs", json::array())) on_job(job.get<JobSnapshot>());
    } else if (kind == "job") {
      on_job(event.value("job", json()).get<JobSnapshot>());
    } else if (kind == "end") {
      leave(plan_.interrupts && plan_.interrupts->any() ? kInterrupted : code_of(job_));
    }
  }

  void on_job(JobSnapshot job) {
    if (job.replaced) return;
    queued_ = job.state == "queued" ? job.id : 0;
    // Before the attempt has started, log.txt may still be an earlier one's.
    const bool has_log = job.attempt > 0 && job.started_at != 0 && !job.log.empty();
    if (has_log && job.attempt != followed_attempt_) {
      // `run -- CMD` shows all attempts, `logs -f` those from the newest on.
      if (followed_attempt_ != 0 || plan_.interrupts) read_missed(job);
      job_.id = job.id;
      reader_->follow(job.log, job.attempt == plan_.offset_attempt ? plan_.offset : 0);
      followed_attempt_ = job.attempt;
    }
    job_ = std::move(job);
  }

  /// Attempts that ended between two messages of the watch: their logs have been moved aside.
  void read_missed(const JobSnapshot& job) {
    for (std::int64_t n = followed_attempt_ + 1; n < job.attempt; ++n) {
      reader_->follow(fmt::format("{}/log.{}.txt", os::parent_of(job.log), n));
    }
  }

  /// `run -- CMD` has nothing else to show while its job waits.
  void arm_tick() {
    const std::int64_t now_ns = clock_.now().boot_ns;
    if (wait_reason_.is_due(queued_ != 0, now_ns)) wait_reason_.ask(queued_);
    loop_->at(now_ns + kSecond, [this] { arm_tick(); });
  }

  void on_signal(int signal) {
    if (signal == SIGHUP) return leave(kHangUp);
    if (signal == SIGTERM) return leave(kTerminated);
    if (!plan_.interrupts) return leave(kInterrupted);
    const Result<std::string> words = plan_.interrupts->next();
    if (words) return say(*words);
    if (words.error().kind == ErrorKind::Busy) return leave(kInterrupted);
    fail(words.error());
    if (!watch_.connected()) leave(kInterrupted);
  }

  void write(std::string_view bytes) {
    if (plan_.print_job) return;  // stdout is for one JSON value
    const bool read = plan_.as_lines      ? print(lines_.feed(job_.id, bytes))
                      : plan_.to_terminal ? print(filter_.feed(bytes))
                                          : print(bytes);
    // `logs -f` has nothing left to do; our job is still waited for.
    if (!read && !plan_.interrupts) leave(kSomeFailed);
  }

  /// A last line without its end.
  void finish_line() {
    if (plan_.print_job) return;
    if (plan_.as_lines) {
      print(lines_.finish(job_.id));
    } else if (plan_.to_terminal) {
      print(filter_.finish());
    }
  }

  void on_restart(LogReader::Restart how) {
    finish_line();
    // That another file took the name is how a retry begins.
    if (how == LogReader::Restart::Emptied) {
      say("pergpu: log.txt was emptied; new output follows");
    }
  }

  void say_end() {
    if (plan_.print_job) {
      json job = job_;
      job["schema"] = 1;
      print(output_line(job));
      return;
    }
    if (job_.state == "done" && !job_.reason.empty()) {
      say(fmt::format("pergpu: {}: {}", view::name_of(job_), view::short_reason(job_.reason)));
    }
    if (view::is_ended(job_) && job_.state != "done") {
      say(fmt::format("pergpu: {} {}: {}", view::name_of(job_), job_.state,
                      view::short_reason(job_.reason)));
    } else if (job_.state == "held") {
      say(fmt::format("pergpu: {} is held: {}; `pergpu release {}` queues it again",
                      view::name_of(job_), view::short_reason(job_.reason), job_.id));
    }
  }

  void leave(int code) {
    if (!code_) code_ = code;
    loop_->stop();
  }

  os::RealClock clock_ = {};
  std::unique_ptr<os::Loop> loop_;
  Client client_;
  Plan plan_;
  WaitReason wait_reason_;
  std::unique_ptr<LogReader> reader_ = {};
  view::LogFilter filter_ = {};
  JsonLines lines_ = {};
  JobSnapshot job_ = {};
  std::int64_t followed_attempt_ = 0;
  std::int64_t queued_ = 0;  // the job while it waits; 0: it does not
  std::optional<int> code_ = std::nullopt;
  Watch watch_;  // last: its callbacks use the others
};

int follow(const Place& place, Plan plan) {
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  if (!loop) return fail(loop.error());
  plan.to_terminal = os::is_terminal(STDOUT_FILENO);
  LogFollower follower(std::move(*loop), place, std::move(plan));
  return follower.follow();
}

}  // namespace

int follow_single(const Place& place, std::int64_t sweep_id, const Output& output) {
  Plan plan;
  plan.request = {{"op", "watch"}, {"sweep_id", sweep_id}};
  plan.interrupts.emplace(place, sweep_id, true);
  standard_output().outlive_reader();  // the job is waited for in any case
  plan.print_job = output.json;
  plan.bell = !output.no_bell;
  return follow(place, std::move(plan));
}

int follow_log(const Place& place, std::int64_t job_id, LogPosition from, const Output& output) {
  Plan plan;
  plan.request = {{"op", "watch"}, {"sel", {std::to_string(job_id)}}};
  plan.offset = from.offset;
  plan.offset_attempt = from.attempt;
  plan.as_lines = output.json;
  return follow(place, std::move(plan));
}

}  // namespace pergpu::cli
