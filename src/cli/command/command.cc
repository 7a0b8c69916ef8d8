// The little that all commands share.
#include "cli/command/command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

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

Result<nlohmann::json> ask(const nlohmann::json& request, Client::Start start) {
  Result<Place> place = find_place();
  if (!place) return std::move(place).error();
  if (!place->said.empty()) say("pergpu: home is " + place->home + ": " + place->said);
  Client client(std::move(*place), start);
  return client.call(request);
}

}  // namespace pergpu::cli
