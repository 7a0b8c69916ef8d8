// `pergpu ps`: jobs, one a line.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/snapshot.h"
#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "os/clock.h"
#include "view/commands/jobs.h"

namespace pergpu::cli {
namespace {

struct PsOptions {
  Output output;
  std::vector<std::string> selectors;
  bool all = false;
  bool quiet = false;
};

int ps(const PsOptions& options) {
  const Result<nlohmann::json> reply =
      ask({{"op", "ps"}, {"sel", options.selectors}, {"all", options.all}, {"older", true}});
  if (!reply) return fail(reply.error());
  if (options.output.json) {
    print(output_line(*reply));
    return kOk;
  }
  const auto jobs = reply->value("jobs", nlohmann::json::array()).get<std::vector<JobSnapshot>>();
  if (options.quiet) {
    std::string ids;
    for (const JobSnapshot& job : jobs) ids += fmt::format("{}\n", job.id);
    print(ids);
    return kOk;
  }
  if (jobs.empty() && options.selectors.empty()) {
    say(options.all ? "no jobs yet" : "no job is queued or running; `pergpu ps -a` shows all");
    return kOk;
  }
  os::RealClock clock;
  print(view::ps_table(jobs, clock.now().wall_ns, style_of(STDOUT_FILENO, options.output.colour)));
  return kOk;
}

}  // namespace

void add_ps(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<PsOptions>();
  CLI::App* command =
      program.add_subcommand("ps", "list the queued and running jobs of all sweeps");
  command->add_flag("-a,--all", options->all, "list ended jobs too");
  command->add_flag("-q,--quiet", options->quiet, "print only job numbers");
  add_selectors(*command, options->selectors);
  add_output(*command, options->output);
  command->footer("Example:\n  pergpu ps -a 'thirteen/*/train'");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return ps(*options); }; });
}

}  // namespace pergpu::cli
