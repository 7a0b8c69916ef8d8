// One object per followed sweep, on one event loop: the watch brings changes, a timer draws,
// signals and keys end it.
//
// Drawing: at most four times a second, and only when something changed or the second ticked.  Log
// lines and metrics are read from the jobs' files once a second, of the jobs that are shown.
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/client/watch.h"
#include "cli/follow/follow.h"
#include "cli/follow/interrupts.h"
#include "cli/follow/wait_reason.h"
#include "cli/job_files/result_files.h"
#include "cli/job_files/written_records.h"
#include "cli/term/exit_code.h"
#include "cli/term/standard_output.h"
#include "cli/term/terminal.h"
#include "cli/term/terminal_signs.h"
#include "duration.h"
#include "os/clock.h"
#include "os/loop.h"
#include "view/commands/results.h"
#include "view/commands/status.h"
#include "view/model/job_facts.h"
#include "view/text/escape.h"
#include "view/text/quantity.h"
#include "view/text/screen.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kFollowFrame = kSecond / 4;
/// Without a terminal: a sign of life after this long without a line.
constexpr std::int64_t kHeartbeat = 60 * kSecond;
constexpr std::size_t kFailuresShown = 10;
constexpr std::size_t kFollowLines = 5;

class SweepFollower {
 public:
  SweepFollower(std::unique_ptr<os::Loop> loop, const Place& place, std::int64_t sweep_id,
                std::int64_t since_ns, const Output& output)
      : since_ns_(since_ns),
        loop_(std::move(loop)),
        client_(place, Client::Start::IfNeeded),
        interrupts_(place, sweep_id, false),
        output_(output),
        keys_(STDIN_FILENO),
        signs_(STDERR_FILENO, !output.no_bell, !output.no_osc),
        wait_reason_(
            *loop_, place,
            [this](const std::string& name, const std::string& why) { report_wait(name, why); }),
        watch_(*loop_, client_, {{"op", "watch"}, {"sweep_id", sweep_id}},
               {.on_event = [this](const json& event) { on_event(event); },
                .on_gap = [this](const std::string& words) { tell(words); },
                .on_failed = [this](const Error& why) { leave(fail_with(why)); }}) {}

  int follow() {
    Result<void> watched = loop_->on_signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH},
                                             [this](int signal) { on_signal(signal); });
    if (!watched) return fail(watched.error());
    enter_terminal();
    watch_.start();
    if (!code_) {
      arm_tick();
      const Result<void> ran = loop_->run();
      if (!ran) leave(fail_with(ran.error()));
    }
    wipe();
    if (ended_ && redraws_) signs_.ring();
    leave_terminal();
    if (!last_words_.empty()) say(last_words_);
    if (ended_) print_end();
    return code_.value_or(kSomeFailed);
  }

 private:
  // The coordinator's side.

  void on_event(const json& event) {
    const std::string kind = event.value("event", std::string());
    if (kind == "snapshot") {
      on_snapshot(event);
    } else if (kind == "job") {
      on_job(event.value("job", json()).get<JobSnapshot>());
    } else if (kind == "sweep") {
      on_sweep(event.value("sweep", json()));
    } else if (kind == "remaining") {
      const auto left = event.find("remaining_s");
      const bool is_known = left != event.end() && left->is_number();
      followed_.sweep.remaining_s =
          is_known ? std::optional<double>(left->get<double>()) : std::nullopt;
      followed_.sweep_at_ns = clock_.now().wall_ns;
    } else if (kind == "lanes") {
      followed_.lanes = event.value("lanes", json::array()).get<std::vector<LaneSnapshot>>();
    } else if (kind == "end") {
      ended_ = true;
      await_records();
      leave(exit_code());
    }
    draw_soon();
  }

  void on_snapshot(const json& event) {
    on_sweep(event.value("sweep", json()));
    followed_.lanes = event.value("lanes", json::array()).get<std::vector<LaneSnapshot>>();
    for (const json& job : event.value("jobs", json::array())) on_job(job.get<JobSnapshot>());
  }

  void on_sweep(const json& sweep) {
    followed_.sweep = sweep.get<SweepSnapshot>();
    followed_.sweep_at_ns = clock_.now().wall_ns;
  }

  void on_job(JobSnapshot job) {
    const auto known = followed_.jobs.find(job.id);
    const JobSnapshot* before = known == followed_.jobs.end() ? nullptr : &known->second;
    if (!redraws_) {
      tell_line(view::change_line(before, job, since_ns_, clock_.now().wall_ns, style_));
    }
    followed_.take(std::move(job));
  }

  void await_records() const {
    std::vector<JobSnapshot> jobs;
    for (const auto& [id, job] : followed_.jobs) jobs.push_back(job);
    cli::await_records(std::move(jobs));
  }

  int exit_code() const {
    if (interrupts_.any()) return kInterrupted;
    for (const auto& [id, job] : followed_.jobs) {
      if (!job.replaced && job.state != "done") return kSomeFailed;
    }
    return kOk;
  }

  // The user's side.

  void on_signal(int signal) {
    switch (signal) {
      case SIGINT:
        return on_interrupt();
      case SIGTERM:
        last_words_ = detached_text();
        return leave(kTerminated);
      case SIGHUP:
        return leave(kHangUp);
      case SIGTSTP:
        wipe();
        leave_terminal();
        ::raise(SIGSTOP);
        return;  // SIGCONT follows
      case SIGCONT:
        return enter_terminal();
      case SIGWINCH:
        style_ = style_of(STDERR_FILENO, output_.colour);
        return draw_soon();
    }
  }

  void on_interrupt() {
    signs_.clear();
    const Result<std::string> words = interrupts_.next();
    if (words) return tell(*words);
    if (words.error().kind == ErrorKind::Busy) return leave(kInterrupted);
    tell("pergpu: " + words.error().message);
    if (!watch_.connected()) leave(kInterrupted);
  }

  void on_key() {
    std::array<char, 64> typed;
    const ssize_t n = ::read(STDIN_FILENO, typed.data(), typed.size());
    if (n <= 0) {  // the terminal is gone; SIGHUP says so too
      loop_->unwatch(STDIN_FILENO);
      reads_keys_ = false;
      return;
    }
    for (const char key : std::string_view(typed.data(), static_cast<std::size_t>(n))) {
      if (key != 'q') continue;
      last_words_ = detached_text();
      return leave(kOk);
    }
  }

  std::string detached_text() {
    view::Style plain;
    return fmt::format("detached; {}\n`pergpu attach {}` watches it again",
                       view::headline(followed_, clock_.now().wall_ns, plain),
                       followed_.sweep.name);
  }

  // The terminal.

  void enter_terminal() {
    style_ = style_of(STDERR_FILENO, output_.colour);
    redraws_ = can_redraw(STDERR_FILENO);
    if (redraws_ && keys_.enter() && !reads_keys_) {
      reads_keys_ = static_cast<bool>(
          loop_->watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { on_key(); }));
    }
    draw_soon();
  }

  void leave_terminal() {
    if (reads_keys_) loop_->unwatch(STDIN_FILENO);
    reads_keys_ = false;
    keys_.restore();
    signs_.clear();
    redraws_ = false;
  }

  void write_terminal(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(STDERR_FILENO, bytes.data(), bytes.size());
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  void wipe() {
    write_terminal(view::erase(drawn_, drawn_width_, style_.width));
    drawn_.clear();
  }

  void draw() {
    draw_timer_ = 0;
    if (!redraws_ || followed_.sweep.id == 0) return;
    const Instant now = clock_.now();
    std::vector<std::string> lines = view::status_lines(followed_, now.wall_ns, style_);
    write_terminal(view::redraw(drawn_, drawn_width_, lines, style_.width));
    drawn_ = std::move(lines);
    drawn_width_ = style_.width;
    drawn_at_ns_ = now.boot_ns;
    show_progress();
  }

  void show_progress() {
    if (interrupts_.any()) return;  // how far it comes is not known any more
    std::int64_t all = 0;
    std::int64_t ended = 0;
    std::int64_t failed = 0;
    for (const auto& [state, count] : followed_.counts) {
      const JobSnapshot one{.state = state};
      all += count;
      if (view::is_ended(one)) ended += count;
      if (view::is_failure(one)) failed += count;
    }
    if (all > 0) signs_.show(static_cast<int>(100 * ended / all), failed > 0);
  }

  void draw_soon() {
    if (!redraws_ || draw_timer_ != 0 || code_) return;
    draw_timer_ = loop_->at(drawn_at_ns_ + kFollowFrame, [this] { draw(); });
  }

  void arm_tick() {
    loop_->at(clock_.now().boot_ns + kSecond, [this] {
      on_tick();
      arm_tick();
    });
  }

  void on_tick() {
    if (!redraws_) {
      const Instant now = clock_.now();
      if (followed_.sweep.id == 0) return;
      const auto queued = followed_.counts.find("queued");
      const bool is_waiting =
          followed_.live.empty() && queued != followed_.counts.end() && queued->second > 0;
      if (wait_reason_.is_due(is_waiting, now.boot_ns)) wait_reason_.ask(first_queued());
      if (now.boot_ns - told_at_ns_ < kHeartbeat) return;
      return tell_line(fmt::format("{} {}\n", view::time_of_day(now.wall_ns, style_.utc_offset_s),
                                   view::headline(followed_, now.wall_ns, style_)));
    }
    for (const std::int64_t id : followed_.live) {
      const JobSnapshot& job = followed_.jobs.at(id);
      if (job.status.empty()) followed_.newest[id] = newest_of(job);
    }
    draw_soon();
  }

  /// 0: none.  Looks at all jobs, which may be a million.
  std::int64_t first_queued() const {
    for (const auto& [id, job] : followed_.jobs) {
      if (!job.replaced && job.state == "queued") return id;
    }
    return 0;
  }

  void report_wait(const std::string& name, const std::string& why) {
    if (redraws_) return;  // the view has it
    tell_line(fmt::format("{} nothing starts; {}: {}\n",
                          view::time_of_day(clock_.now().wall_ns, style_.utc_offset_s),
                          view::safe_line(name), view::safe_line(why)));
  }

  /// A message that stays: the view's last line, or its own line.
  void tell(const std::string& words) {
    if (redraws_) {
      followed_.message = words;
      return draw_soon();
    }
    say(words);
    told_at_ns_ = clock_.now().boot_ns;
  }

  void tell_line(const std::string& line) {
    if (line.empty()) return;
    write_terminal(line);
    told_at_ns_ = clock_.now().boot_ns;
  }

  // The end.

  int fail_with(const Error& error) {
    last_words_ = "pergpu: " + error.message;
    return exit_code_of(error);
  }

  void leave(int code) {
    if (!code_) code_ = code;
    loop_->stop();
  }

  void print_end() {
    std::vector<JobSnapshot> jobs;
    for (const auto& [id, job] : followed_.jobs) {
      if (!job.replaced) jobs.push_back(job);
    }
    if (output_.json) {
      print(output_line({{"schema", 1},
                         {"sweep", followed_.sweep.name},
                         {"sweep_id", followed_.sweep.id},
                         {"jobs", jobs}}));
      return;
    }
    const view::Style style = style_of(STDOUT_FILENO, output_.colour);
    std::string out = view::final_table(followed_.sweep, jobs, read_metrics(jobs), style);
    out += view::failures(followed_.sweep, jobs, read_tails(jobs, kFailuresShown, kFollowLines),
                          kFailuresShown, style);
    out += view::left_running(followed_.sweep, jobs, kFailuresShown, style);
    const std::map<std::string, std::int64_t> counts = view::counts_of(jobs);
    out += fmt::format("\n{}\n", view::sweep_text(followed_.sweep, counts, style));
    print(out);
    if (counts.contains("held")) {
      say(fmt::format("to continue held jobs: `pergpu release {}`, or the same `pergpu run` again",
                      followed_.sweep.name));
    }
  }

  os::RealClock clock_ = {};
  std::int64_t since_ns_;
  std::unique_ptr<os::Loop> loop_;
  Client client_;
  Interrupts interrupts_;
  Output output_;
  KeyMode keys_;
  TerminalSigns signs_;
  WaitReason wait_reason_;
  view::Followed followed_ = {};
  view::Style style_ = {};
  bool redraws_ = false;
  bool reads_keys_ = false;
  bool ended_ = false;
  std::vector<std::string> drawn_ = {};  // what stands on the terminal
  int drawn_width_ = 0;
  std::int64_t drawn_at_ns_ = 0;
  std::int64_t told_at_ns_ = 0;
  os::Loop::TimerId draw_timer_ = 0;
  std::optional<int> code_ = std::nullopt;
  std::string last_words_ = {};
  Watch watch_;  // last: its callbacks use the others
};

}  // namespace

int follow_sweep(const Place& place, std::int64_t sweep_id, std::int64_t since_ns,
                 const Output& output) {
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  if (!loop) return fail(loop.error());
  standard_output().outlive_reader();  // how the sweep ended is the exit code
  SweepFollower follower(std::move(*loop), place, sweep_id, since_ns, output);
  return follower.follow();
}

}  // namespace pergpu::cli
