// What every command file gives: one function that describes its options to CLI11 and leaves behind
// what to do.  main() calls them all, lets CLI11 parse, then does it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/client/client.h"
#include "cli/term/messages.h"
#include "result.h"
#include "view/text/style.h"

namespace CLI {
class App;
}

namespace pergpu::cli {

/// The command line as main() found it, and what is to be done.
struct Invocation {
  bool has_words = false;               // there was a `--`
  std::vector<std::string> words = {};  // what followed it: belongs to the job, never parsed by us
  std::function<int()> action = {};     // returns the exit code
};

void add_run(CLI::App& program, Invocation& invocation);
void add_submit(CLI::App& program, Invocation& invocation);
void add_attach(CLI::App& program, Invocation& invocation);
void add_ps(CLI::App& program, Invocation& invocation);
void add_show(CLI::App& program, Invocation& invocation);
void add_why(CLI::App& program, Invocation& invocation);
void add_logs(CLI::App& program, Invocation& invocation);
void add_control(CLI::App& program, Invocation& invocation);  // cancel hold release retry
void add_wait(CLI::App& program, Invocation& invocation);
void add_clean(CLI::App& program, Invocation& invocation);
void add_plan(CLI::App& program, Invocation& invocation);
void add_gpus(CLI::App& program, Invocation& invocation);
void add_doctor(CLI::App& program, Invocation& invocation);
void add_export(CLI::App& program, Invocation& invocation);
void add_report(CLI::App& program, Invocation& invocation);
void add_top(CLI::App& program, Invocation& invocation);
void add_serve(CLI::App& program, Invocation& invocation);
void add_schema(CLI::App& program, Invocation& invocation);
void add_completions(CLI::App& program, Invocation& invocation);
void add_coordinator(CLI::App& program, Invocation& invocation);
void add_notify(CLI::App& program, Invocation& invocation);
void add_probe(CLI::App& program, Invocation& invocation);
void add_stacks(CLI::App& program, Invocation& invocation);
void add_slurm_task(CLI::App& program, Invocation& invocation);

/// Options of every command that prints.
struct Output {
  bool json = false;
  std::string colour = "auto";
  bool no_bell = false;  // of commands that follow
  bool no_osc = false;
};
void add_output(CLI::App& command, Output& output, bool with_json = true);
/// Of commands that follow: which signs the terminal gets.
void add_signs(CLI::App& command, Output& output);

/// The selectors, as typed.
void add_selectors(CLI::App& command, std::vector<std::string>& selectors);

/// What main() checks before CLI11 sees the command line.
const std::vector<std::string>& command_names();
/// The last ones of these are for the coordinator and for shells, not for people.
inline constexpr std::size_t kHiddenCommands = 4;

/// One request of a command: connects, starts a coordinator if need be, says where the home is when
/// that is news.
Result<nlohmann::json> ask(const nlohmann::json& request,
                           Client::Start start = Client::Start::IfNeeded);

}  // namespace pergpu::cli
