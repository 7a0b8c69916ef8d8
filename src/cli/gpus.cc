// `pergpu gpus`: GPUs and lanes, and who uses each.
#include "view/gpus.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

int gpus(const Output& output) {
  const Result<json> reply = ask({{"op", "gpus"}});
  if (!reply) return fail(reply.error());
  if (output.json) {
    print(output_line(*reply));
    return kOk;
  }
  const view::Devices devices = {
      .gpus = reply->value("gpus", json::array()).get<std::vector<GpuSnapshot>>(),
      .lanes = reply->value("lanes", json::array()).get<std::vector<LaneSnapshot>>(),
      .trouble = reply->value("trouble", std::string()),
      .cpu_lanes = reply->value("cpu_lanes", std::int64_t{0})};
  print(view::gpus_table(devices, style_of(STDOUT_FILENO, output.colour)));
  return kOk;
}

}  // namespace

void add_gpus(CLI::App& program, Invocation& invocation) {
  auto output = std::make_shared<Output>();
  CLI::App* command = program.add_subcommand("gpus", "GPUs and lanes: who uses each");
  add_output(*command, *output);
  command->footer("Example:\n  pergpu gpus --json");
  command->callback(
      [output, &invocation] { invocation.action = [output] { return gpus(*output); }; });
}

}  // namespace pergpu::cli
