// The little that all commands share.
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/exit_code.h"
#include "cli/standard_output.h"
#include "view/escape.h"
#include "view/long_text.h"

namespace pergpu::cli {

const std::vector<std::string>& command_names() {
  static const std::vector<std::string> names = {
      "run",    "submit",  "attach", "ps",     "show",   "why",         "logs",    "cancel",
      "hold",   "release", "retry",  "set",    "wait",   "clean",       "plan",    "gpus",
      "schema", "top",     "export", "report", "doctor", "coordinator", "store",   "completions",
      "notify", "serve",   "share",  "probe",  "stacks", "slurm-task",  "complete"};
  return names;
}

void add_output(CLI::App& command, Output& output, bool with_json) {
  if (with_json) command.add_flag("--json", output.json, "print one JSON value to stdout");
  command.add_option("--color", output.colour, "auto, always or never (also NO_COLOR)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

void add_signs(CLI::App& command, Output& output) {
  command.add_flag("--no-bell", output.no_bell, "don't ring the bell at the end");
  command.add_flag("--no-osc", output.no_osc,
                   "don't show progress in the terminal's tab or task bar");
}

void add_selectors(CLI::App& command, std::vector<std::string>& selectors) {
  command.add_option("SEL", selectors,
                     "17 | SWEEP | SWEEP/RUN | SWEEP/RUN/STEP; * matches any; @ is the last sweep");
}

bool print(std::string_view data) { return standard_output().write(data); }

void say(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out += view::safe_line(view::short_line(text.substr(0, end))) + "\n";
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  std::fwrite(out.data(), 1, out.size(), stderr);
}

int fail(const Error& error) {
  say("pergpu: " + error.message);
  return exit_code_of(error);
}

Result<nlohmann::json> ask(const nlohmann::json& request, Client::Start start) {
  Result<Place> place = find_place();
  if (!place) return std::move(place).error();
  if (!place->said.empty()) say("pergpu: home is " + place->home + ": " + place->said);
  Client client(std::move(*place), start);
  return client.call(request);
}

}  // namespace pergpu::cli
