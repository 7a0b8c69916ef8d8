// `pergpu cancel`, `hold`, `release`, `retry` and `set`: requests that name jobs and say what
// should become of them.  They return when the coordinator has recorded it, not when the processes
// are gone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/snapshot.h"
#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "duration.h"
#include "os/fs/file.h"
#include "plural.h"
#include "spec/schema/settings.h"
#include "view/text/shell_words.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct ControlOptions {
  std::string verb;
  std::string done;  // "cancelled"
  std::string rule;  // which jobs it can change
  Output output;
  bool failed = false;
  bool kill = false;
  bool queued = false;
  std::vector<std::string> selectors;
};

/// "13 (thirteen/12)": the number of the job, and the run by its index.
std::string named(const json& job) {
  const std::string name = job.value("name", std::string());
  const std::int64_t id = job.value("id", std::int64_t{0});
  return name.empty() ? std::to_string(id) : fmt::format("{} ({})", id, name);
}

/// " of sweep act", " of 3 sweeps"; "": a coordinator of another version has not said it.
std::string of_sweeps(const json& reply) {
  const json sweeps = reply.value("sweeps", json::array());
  if (sweeps.size() == 1) return " of sweep " + sweeps[0].get<std::string>();
  return sweeps.empty() ? "" : fmt::format(" of {} sweeps", sweeps.size());
}

/// "cancelled job 13 (thirteen/12)", "held 3 jobs: 2 (act/1), 3 (act/2), 4 (act/3)", "held 9 jobs
/// of sweep act"
std::string changed_text(const std::string& done, const json& reply) {
  constexpr std::size_t kNamed = 4;
  const std::size_t changed = reply.value("changed", json::array()).size();
  const json names = reply.value("named", json::array());
  if (changed == 1 && names.size() == 1) return fmt::format("{} job {}", done, named(names[0]));
  std::string text = fmt::format("{} {}", done, counted(changed, "job"));
  if (changed == 0 || changed > kNamed || names.size() != changed) return text + of_sweeps(reply);
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? ": " : ", ") + named(names[i]);
  return text;
}

bool is_live(const std::string& state) {
  return state == "starting" || state == "running" || state == "stopping";
}

bool is_waiting(const std::string& state) { return state == "queued" || state == "held"; }

/// "running", "running (an older version)", "already done", "replaced by a newer version"
std::string left_state(const std::string& state, bool replaced) {
  if (replaced)
    return is_live(state) ? state + " (an older version)" : "replaced by a newer version";
  if (is_live(state) || is_waiting(state)) return state;
  return "already " + (state == "timeout" ? "timed out" : state);
}

/// "; jobs 1 (act/0), 4 (act/3) are running; job 2 (act/1) is already done; only queued jobs can be
/// held"
std::string left_text(const json& left, const std::string& rule) {
  constexpr std::size_t kNamed = 4;
  std::map<std::string, std::vector<std::string>> by_state;
  for (const json& job : left) {
    by_state[left_state(job.value("state", std::string()), job.value("replaced", false))].push_back(
        named(job));
  }
  std::string text;
  for (const auto& [state, jobs] : by_state) {
    text += jobs.size() == 1 ? "; job " : "; jobs ";
    for (std::size_t i = 0; i < std::min(jobs.size(), kNamed); ++i) {
      text += fmt::format("{}{}", i > 0 ? ", " : "", jobs[i]);
    }
    if (jobs.size() > kNamed) text += fmt::format(" and {} more", jobs.size() - kNamed);
    text += (jobs.size() == 1 ? " is " : " are ") + state;
  }
  return text.empty() ? text : text + "; " + rule;
}

/// "; priority of act/*/work: 0 -> 5"
std::string settings_text(const json& settings) {
  std::string text;
  for (const json& one : settings) {
    const std::string from = one.value("from", std::string());
    const std::string to = one.value("to", std::string());
    text += fmt::format("; {} of {}: {}", one.value("key", std::string()),
                        one.value("of", std::string()),
                        from == to ? to + " (unchanged)" : from + " -> " + to);
  }
  return text;
}

/// Jobs that are queued again run as they were submitted, whatever has become of the file.
void report_modified(const json& files) {
  for (const json& one : files) {
    const std::string path = one.value("file", std::string());
    const std::int64_t submitted_ns = from_rfc3339(one.value("submitted_at", std::string()));
    const Result<os::FileIdentity> file = os::file_identity(path);
    // The wire has no more than milliseconds of an instant.
    if (!file || file->mtime_ns / kMillisecond <= submitted_ns / kMillisecond) continue;
    const std::string name = view::shell_word(path);
    say(
        fmt::format("{} was modified after the last submit; these jobs run as submitted then; to "
                    "apply the modified file: pergpu run {}",
                    name, name));
  }
}

int tell(const ControlOptions& options, const json& request) {
  Result<json> reply = ask(request);
  if (!reply) return fail(reply.error());
  const json files = reply->value("files", json::array());
  if (options.output.json) {
    for (const char* name : {"files", "sweeps"}) reply->erase(name);  // for us only
    print(output_line(*reply));
    report_modified(files);
    return kOk;
  }
  const json settings = reply->value("settings", json::array());
  const std::size_t changed = reply->value("changed", json::array()).size();
  std::string text = settings.empty() ? changed_text(options.done, *reply)
                                      : fmt::format("{} {}", options.done, counted(changed, "job"));
  text += settings_text(settings);
  text += left_text(reply->value("left", json::array()), options.rule);
  say(text);
  report_modified(files);
  return kOk;
}

int control(const ControlOptions& options) {
  return tell(options, {{"op", options.verb},
                        {"sel", options.selectors},
                        {"failed", options.failed},
                        {"kill", options.kill},
                        {"queued", options.queued}});
}

int cancel_jobs(ControlOptions options) {
  if (options.queued && options.kill) {
    return fail({ErrorKind::Invalid, 0,
                 "--queued and --kill exclude each other: --queued keeps running jobs, --kill ends "
                 "them at once"});
  }
  if (options.queued) options.rule = "--queued cancels only jobs that have not started";
  return control(options);
}

/// The words that look like KEY=VALUE say what to set, the others name jobs.
int set(ControlOptions options) {
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
              const char* rule, const char* summary, std::shared_ptr<ControlOptions>& options) {
  options = std::make_shared<ControlOptions>();
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
  std::shared_ptr<ControlOptions> options;
  CLI::App* cancel =
      add(program, invocation, "cancel", "cancelled", "ended jobs can't be cancelled",
          "end jobs: SIGTERM, then SIGKILL after their `grace`", options);
  cancel->get_option("SEL")->required();
  cancel->add_flag("--kill", options->kill, "send SIGKILL at once");
  cancel->add_flag("--queued", options->queued,
                   "only jobs that have not started; running jobs continue");
  cancel->footer("Examples:\n  pergpu cancel thirteen\n  pergpu cancel --queued thirteen");
  cancel->callback(
      [options, &invocation] { invocation.action = [options] { return cancel_jobs(*options); }; });

  CLI::App* hold = add(program, invocation, "hold", "held", "only queued jobs can be held",
                       "hold queued jobs until released", options);
  hold->get_option("SEL")->required();
  hold->footer("Example:\n  pergpu hold 'thirteen/*/evaluate'");

  CLI::App* release = add(program, invocation, "release", "released",
                          "only held jobs can be released", "queue held jobs again", options);
  release->get_option("SEL")->required();
  release->footer("Example:\n  pergpu release thirteen");

  CLI::App* retry =
      add(program, invocation, "retry", "queued again",
          "retry queues only ended jobs that are not done (to repeat done jobs: run --rerun)",
          "queue failed, cancelled and skipped jobs again, with fresh retries", options);
  retry->add_flag("--failed", options->failed, "only failed jobs; default SEL: the last sweep");
  retry->footer("Example:\n  pergpu retry --failed thirteen");

  CLI::App* change =
      add(program, invocation, "set", "changed", "ended jobs can't be changed",
          "change priority, weight, max_parallel or lanes of jobs that have not ended", options);
  change->get_option("SEL")->required()->description(
      "jobs, as SWEEP or SWEEP/*/STEP; then priority=N, weight=N|none, max_parallel=N|none, "
      "lanes=N");
  change->callback(
      [options, &invocation] { invocation.action = [options] { return set(*options); }; });
  change->footer("Example:\n  pergpu set 'thirteen/*/train' priority=10 max_parallel=4");
}

}  // namespace pergpu::cli
