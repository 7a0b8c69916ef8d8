// `pergpu cancel`, `hold`, `release`, `retry` and `set`: requests that name jobs and say what
// should become of them.  They return when the coordinator has recorded it, not when the processes
// are gone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "spec/settings.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string verb;
  std::string done;  // "cancelled"
  std::string rule;  // which jobs it can change
  Output output;
  bool failed = false;
  bool kill = false;
  bool queued = false;
  std::vector<std::string> selectors;
};

/// "; 1, 4 are running, 2 is done; only queued jobs can be held"
std::string left_text(const json& left, const std::string& rule) {
  constexpr std::size_t kNamed = 5;
  std::map<std::string, std::vector<std::int64_t>> by_state;
  for (const json& job : left) {
    const bool replaced = job.value("replaced", false);
    by_state[replaced ? "replaced by a newer version" : job.value("state", std::string())]
        .push_back(job.value("id", std::int64_t{0}));
  }
  std::string text;
  for (const auto& [state, ids] : by_state) {
    text += text.empty() ? "; " : ", ";
    for (std::size_t i = 0; i < std::min(ids.size(), kNamed); ++i) {
      text += fmt::format("{}{}", i > 0 ? ", " : "", ids[i]);
    }
    if (ids.size() > kNamed) text += fmt::format(" and {} more", ids.size() - kNamed);
    text += (ids.size() == 1 ? " is " : " are ") + state;
  }
  return text.empty() ? text : text + "; " + rule;
}

int tell(const Options& options, const json& request) {
  const Result<json> reply = ask(request);
  if (!reply) return fail(reply.error());
  if (options.output.json) {
    print(output_line(*reply));
    return kOk;
  }
  const std::size_t changed = reply->value("changed", json::array()).size();
  std::string text = fmt::format("{} {}{}", options.done, changed, changed == 1 ? " job" : " jobs");
  text += left_text(reply->value("left", json::array()), options.rule);
  say(text);
  return kOk;
}

int control(const Options& options) {
  return tell(options, {{"op", options.verb},
                        {"sel", options.selectors},
                        {"failed", options.failed},
                        {"kill", options.kill},
                        {"queued", options.queued}});
}

int cancel_jobs(Options options) {
  if (options.queued && options.kill) {
    return fail({ErrorKind::Invalid, 0, "--queued leaves what runs and --kill ends it at once"});
  }
  if (options.queued) options.rule = "with --queued only what has not started is cancelled";
  return control(options);
}

/// The words that look like KEY=VALUE say what to set, the others name jobs.
int set(Options options) {
  std::vector<std::string> words;
  for (const std::string& word : options.selectors) {
    if (is_setting(word)) words.push_back(word);
  }
  std::erase_if(options.selectors, is_setting);
  if (const Result<Settings> settings = settings_of(words); !settings) {
    return fail(settings.error());
  }
  return tell(options, {{"op", options.verb}, {"sel", options.selectors}, {"set", words}});
}

CLI::App* add(CLI::App& program, Invocation& invocation, const char* verb, const char* done,
              const char* rule, const char* summary, std::shared_ptr<Options>& options) {
  options = std::make_shared<Options>();
  options->verb = verb;
  options->done = done;
  options->rule = rule;
  CLI::App* command = program.add_subcommand(verb, summary);
  add_selectors(*command, options->selectors);
  add_output(*command, options->output);
  command->callback(
      [options, &invocation] { invocation.action = [options] { return control(*options); }; });
  return command;
}

}  // namespace

void add_control(CLI::App& program, Invocation& invocation) {
  std::shared_ptr<Options> options;
  CLI::App* cancel =
      add(program, invocation, "cancel", "cancelled", "what has ended cannot be cancelled",
          "end jobs: SIGTERM, their grace, SIGKILL", options);
  cancel->get_option("SEL")->required();
  cancel->add_flag("--kill", options->kill, "SIGKILL at once");
  cancel->add_flag("--queued", options->queued, "only what has not started; what runs goes on");
  cancel->footer("Examples:\n  pergpu cancel thirteen\n  pergpu cancel --queued thirteen");
  cancel->callback(
      [options, &invocation] { invocation.action = [options] { return cancel_jobs(*options); }; });

  CLI::App* hold = add(program, invocation, "hold", "held", "only queued jobs can be held",
                       "let queued jobs wait until they are released", options);
  hold->get_option("SEL")->required();
  hold->footer("Example:\n  pergpu hold 'thirteen/*/evaluate'");

  CLI::App* release = add(program, invocation, "release", "released",
                          "only held jobs can be released", "queue held jobs again", options);
  release->get_option("SEL")->required();
  release->footer("Example:\n  pergpu release thirteen");

  CLI::App* retry = add(program, invocation, "retry", "queued again",
                        "only what ended otherwise than done is run again (all: run --rerun)",
                        "run ended jobs again, with fresh retries", options);
  retry->add_flag("--failed", options->failed,
                  "only those that failed; without SEL, of the last sweep");
  retry->footer("Example:\n  pergpu retry --failed thirteen");

  CLI::App* change =
      add(program, invocation, "set", "changed", "what has ended cannot be changed",
          "change priority, weight, max_parallel or lanes of what has not ended", options);
  change->get_option("SEL")->required()->description(
      "jobs, as SWEEP or SWEEP/*/STEP; then priority=N, weight=N|none, max_parallel=N|none, "
      "lanes=N");
  change->callback(
      [options, &invocation] { invocation.action = [options] { return set(*options); }; });
  change->footer("Example:\n  pergpu set 'thirteen/*/train' priority=10 max_parallel=4");
}

}  // namespace pergpu::cli
