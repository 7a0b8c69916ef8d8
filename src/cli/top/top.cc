// `pergpu top`: all sweeps on one screen.
//
// The view is view/top/top.h's; here are the stream of everything, the keys, the log of the chosen
// job and what actions ask of the coordinator.  A frame is drawn when something changed, at most
// four a second, and each second for the times in it.  Leaving it ends nothing.
#include "view/top/top.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "cli/client/asker.h"
#include "cli/client/client.h"
#include "cli/client/watch.h"
#include "cli/command/command.h"
#include "cli/job_files/attempt_files.h"
#include "cli/job_files/log_reader.h"
#include "cli/job_files/result_files.h"
#include "cli/job_files/tail.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "cli/top/curses_screen.h"
#include "duration.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/terminal.h"
#include "plural.h"
#include "view/commands/show.h"
#include "view/model/job_facts.h"
#include "view/model/top_snapshot.h"
#include "view/text/long_text.h"
#include "view/top/top_keys.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;
using ActionKind = view::TopAction::Kind;

constexpr std::int64_t kTopFrame = kSecond / 4;
/// Of the chosen job's log so much is kept: more than the largest screen shows.
constexpr std::size_t kTopLogKept = 64 << 10;
/// Live jobs whose newest line is looked at each second.
constexpr std::size_t kMostLooked = 64;
constexpr std::size_t kLogLines = 200;

struct TopOptions {
  bool once = false;
  bool readonly = false;
  std::string palette = "standard";
  Output output = {};
};

json request() { return {{"op", "watch"}, {"all", true}}; }

Error too_old(const Client& client) {
  return {ErrorKind::Unavailable, 0,
          fmt::format("`top` needs a newer coordinator than version {}; stop it with `pergpu "
                      "coordinator stop` (jobs keep running)",
                      client.peer().version)};
}

/// What live jobs wrote last, where they do not say themselves how they are.
void read_newest(view::TopSnapshot& snapshot) {
  snapshot.newest.clear();
  for (const auto& [id, job] : snapshot.jobs) {
    if (!view::is_live(job) || !job.status.empty() || job.attempt == 0) continue;
    if (snapshot.newest.size() == kMostLooked) return;
    snapshot.newest[id] = newest_of(job);
  }
}

view::Palette palette_of(const TopOptions& options, bool has_colour) {
  if (!has_colour) return view::Palette::None;
  return options.palette != "standard" ? view::Palette::ColourBlind : view::Palette::Standard;
}

/// "cancelled 2 jobs; 17 is unchanged: done"
std::string changed_text(ActionKind kind, const json& reply) {
  const char* done = kind == ActionKind::Cancel    ? "cancelled"
                     : kind == ActionKind::Kill    ? "killed"
                     : kind == ActionKind::Hold    ? "held"
                     : kind == ActionKind::Release ? "released"
                                                   : "queued again";
  const std::size_t changed = reply.value("changed", json::array()).size();
  std::string text = fmt::format("{} {}", done, counted(changed, "job"));
  const json left = reply.value("left", json::array());
  if (!left.empty()) {
    text += fmt::format("; {} is unchanged: {}", left[0].value("id", std::int64_t{0}),
                        left[0].value("state", std::string()));
  }
  if (left.size() > 1) text += fmt::format(", and {} more", left.size() - 1);
  return text;
}

const char* op_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Why:
      return "why";
    case ActionKind::Show:
      return "show";
    case ActionKind::Cancel:
    case ActionKind::Kill:
      return "cancel";
    case ActionKind::Hold:
      return "hold";
    case ActionKind::Release:
      return "release";
    case ActionKind::Retry:
      return "retry";
    case ActionKind::None:
    case ActionKind::Leave:
    case ActionKind::Redraw:
      break;
  }
  return "";
}

class Top {
 public:
  Top(std::unique_ptr<os::Loop> loop, const Place& place, const TopOptions& options)
      : options_(options),
        loop_(std::move(loop)),
        client_(place, Client::Start::IfNeeded),
        asker_(*loop_, client_),
        watch_(*loop_, client_, request(),
               {.on_event = [this](const json& event) { on_event(event); },
                .on_gap =
                    [this](const std::string& words) {
                      snapshot_.trouble = words;
                      draw_soon();
                    },
                .on_failed = [this](const Error& why) { leave(why); }}) {}

  int run() {
    Result<void> watched = loop_->on_signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH},
                                             [this](int signal) { on_signal(signal); });
    if (!watched) return fail(watched.error());
    watched =
        loop_->watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t events) { on_keys(events); });
    if (!watched) return fail(watched.error());
    const view::Style style = style_of(STDOUT_FILENO, options_.output.colour);
    Result<std::unique_ptr<CursesScreen>> screen = CursesScreen::open(style.colour, style.unicode);
    if (!screen) return fail(screen.error());
    screen_ = std::move(*screen);
    state_.readonly = options_.readonly;
    state_.palette = palette_of(options_, screen_->has_colour());
    surface_ = {.columns = style.width,
                .rows = style.height,
                .unicode = screen_->is_unicode(),
                .utc_offset_s = style.utc_offset_s};
    draw();
    watch_.start();
    on_tick();
    if (!code_) {
      const Result<void> ran = loop_->run();
      if (!ran) leave(ran.error());
    }
    screen_.reset();  // beyond this point the terminal is as it was
    if (!last_words_.empty()) say(last_words_);
    return code_.value_or(kSomeFailed);
  }

 private:
  // The coordinator's side.

  void on_event(const json& event) {
    if (!view::take_event(snapshot_, event)) return leave(too_old(client_));
    settle();
    draw_soon();
  }

  void act(const view::TopAction& action) {
    switch (action.kind) {
      case ActionKind::None:
        return;
      case ActionKind::Leave:
        return leave(kOk);
      case ActionKind::Redraw:
        return screen_->forget();
      case ActionKind::Why:
      case ActionKind::Show:
      case ActionKind::Cancel:
      case ActionKind::Kill:
      case ActionKind::Hold:
      case ActionKind::Release:
      case ActionKind::Retry:
        break;
    }
    json selectors = json::array();
    for (const std::int64_t id : action.jobs) selectors.push_back(std::to_string(id));
    asker_.ask({{"op", op_of(action.kind)},
                {"sel", std::move(selectors)},
                {"kill", action.kind == ActionKind::Kill}},
               [this, kind = action.kind](const Result<json>& reply) { on_reply(kind, reply); });
  }

  void on_reply(ActionKind kind, const Result<json>& reply) {
    if (!reply) {
      tell(reply.error().message, view::Tone::Bad);
    } else if (kind == ActionKind::Why || kind == ActionKind::Show) {
      open_page(kind, *reply);
    } else {
      tell(changed_text(kind, *reply), view::Tone::Good);
    }
    settle();
    draw_soon();
  }

  void tell(std::string words, view::Tone tone) {
    state_.message = std::move(words);
    state_.message_tone = tone;
  }

  void open_page(ActionKind kind, const json& reply) {
    if (state_.mode != view::TopState::Mode::Jobs) return;  // the user went on
    const json jobs = reply.value("jobs", json::array());
    if (jobs.empty()) return;
    json job = jobs[0];
    view::TopState::Page page;
    if (kind == ActionKind::Why) {
      page.title = fmt::format("why {} {}", job.value("id", std::int64_t{0}),
                               job.value("name", std::string()));
      page.lines = view::split_lines(job.value("state", std::string()) + ": " +
                                     job.value("why", std::string()));
    } else {
      add_attempts(job, 0);
      view::Style style;
      style.unicode = surface_.unicode;
      style.utc_offset_s = surface_.utc_offset_s;
      page.title = fmt::format("job {}", job.value("id", std::int64_t{0}));
      page.lines = view::split_lines(view::show_text(job, snapshot_.now_ns, style));
    }
    state_.page = std::move(page);
    state_.mode = view::TopState::Mode::Page;
  }

  // The user's side.

  void on_keys(std::uint32_t events) {
    if (!screen_) return;
    while (std::optional<view::TopKey> key = screen_->next_key()) {
      view::TopStep step = view::press(std::move(state_), *key, snapshot_, surface_);
      state_ = std::move(step.state);
      act(step.action);
      if (code_) return;
    }
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) return leave(kHangUp);  // the terminal is gone
    follow_log();
    draw_soon();
  }

  void on_signal(int signal) {
    switch (signal) {
      case SIGINT:
        return leave(kInterrupted);
      case SIGTERM:
        return leave(kTerminated);
      case SIGHUP:
        return leave(kHangUp);
      case SIGTSTP:
        screen_->suspend();
        ::raise(SIGSTOP);
        return;  // SIGCONT follows
      case SIGCONT:
        screen_->resume();
        return on_resize();
      case SIGWINCH:
        return on_resize();
    }
  }

  void on_resize() {
    const os::TerminalSize size = os::terminal_size(STDOUT_FILENO);
    surface_.columns = size.columns;
    surface_.rows = size.rows;
    screen_->resize(size.columns, size.rows);
    settle();
    draw_soon();
  }

  // What is shown.

  void settle() {
    snapshot_.now_ns = clock_.now().wall_ns;
    view::settle(state_, snapshot_, surface_);
    follow_log();
  }

  /// A retry's log is another file of the same name: it is there when the attempt has started.
  void follow_log() {
    const auto job = snapshot_.jobs.find(state_.selected);
    const bool is_shown = job != snapshot_.jobs.end() && state_.log != view::TopState::Log::Hidden;
    const LogKey key =
        is_shown ? LogKey{job->first, job->second.attempt, job->second.started_at} : LogKey{};
    if (key == log_key_) return;
    log_key_ = key;
    reader_.reset();
    snapshot_.log.clear();
    snapshot_.log_of = std::get<0>(key);
    if (!is_shown || job->second.log.empty()) return;
    auto reader = LogReader::create(*loop_, [this](std::string_view bytes) { on_log(bytes); });
    if (!reader) return tell(reader.error().message, view::Tone::Bad);
    reader_ = std::move(*reader);
    const std::string& path = job->second.log;
    const auto kept = static_cast<std::int64_t>(kTopLogKept);
    reader_->follow(path, std::max<std::int64_t>(0, file_size(path) - kept));
  }

  void on_log(std::string_view bytes) {
    snapshot_.log.append(bytes);
    if (snapshot_.log.size() > 2 * kTopLogKept) {
      snapshot_.log.erase(0, snapshot_.log.size() - kTopLogKept);
    }
    draw_soon();
  }

  void on_tick() {
    read_newest(snapshot_);
    settle();
    view::sample(snapshot_);
    draw_soon();
    loop_->at(clock_.now().boot_ns + kSecond, [this] { on_tick(); });
  }

  void draw_soon() {
    if (draw_timer_ != 0 || code_ || !screen_) return;
    draw_timer_ = loop_->at(drawn_at_ns_ + kTopFrame, [this] {
      draw_timer_ = 0;
      draw();
    });
  }

  void draw() {
    drawn_at_ns_ = clock_.now().boot_ns;
    settle();
    screen_->draw(view::draw_top(snapshot_, state_, surface_));
  }

  void leave(const Error& why) {
    last_words_ = "pergpu: " + why.message;
    leave(exit_code_of(why));
  }
  void leave(int code) {
    if (!code_) code_ = code;
    loop_->stop();
  }

  using LogKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // job, attempt, its start

  os::RealClock clock_ = {};
  TopOptions options_;
  std::unique_ptr<os::Loop> loop_;
  Client client_;
  Asker asker_;
  std::unique_ptr<CursesScreen> screen_;
  view::TopSnapshot snapshot_ = {};
  view::TopState state_ = {};
  view::TopSurface surface_ = {};
  std::unique_ptr<LogReader> reader_;
  LogKey log_key_ = {};
  std::int64_t drawn_at_ns_ = 0;
  os::Loop::TimerId draw_timer_ = 0;
  std::optional<int> code_ = std::nullopt;
  std::string last_words_ = {};
  Watch watch_;  // last: its callbacks use the others
};

/// One frame as text, for scripts: as large as the terminal, or $COLUMNS x $LINES.
int print_once(const Place& place, const TopOptions& options) {
  Client client(place, Client::Start::IfNeeded);
  Result<Connection> connection = client.connect();
  if (!connection) return fail(connection.error());
  if (Result<void> sent = connection->send(to_line(request()) + "\n"); !sent) {
    return fail(sent.error());
  }
  const Result<std::string> line = connection->read_line(kFirstAnswer);
  if (!line) return fail(line.error());
  const json event = json::parse(*line, nullptr, false);
  if (event.is_object() && event.contains("ok")) {
    const Result<json> refused = unwrap_reply(*line);
    return fail(refused ? too_old(client) : refused.error());
  }
  view::TopSnapshot snapshot;
  if (!event.is_object() || !view::take_event(snapshot, event)) return fail(too_old(client));
  os::RealClock clock;
  snapshot.now_ns = clock.now().wall_ns;
  read_newest(snapshot);
  view::sample(snapshot);

  const view::Style style = style_of(STDOUT_FILENO, options.output.colour);
  const os::TerminalSize size = os::terminal_size(STDOUT_FILENO);
  const view::TopSurface surface = {.columns = size.columns,
                                    .rows = size.rows,
                                    .unicode = style.unicode,
                                    .utc_offset_s = style.utc_offset_s};
  view::TopState state;
  view::settle(state, snapshot, surface);
  if (const auto job = snapshot.jobs.find(state.selected); job != snapshot.jobs.end()) {
    snapshot.log_of = job->first;
    for (const std::string& text : last_lines(job->second.log, kLogLines, 0, os::Writer::Keeper)) {
      snapshot.log += text + "\n";
    }
  }
  std::vector<std::string> lines = view::draw_top(snapshot, state, surface).lines();
  if (lines.size() > 1) lines.pop_back();  // the keys
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  std::string out;
  for (const std::string& text : lines) out += text + "\n";
  print(out);
  return kOk;
}

bool is_drawable_on() {
  const char* term = std::getenv("TERM");
  const std::string_view type = term ? term : "";
  return os::is_terminal(STDIN_FILENO) && os::is_terminal(STDOUT_FILENO) && !type.empty() &&
         type != "dumb";
}

int top(const TopOptions& options) {
  if (!options.once && !is_drawable_on()) {
    return fail({ErrorKind::Invalid, 0,
                 "top needs a terminal on stdin and stdout, and a TERM that is neither empty nor "
                 "`dumb`; print one frame with `pergpu top --once`"});
  }
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  if (!place->said.empty()) say("pergpu: home is " + place->home + ": " + place->said);
  if (options.once) return print_once(*place, options);
  Result<std::unique_ptr<os::Loop>> loop = os::Loop::create();
  if (!loop) return fail(loop.error());
  Top view(std::move(*loop), *place, options);
  return view.run();
}

}  // namespace

void add_top(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = program.add_subcommand(
      "top", "show lanes, jobs and logs of all sweeps on one screen; control jobs with keys");
  command->add_flag("--once", options->once, "print one frame; needs no terminal");
  command->add_flag("--readonly", options->readonly, "allow no changes to jobs");
  command
      ->add_option("--palette", options->palette,
                   "standard (green, red) or color-blind (blue, yellow)")
      ->check(CLI::IsMember({"standard", "color-blind", "colour-blind"}));
  add_output(*command, options->output, false);
  command->footer("Example:\n  pergpu top --readonly\nPress ? for the list of keys.");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return top(*options); }; });
}

}  // namespace pergpu::cli
