// pergpu: argv -> command -> exit code.  This file reads top to bottom; each command has its own
// file (cli/command/command.h lists them).
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "cli/build_facts.h"
#include "cli/care/store.h"
#include "cli/command/command.h"
#include "cli/command/usage.h"
#include "cli/complete/complete.h"
#include "cli/jobs/overview.h"
#include "cli/share/share.h"
#include "cli/term/exit_code.h"
#include "cli/term/standard_output.h"
#include "os/process/process_attributes.h"
#include "version.h"

using namespace pergpu::cli;

namespace {

int run_program(std::vector<std::string> words) {
  // A mistyped command is an error that names the nearest one, never a job.
  Invocation invocation;
  if (const std::string mistake = mistyped_command(words); !mistake.empty()) {
    say("pergpu: " + mistake);
    return kUsage;
  }

  if (words.empty()) return overview();

  // What follows `--` belongs to the job: CLI11 never sees it.
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (takes_command_line(words) && dashes != words.end()) {
    invocation.has_words = true;
    invocation.words.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }

  CLI::App program("pergpu: many training jobs, one machine, one GPU each", "pergpu");
  program.set_version_flag("--version", std::string("pergpu " PERGPU_VERSION " (commit ") +
                                            kBuildCommit + ", " + kBuildTarget + ")");
  program.require_subcommand(1);
  program.footer(
      "Example:\n  pergpu run thirteen.toml\nFor an example of each command, run `pergpu COMMAND "
      "--help`.");
  for (const auto add :
       {add_run,         add_submit,      add_attach, add_ps,     add_show,   add_why,
        add_logs,        add_control,     add_wait,   add_clean,  add_plan,   add_gpus,
        add_schema,      add_completions, add_top,    add_export, add_report, add_doctor,
        add_coordinator, add_store,       add_notify, add_serve,  add_share,  add_probe,
        add_stacks,      add_slurm_task}) {
    add(program, invocation);
  }

  // Words that are not yet complete are no command line: only looked at.
  if (!words.empty() && words.front() == "complete") {
    return complete(program, {words.begin() + 1, words.end()});
  }

  // CLI11 takes the words last to first, and reports --help and mistakes by throwing.
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    program.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return explain_usage(program, error, words);
  }
  return invocation.action ? invocation.action() : static_cast<int>(kUsage);
}

}  // namespace

int main(int argc, char** argv) {
  pergpu::os::remember_signals();  // jobs get those of the shell, not ours
  reserve_standard_streams();
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a write that the limit forbids fails, and is reported
  int code = kSomeFailed;
  try {
    code = run_program(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    say(std::string("pergpu: internal error: ") + error.what());
  }
  return standard_output().finish(code);
}
