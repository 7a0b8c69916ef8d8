// `pergpu notify test`: a message through each channel of a sweep file, and what came back.  The
// hidden `notify send` is the coordinator's helper (notify/messenger.h): a request on stdin, one
// line on stdout.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command/command.h"
#include "cli/job_files/result_files.h"
#include "cli/notify/notify_channel.h"
#include "cli/term/exit_code.h"
#include "os/clock.h"
#include "os/fs/file.h"
#include "os/process/spawn.h"
#include "run/environment.h"
#include "spec/schema/load.h"
#include "spec/tree/diagnostics.h"
#include "view/export/notice.h"
#include "view/text/escape.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostEnvironment = 64u << 20;
constexpr std::size_t kMostRequest = 64u << 20;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this machine";
}

std::string read_stdin() {
  std::string all;
  std::array<char, 65536> piece;
  while (all.size() < kMostRequest) {
    const ssize_t n = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (n <= 0) break;
    all.append(piece.data(), static_cast<std::size_t>(n));
  }
  return all;
}

Result<Environment> environment_of(const std::string& file) {
  const Result<std::string> text = os::read_file(file, kMostEnvironment);
  if (!text)
    return Error{ErrorKind::NotFound, 0,
                 "can't read the environment of the submit: " + text.error().message};
  return entries_of(*text);
}

Error broken_request(const std::string& why) {
  return Error{ErrorKind::Corrupt, 0, "can't parse the request: " + why};
}

Result<NotifyChannel> channel_of(const json& object) {
  const auto kind = notify_kind_of(object.value("kind", std::string()));
  if (!kind) return broken_request("unknown kind of channel");
  NotifyChannel channel{
      .kind = *kind,
      .command = object.value("command", std::vector<std::string>()),
      .target = object.value("target", std::string()),
      .token = object.value("token", std::string()),
      .timeout = std::chrono::milliseconds(object.value("timeout_ms", kUsualHookTime.count()))};
  const bool is_command = *kind == NotifyChannel::Kind::Command;
  if (is_command && channel.command.empty()) return broken_request("an empty command");
  return channel;
}

Result<std::string> send(const std::string& text) {
  const json request = json::parse(text, nullptr, false);
  if (!request.is_object()) return broken_request("not a JSON object");
  const Result<NotifyChannel> channel = channel_of(request.value("channel", json::object()));
  if (!channel) return channel.error();
  Result<view::Notice> notice = view::notice_of(request.value("notice", json()));
  if (!notice) return std::move(notice).error();
  notice->host = host_name();
  const Result<Environment> environment = environment_of(request.value("env_file", std::string()));
  if (!environment) return environment.error();
  const view::Message message = view::message_of(*notice, read_metrics(notice->jobs));
  return send_notice(*channel, request.value("folder", std::string("/")), *environment, *notice,
                     message);
}

int send_request() {
  const Result<std::string> sent = send(read_stdin());
  print(output_line(
      {{"ok", static_cast<bool>(sent)}, {"said", sent ? *sent : sent.error().message}}));
  return kOk;
}

/// Of the sweep that was submitted last.
Result<std::string> last_file() {
  const Result<json> reply = ask({{"op", "show"}, {"sel", json::array({"@/0"})}});
  if (!reply) return reply.error();
  for (const json& job : reply->value("jobs", json::array())) {
    std::string file = job.value("file", std::string());
    if (!file.empty()) return file;
  }
  return Error{ErrorKind::Invalid, 0,
               "the last sweep has no sweep file; name one: pergpu notify test sweep.toml"};
}

struct TestOptions {
  std::string file;
  bool json = false;
};

int test(TestOptions options) {
  if (options.file.empty()) {
    Result<std::string> last = last_file();
    if (!last) return fail(last.error());
    options.file = *std::move(last);
  }
  const ParsedSweep parsed = load_sweep(options.file);
  if (!parsed.sweep) {
    say(to_text(parsed.diagnostics));
    return kUsage;
  }
  const std::vector<NotifyChannel> channels = channels_of(parsed.sweep->notify);
  if (channels.empty())
    return fail({ErrorKind::Invalid, 0,
                 options.file + " has no [notify] section (docs/notifications.md has an example)"});
  os::RealClock clock;
  view::Notice notice{.events = {"test"}, .file = parsed.sweep->file, .host = host_name()};
  notice.sweep.name = parsed.sweep->name;
  notice.submitted_at = clock.now().wall_ns;
  const view::Message message = view::message_of(notice, {});
  const Environment environment = os::own_environment();
  json told = json::array();
  bool all_arrived = true;
  for (const NotifyChannel& channel : channels) {
    const Result<std::string> sent =
        send_notice(channel, parsed.sweep->folder, environment, notice, message);
    all_arrived = all_arrived && sent;
    const std::string& said = sent ? *sent : sent.error().message;
    told.push_back({{"channel", shown(channel)},
                    {"kind", to_string(channel.kind)},
                    {"ok", static_cast<bool>(sent)},
                    {"said", said}});
    if (!options.json)
      print(fmt::format("{}: {}: {}\n", view::safe_line(shown(channel)), sent ? "sent" : "not sent",
                        view::safe_line(said)));
  }
  if (options.json)
    print(output_line({{"schema", 1}, {"file", parsed.sweep->file}, {"channels", told}}));
  return all_arrived ? kOk : kSomeFailed;
}

}  // namespace

void add_notify(CLI::App& program, Invocation& invocation) {
  CLI::App* command = program.add_subcommand("notify", "test the notifications of a sweep file");
  command->require_subcommand(1);
  command->footer("Example:\n  pergpu notify test thirteen.toml");

  auto options = std::make_shared<TestOptions>();
  CLI::App* test_command = command->add_subcommand(
      "test", "send a test message through each channel and print the replies");
  test_command->add_option("SWEEP", options->file, "sweep file (default: that of the last sweep)");
  test_command->add_flag("--json", options->json, "print one JSON value to stdout");
  test_command->footer("Example:\n  pergpu notify test thirteen.toml");
  test_command->callback(
      [options, &invocation] { invocation.action = [options] { return test(*options); }; });

  CLI::App* send_command =
      command->add_subcommand("send", "send the notification on stdin")->group("");
  send_command->callback([&invocation] { invocation.action = send_request; });
}

}  // namespace pergpu::cli
