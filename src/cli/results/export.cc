// `pergpu export`: jobs with their parameters, metrics and attempts, for other programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command/command.h"
#include "cli/command/path_option.h"
#include "cli/results/history.h"
#include "cli/results/output_file.h"
#include "cli/term/exit_code.h"
#include "os/clock.h"
#include "os/process/paths.h"
#include "plural.h"
#include "view/export/csv.h"
#include "view/export/trace.h"

namespace pergpu::cli {
namespace {

struct ExportOptions {
  std::vector<std::string> selectors;
  bool csv = false;
  bool jsonl = false;
  bool trace = false;
  std::string file = "-";
};

std::string content_of(const ExportOptions& options, const std::vector<view::JobHistory>& jobs) {
  if (options.trace) {
    os::RealClock clock;
    return view::trace_text(jobs, os::host_name(), clock.now().wall_ns);
  }
  if (!options.jsonl) return view::jobs_csv(jobs);
  std::string lines;
  for (const view::JobHistory& job : jobs) lines += to_line(view::to_json_value(job)) + "\n";
  return lines;
}

int export_jobs(const ExportOptions& options) {
  const int formats = options.csv + options.jsonl + options.trace;
  if (formats == 0 && options.selectors.empty()) {
    say("pergpu: nothing to export: `pergpu export SWEEP` writes CSV; @ is the last sweep");
    return kUsage;
  }
  if (formats > 1) {
    say("pergpu: export writes one format: pass only one of --csv, --jsonl and --trace");
    return kUsage;
  }
  Result<Place> place = find_place();
  if (!place) return fail(place.error());
  Client client(std::move(*place), Client::Start::IfNeeded);
  const std::vector<std::string> last = {"@"};
  const Result<std::vector<view::JobHistory>> jobs =
      read_history(client, options.selectors.empty() ? last : options.selectors);
  if (!jobs) return fail(jobs.error());
  const std::string content = content_of(options, *jobs);
  if (options.file == "-") {
    print_data(content);
    return kOk;
  }
  if (const Result<void> written = write_output(options.file, content); !written) {
    return fail(written.error());
  }
  say(fmt::format("{}: {}", options.file, counted(jobs->size(), "job")));
  return kOk;
}

}  // namespace

void add_export(CLI::App& program, Invocation& invocation) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command =
      program.add_subcommand("export", "export jobs with parameters, metrics and attempts");
  command->add_flag("--csv", options->csv, "CSV (RFC 4180), one row per job (the default)");
  command->add_flag("--jsonl", options->jsonl, "JSON Lines: one object per job, with its attempts");
  command->add_flag("--trace", options->trace,
                    "timeline of the lanes for ui.perfetto.dev (Trace Event Format)");
  command
      ->add_option("-o,--output", options->file,
                   "output file, overwritten if it exists; - is stdout (the default)")
      ->type_name("FILE")
      ->transform(path_option());
  add_selectors(*command, options->selectors);
  command->footer(
      "The default format is CSV. If you pass a format, SEL defaults to the last sweep.\n"
      "Examples:\n"
      "  pergpu export thirteen -o thirteen.csv\n"
      "  pergpu export --trace thirteen -o thirteen.trace.json");
  command->callback(
      [options, &invocation] { invocation.action = [options] { return export_jobs(*options); }; });
}

}  // namespace pergpu::cli
