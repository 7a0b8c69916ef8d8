// `pergpu gpus`: GPUs and lanes, and who uses each; --release ends a quarantine.
#include "view/commands/gpus.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"

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

int release(const std::string& list, const Output& output) {
  const Result<json> reply = ask({{"op", "gpus"}, {"release", list}});
  if (!reply) return fail(reply.error());
  if (output.json) {
    print(output_line(*reply));
    return kOk;
  }
  for (const std::string& uuid : reply->value("released", std::vector<std::string>())) {
    print("released: " + uuid + "\n");
  }
  return kOk;
}

}  // namespace

void add_gpus(CLI::App& program, Invocation& invocation) {
  auto output = std::make_shared<Output>();
  CLI::App* command =
      program.add_subcommand("gpus", "list GPUs and lanes, and which job or process uses each");
  add_output(*command, *output);
  auto released = std::make_shared<std::string>();
  command
      ->add_option("--release", *released,
                   "use quarantined GPUs again: numbers or UUID prefixes, such as 0,GPU-5a")
      ->type_name("GPUS");
  command->footer("Examples:\n  pergpu gpus --json\n  pergpu gpus --release 3");
  command->callback([output, released, &invocation] {
    invocation.action = [output, released] {
      return released->empty() ? gpus(*output) : release(*released, *output);
    };
  });
}

}  // namespace pergpu::cli
