// `pergpu cancel`, `hold`, `release` and `retry`: requests that name jobs and say what should
// become of them.  They return when the coordinator has recorded it, not when the processes are
// gone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/exit_code.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string verb;
  std::string done;  // "cancelled"
  bool json = false;
  bool failed = false;
  bool kill = false;
  std::vector<std::string> selectors;
};

int control(const Options& options) {
  const Result<json> reply = ask({{"op", options.verb},
                                  {"sel", options.selectors},
                                  {"failed", options.failed},
                                  {"kill", options.kill}});
  if (!reply) return fail(reply.error());
  if (options.json) {
    print(to_line(*reply) + "\n");
    return kOk;
  }
  const std::size_t changed = reply->value("changed", json::array()).size();
  const std::size_t unchanged = reply->value("unchanged", json::array()).size();
  std::string text = fmt::format("{} {}{}", options.done, changed, changed == 1 ? " job" : " jobs");
  if (unchanged > 0)
    text += fmt::format(", {} left as they are (`pergpu why` says why)", unchanged);
  say(text);
  return kOk;
}

CLI::App* add(CLI::App& program, Invocation& invocation, const char* verb, const char* done,
              const char* summary, std::shared_ptr<Options>& options) {
  options = std::make_shared<Options>();
  options->verb = verb;
  options->done = done;
  CLI::App* command = program.add_subcommand(verb, summary);
  add_selectors(*command, options->selectors);
  command->add_flag("--json", options->json, "one JSON value on stdout");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return control(*options); }; });
  return command;
}

}  // namespace

void add_control(CLI::App& program, Invocation& invocation) {
  std::shared_ptr<Options> options;
  CLI::App* cancel = add(program, invocation, "cancel", "cancelled",
                         "end jobs: SIGTERM, their grace, SIGKILL", options);
  cancel->get_option("SEL")->required();
  cancel->add_flag("--kill", options->kill, "SIGKILL at once");
  cancel->footer("Example:\n  pergpu cancel thirteen");

  CLI::App* hold = add(program, invocation, "hold", "held",
                       "let queued jobs wait until they are released", options);
  hold->get_option("SEL")->required();
  hold->footer("Example:\n  pergpu hold 'thirteen/*/evaluate'");

  CLI::App* release =
      add(program, invocation, "release", "released", "queue held jobs again", options);
  release->get_option("SEL")->required();
  release->footer("Example:\n  pergpu release thirteen");

  CLI::App* retry = add(program, invocation, "retry", "queued again",
                        "run ended jobs again, with fresh retries", options);
  retry->add_flag("--failed", options->failed,
                  "only those that failed; without SEL, of the last sweep");
  retry->footer("Example:\n  pergpu retry --failed thirteen");
}

}  // namespace pergpu::cli
