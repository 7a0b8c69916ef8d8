// `pergpu run`, `submit` and `attach`: read the sweep, hand it over, watch it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command/command.h"
#include "cli/follow/follow.h"
#include "cli/notify/notify_channel.h"
#include "cli/submit/code_copy.h"
#include "cli/submit/dry_run.h"
#include "cli/submit/run_options.h"
#include "cli/submit/submit.h"
#include "cli/submit/submit_checks.h"
#include "cli/submit/submit_context.h"
#include "cli/term/exit_code.h"
#include "os/clock.h"
#include "os/process/spawn.h"
#include "spec/schema/emit.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

int run(const RunOptions& options) {
  // What is wrong with the sweep is said before anything is started, the coordinator included.
  Result<SweepSpec> sweep = sweep_of(options);
  if (!sweep) {
    say(sweep.error().message);
    return kUsage;
  }
  if (options.emit) {
    const Result<std::string> text = emit_toml(*sweep);
    if (!text) return fail(text.error());
    print(*text);
    return kOk;
  }
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  if (options.dry_run) return dry_run(*place, *sweep, options);
  if (!place->said.empty()) say("pergpu: home is " + place->home + ": " + place->said);
  if (options.engine.empty() || options.engine == "local") {
    if (Result<void> may = check_results_folder(*sweep); !may) return fail(may.error());
    // How a single job ends is printed in a moment.
    if (options.detach || !options.names_one_job(*sweep)) {
      for (const std::string& warning : program_warnings(*sweep, os::own_environment()))
        say("warning: " + warning);
    }
  }
  if (const std::string warning = slurm_warning(os::own_environment());
      options.engine == kSlurm && !warning.empty()) {
    say("warning: " + warning);
  }
  const Result<std::vector<std::string>> untold = check_notify(*sweep, os::own_environment());
  if (!untold) return fail(untold.error());
  for (const std::string& warning : *untold) say("warning: " + warning);

  const Result<SubmitContext> context = context_of(options, *sweep);
  if (!context) return fail(context.error());
  const CodeSite site{.home = place->home, .is_remote = context->engine == kSlurm};
  if (Result<void> copied = copy_code(*sweep, site); !copied) return fail(copied.error());
  const std::int64_t began_ns = os::RealClock().now().wall_ns;
  Client client(*place, Client::Start::IfNeeded);
  if (const std::string lacked = client.replace_weaker(*context); !lacked.empty()) {
    say(
        fmt::format("replaced the coordinator by one from this shell, because the old one would "
                    "give jobs {}; running jobs continue",
                    lacked));
  }
  Result<SubmitReply> reply = submit(client, *sweep, *context);
  if (!reply) return fail(reply.error());
  if (Result<void> found = find_copies(*sweep); !found) return fail(found.error());
  for (const std::string& warning : reply->warnings) say("warning: " + warning);
  if (options.detach) {
    print(options.output.json ? output_line(json(*reply))
                              : fmt::format("sweep {} {}\n", reply->sweep_id, reply_text(*reply)));
    return kOk;
  }
  if (options.names_one_job(*sweep)) {
    return follow_single(*place, reply->sweep_id, options.output);
  }
  say(reply_text(*reply));
  return follow_sweep(*place, reply->sweep_id, began_ns, options.output);
}

struct AttachOptions {
  Output output;
  std::string selector = "@";
};

/// The sweep that a selector's jobs belong to.
int attach(const AttachOptions& options) {
  const Result<json> jobs =
      ask({{"op", "ps"}, {"sel", json::array({options.selector})}, {"all", true}});
  if (!jobs) return fail(jobs.error());
  const auto found = jobs->value("jobs", json::array()).get<std::vector<JobSnapshot>>();
  if (found.empty()) {
    return fail({ErrorKind::NotFound, 0, options.selector + " matches no job"});
  }
  for (const JobSnapshot& job : found) {
    if (job.sweep_id != found.front().sweep_id) {
      return fail({ErrorKind::Invalid, 0,
                   fmt::format("{} matches jobs of {} and of {}; attach to one sweep",
                               options.selector, found.front().sweep, job.sweep)});
    }
  }
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  return follow_sweep(*place, found.front().sweep_id, os::RealClock().now().wall_ns,
                      options.output);
}

std::shared_ptr<RunOptions> add(CLI::App& program, Invocation& invocation, const char* name,
                                const char* summary, bool detach, CLI::App** command) {
  auto options = std::make_shared<RunOptions>();
  options->detach = detach;
  *command = program.add_subcommand(name, summary);
  add_run_options(**command, *options);
  (*command)->callback([options, &invocation] {
    options->has_words = invocation.has_words;
    options->words = invocation.words;
    invocation.action = [options] { return run(*options); };
  });
  return options;
}

}  // namespace

void add_run(CLI::App& program, Invocation& invocation) {
  CLI::App* command = nullptr;
  const auto options = add(program, invocation, "run", "submit a sweep and follow it until it ends",
                           false, &command);
  command->add_flag("--detach", options->detach, "submit without following");
  add_signs(*command, options->output);
  command->footer(
      "Examples:\n"
      "  pergpu run thirteen.toml --lanes 8\n"
      "  pergpu run --gpus 1 -g lr=1e-3,1e-4 -- python3 train.py --lr {lr}\n"
      "  pergpu run -- gzip -k ::: a.txt b.txt\n"
      "Ctrl-C holds queued jobs, a second Ctrl-C stops running jobs; q detaches, and jobs keep "
      "running.");
}

void add_submit(CLI::App& program, Invocation& invocation) {
  CLI::App* command = nullptr;
  add(program, invocation, "submit", "submit a sweep without following it (same as run --detach)",
      true, &command);
  command->footer("Example:\n  pergpu submit thirteen.toml --json");
}

void add_attach(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<AttachOptions>();
  CLI::App* command = program.add_subcommand("attach", "follow a sweep again");
  command->add_option("SEL", options->selector,
                      "a sweep, @ (the last sweep), or any job of the sweep");
  add_output(*command, options->output);
  add_signs(*command, options->output);
  command->footer("Example:\n  pergpu attach thirteen");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return attach(*options); }; });
}

}  // namespace pergpu::cli
