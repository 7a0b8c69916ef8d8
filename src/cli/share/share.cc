// `pergpu share list | drop KEY`: the memory that jobs share (docs/share.md).  Neither command
// starts a coordinator: there is nothing that one that was just started could hold.
#include "cli/share/share.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/share/segments.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "os/clock.h"
#include "view/commands/segments.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

int list(const Output& output) {
  const Result<Place> place = find_place();
  if (!place) return fail(place.error());
  const std::vector<view::Segment> segments = find_segments(*place);
  if (output.json) {
    std::uint64_t bytes = 0;
    for (const view::Segment& segment : segments) bytes += segment.bytes;
    print(output_line(
        {{"schema", 1}, {"segments", view::segments_json(segments)}, {"bytes", bytes}}));
    return kOk;
  }
  if (segments.empty()) {
    say("no memory is shared");
    return kOk;
  }
  os::RealClock clock;
  print(view::segments_text(segments, clock.now().wall_ns, style_of(STDOUT_FILENO, output.colour)));
  return kOk;
}

int drop(const std::string& key, bool as_json) {
  const Result<Place> place = find_place();
  if (!place) return fail(place.error());
  const Result<json> answer = ask_meeting_place(*place, {{"op", "drop"}, {"what", key}});
  const bool is_absent = !answer && answer.error().kind == ErrorKind::NotFound;
  if (!answer && !is_absent) return fail(answer.error());
  const auto names =
      is_absent ? std::vector<std::string>() : answer->value("names", std::vector<std::string>());
  if (names.empty()) {
    return fail(
        {ErrorKind::NotFound, 0,
         fmt::format("no memory is held under the key `{}`{}; `pergpu share list` lists the keys",
                     key, is_absent ? " (no coordinator is running)" : "")});
  }
  if (as_json) {
    print(output_line({{"schema", 1}, {"dropped", names}}));
  } else {
    say(fmt::format("dropped `{}`; it is freed when the last process that uses it ends", key));
  }
  return kOk;
}

}  // namespace

void add_share(CLI::App& program, Invocation& invocation) {
  CLI::App* command = program.add_subcommand("share", "list or drop memory that jobs share");
  command->require_subcommand(1);
  command->footer("Example:\n  pergpu share list");

  auto output = std::make_shared<Output>();
  CLI::App* list_command =
      command->add_subcommand("list", "list shared memory: size, users and lifetime");
  add_output(*list_command, *output);
  list_command->footer("Example:\n  pergpu share list --json");
  list_command->callback(
      [output, &invocation] { invocation.action = [output] { return list(*output); }; });

  auto key = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  CLI::App* drop_command = command->add_subcommand(
      "drop", "stop holding it; processes that use it keep it until they end");
  drop_command->add_option("KEY", *key, "key or name of the memory (see share list --json)")
      ->required();
  drop_command->add_flag("--json", *as_json, "print one JSON value to stdout");
  drop_command->footer("Example:\n  pergpu share drop tokens");
  drop_command->callback([key, as_json, &invocation] {
    invocation.action = [key, as_json] { return drop(*key, *as_json); };
  });
}

}  // namespace pergpu::cli
