// `pergpu plan`: the schedule that is to be expected of a sweep file, of what selectors name, or of
// all that is queued or runs.
#include "view/commands/plan.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "cli/command/command.h"
#include "cli/submit/run_options.h"
#include "cli/submit/submit.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "spec/text/source_text.h"
#include "spec/text/units.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

struct PlanOptions {
  Output output;
  std::vector<std::string> words;   // one file, or selectors
  std::vector<std::string> expect;  // STEP=DURATION
  std::int64_t on = 0;
  RunOptions run;  // of a file
};

/// By its ending, because one that is not there must not be taken for a selector; else by its being
/// there.
bool is_sweep_file(const std::string& word) {
  constexpr std::array<std::string_view, 4> kEndings = {".toml", ".yaml", ".yml", ".json"};
  const std::string lower = lower_case(word);
  const bool ends_so = std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    return lower.ends_with(ending);
  });
  struct ::stat status {};
  return ends_so || is_pipe(word) ||
         (::stat(word.c_str(), &status) == 0 && S_ISREG(status.st_mode));
}

/// {"train": milliseconds}
Result<json> given_durations(const std::vector<std::string>& expect) {
  json given = json::object();
  for (const std::string& one : expect) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid(
          fmt::format("--expect {}: expected STEP=DURATION, as in --expect train=1h", one));
    }
    const Result<std::chrono::milliseconds> duration = parse_duration(one.substr(equals + 1));
    if (!duration) return invalid(fmt::format("--expect {}: {}", one, duration.error().message));
    if (duration->count() <= 0) {
      return invalid(fmt::format("--expect {}: expected a duration above 0", one));
    }
    given[one.substr(0, equals)] = duration->count();
  }
  return given;
}

/// The first option given that only a file goes with; "" when there is none.
std::string first_option_of_a_file(const RunOptions& run) {
  if (run.lanes) return "--lanes";
  if (!run.devices.empty()) return "--devices";
  if (!run.out.empty()) return "--out";
  if (!run.parameters.empty()) return "-p";
  if (run.rerun) return "--rerun";
  return run.only_new ? "--only-new" : "";
}

Result<SubmitLines> request_of(const PlanOptions& options) {
  Result<json> given = given_durations(options.expect);
  if (!given) return std::move(given).error();
  const auto file = std::find_if(options.words.begin(), options.words.end(), is_sweep_file);
  SubmitLines lines;
  if (file == options.words.end()) {
    const std::string misplaced = first_option_of_a_file(options.run);
    if (!misplaced.empty()) {
      return invalid(
          fmt::format("{} needs a sweep file, since submitted sweeps have their own; to plan for N "
                      "GPUs or lanes, use --on N",
                      misplaced));
    }
    lines.request = {{"op", "plan"}, {"sel", options.words}};
  } else {
    if (options.words.size() > 1) {
      return invalid(fmt::format("pass one sweep file ({}) or selectors, not both", *file));
    }
    RunOptions run = options.run;
    run.file = *file;
    Result<SweepSpec> sweep = sweep_of(run);
    if (!sweep) return std::move(sweep).error();
    Result<SubmitContext> context = context_of(run, *sweep);
    if (!context) return std::move(context).error();
    context->env.clear();  // nothing is started
    Result<SubmitLines> made = submit_lines("plan", *sweep, *context);
    if (!made) return std::move(made).error();
    lines = std::move(*made);
  }
  lines.request["expect"] = std::move(*given);
  lines.request["on"] = options.on;
  return lines;
}

/// A line from the keyboard; nullopt: the input has ended.
std::optional<std::string> typed_line() {
  std::array<char, 256> line{};
  if (std::fgets(line.data(), static_cast<int>(line.size()), stdin) == nullptr) return std::nullopt;
  std::string text(line.data());
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

/// Asks the person at the terminal how long the jobs of each step take, and puts that into the
/// request.  False: there is no terminal, or no answer.
bool ask_for(const json& missing, json& request, const PlanOptions& options) {
  if (options.output.json || !in_foreground(STDIN_FILENO) || !in_foreground(STDERR_FILENO)) {
    return false;
  }
  for (const json& step : missing) {
    const std::string name = step.value("step", std::string());
    if (request["expect"].contains(name)) continue;  // of another sweep, just now
    for (;;) {
      const std::string question = view::missing_question(step);
      std::fwrite(question.data(), 1, question.size(), stderr);
      const std::optional<std::string> text = typed_line();
      if (!text || text->empty()) return false;
      const Result<std::chrono::milliseconds> duration = parse_duration(*text);
      if (duration && duration->count() > 0) {
        request["expect"][name] = duration->count();
        break;
      }
      say(duration ? "expected a duration above 0" : duration.error().message);
    }
  }
  return true;
}

int plan(const PlanOptions& options) {
  // What is wrong is said before anything is started, the coordinator included.
  Result<SubmitLines> lines = request_of(options);
  if (!lines) {
    say(lines.error().message);
    return kUsage;
  }
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  if (!place->said.empty()) say("pergpu: home is " + place->home + ": " + place->said);
  Client client(std::move(*place), Client::Start::IfNeeded);
  Result<json> reply = client.call(lines->request, lines->runs);
  if (reply && reply->contains("missing") &&
      ask_for((*reply)["missing"], lines->request, options)) {
    reply = client.call(lines->request, lines->runs);
  }
  if (!reply) return fail(reply.error());
  if (reply->contains("missing")) {
    say(view::missing_text((*reply)["missing"]));
    return kUsage;
  }
  if (options.output.json) {
    print(output_line(*reply));
    return kOk;
  }
  print(view::plan_text(*reply, style_of(STDOUT_FILENO, options.output.colour)));
  for (const std::string& note : view::plan_notes(*reply)) say(note);
  return kOk;
}

}  // namespace

void add_plan(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = program.add_subcommand("plan", "predict which job runs where and when");
  command->add_option("WHAT", options->words,
                      "a sweep file, planned as if submitted now; or jobs (default: all)");
  command->add_option("--expect", options->expect, "STEP=DURATION: how long a job of a step takes")
      ->allow_extra_args(false);
  command->add_option("--on", options->on, "plan for this number of GPUs or lanes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000}));
  RunOptions& run = options->run;
  command
      ->add_option("--lanes", run.lanes,
                   "for a sweep file: number of CPU lanes for this sweep alone")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000}));
  command->add_option("--devices", run.devices, "for a sweep file: GPUs it may use: 0,2 or UUIDs");
  command->add_option("--out", run.out, "for a sweep file: root of the result folders");
  command->add_flag("--rerun", run.rerun, "for a sweep file: run done jobs again too");
  command->add_flag("--only-new", run.only_new, "for a sweep file: don't retry failed jobs");
  command->add_option("-p", run.parameters, "for a sweep file: KEY=VALUE: replace a parameter")
      ->allow_extra_args(false);
  add_output(*command, options->output);
  command->footer(
      "Examples:\n"
      "  pergpu plan thirteen.toml --expect train=1h --expect evaluate=14m\n"
      "  pergpu plan thirteen.toml --on 4\n"
      "  pergpu plan thirteen\n"
      "Durations come from `expect` in the file or from done jobs of the step.\n"
      "Nothing is started or recorded.");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return plan(*options); }; });
}

}  // namespace pergpu::cli
