// The coordinator is asked, which is started where none runs, as by any command that looks: it
// knows which jobs are done, which lanes are free, what the machine has and what the runs' folders
// are called, and it refuses what it would refuse of the submit.  Slurm is not asked.
#include "cli/submit/dry_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/client/client.h"
#include "cli/notify/notify_channel.h"
#include "cli/submit/code_copy.h"
#include "cli/submit/submit.h"
#include "cli/submit/submit_checks.h"
#include "cli/submit/submit_context.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "job/gpu_parts.h"
#include "job/redact.h"
#include "os/process/spawn.h"
#include "plural.h"
#include "spec/templates/run_name.h"
#include "spec/templates/run_parameters.h"
#include "spec/text/exact_json.h"
#include "spec/text/units.h"
#include "view/text/long_text.h"
#include "view/text/shell_words.h"
#include "view/text/table.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kRowsShown = 100;

/// What is shown of the coordinator's answer.
struct Outlook {
  SubmitPreview preview;
  std::string note;
};

std::string folder_of(const SweepSpec& sweep, std::size_t index) {
  return run_folder_name(sweep.runs[index], static_cast<std::int64_t>(index),
                         static_cast<std::int64_t>(sweep.runs.size()), sweep.columns);
}

std::string needs_text(const SweepSpec& sweep, const StepSpec& step) {
  std::string text;
  for (const Need& need : step.needs) {
    if (!text.empty()) text += ", ";
    text += sweep.steps[static_cast<std::size_t>(need.step)].name;
    if (need.scope == Need::Scope::All) text += ":all";
    if (need.scope == Need::Scope::Ended) text += ":ended";
  }
  return text.empty() ? "-" : text;
}

std::string words_of(const StepSpec& step) {
  if (!step.shell.empty()) return redact_text(step.shell);
  return view::shell_words(redact_words(step.command));
}

std::string runs_table(const SweepSpec& sweep, const std::vector<std::string>& folders,
                       const view::Style& style) {
  std::vector<view::Column> columns = {{.title = "RUN", .least = 12}};
  for (const std::string& name : sweep.columns) columns.push_back({.title = name, .least = 6});
  std::vector<view::TableRow> rows;
  for (std::size_t i = 0; i < std::min(sweep.runs.size(), kRowsShown); ++i) {
    const Result<RunParameters> parameters = RunParameters::parse(sweep.runs[i]);
    view::TableRow row = {{folders[i], view::Tone::Plain}};
    for (const std::string& name : sweep.columns) {
      const std::string* text = parameters ? parameters->text(name) : nullptr;
      row.push_back({text ? view::short_value(*text, style) : "", view::Tone::Plain});
    }
    rows.push_back(std::move(row));
  }
  std::string out = view::render_table(columns, rows, style);
  if (sweep.runs.size() > kRowsShown) {
    out += fmt::format("and {} more runs\n", sweep.runs.size() - kRowsShown);
  }
  return out;
}

std::string gpus_text(const StepSpec& step) {
  if (step.gpu_auto) return "auto";
  return step.gpu_share > 0 ? share_text(step.gpu_share) : std::to_string(step.gpus);
}

json gpus_of(const StepSpec& step) {
  if (step.gpu_auto) return "auto";
  if (step.gpu_share == 0) return step.gpus;
  return static_cast<double>(step.gpu_share) / kWholeGpu;
}

std::string steps_table(const SweepSpec& sweep, const view::Style& style) {
  const std::vector<view::Column> columns = {
      {.title = "STEP"},
      {.title = "JOBS", .right = true},
      {.title = "NEEDS", .least = 8},
      {.title = "GPUS", .right = true},
      {.title = "CPUS", .right = true},
      {.title = "MEMORY", .right = true},
      {.title = "TIMEOUT", .right = true},
      {.title = "MAX PARALLEL", .right = true},
      {.title = "COMMAND", .least = 16},
  };
  const auto plain = [](std::string text) {
    return view::Cell{std::move(text), view::Tone::Plain};
  };
  std::vector<view::TableRow> rows;
  for (const StepSpec& step : sweep.steps) {
    rows.push_back({
        plain(step.name),
        plain(std::to_string(step.once ? 1 : sweep.runs.size())),
        plain(needs_text(sweep, step)),
        plain(gpus_text(step)),
        plain(step.cpus ? std::to_string(*step.cpus) : "-"),
        plain(step.memory_bytes ? format_size(*step.memory_bytes) : "-"),
        plain(step.timeout ? format_duration(*step.timeout) : "-"),
        plain(step.max_parallel ? std::to_string(*step.max_parallel) : "-"),
        plain(words_of(step)),
    });
  }
  return view::render_table(columns, rows, style);
}

Outlook outlook_of(SubmitPreview preview, const SweepSpec& sweep) {
  Outlook out{.preview = std::move(preview), .note = {}};
  const SubmitReply& reply = out.preview.reply;
  out.note = fmt::format("{} new jobs, {} {}, {} kept", reply.fresh, reply.requeued,
                         again_text(reply), reply.kept);
  if (reply.dropped > 0) {
    out.note += fmt::format(", {} to be cancelled (no longer in the file)", reply.dropped);
  }
  if (reply.others > 0) out.note += fmt::format(", {} others stay", reply.others);
  for (std::size_t i = 0; i < reply.remembered.size(); ++i) {
    out.note +=
        fmt::format("{}{}", i == 0 ? "; as in the last submit: " : " ", reply.remembered[i]);
  }
  // Of a coordinator of another version: it may not have sent them.
  for (std::size_t i = out.preview.runs.size(); i < sweep.runs.size(); ++i) {
    out.preview.runs.push_back(folder_of(sweep, i));
  }
  return out;
}

std::string job_of(const StartSnapshot& start) {
  return (start.run.empty() ? "_once" : start.run) + "/" + start.step;
}

std::string starts_text(const std::vector<StartSnapshot>& starts, const view::Style& style) {
  if (starts.empty()) return "nothing\n";
  const std::vector<view::Column> columns = {{.title = "LANE"}, {.title = "STARTS", .least = 16}};
  std::vector<view::TableRow> rows;
  for (const StartSnapshot& start : starts) {
    rows.push_back({{start.lane, view::Tone::Plain}, {job_of(start), view::Tone::Plain}});
  }
  return view::render_table(columns, rows, style);
}

/// "11 jobs of step train would wait for memory: …"
std::string waits_text(const std::vector<WaitSnapshot>& waits) {
  std::string out;
  for (const WaitSnapshot& wait : waits) {
    constexpr std::string_view kWaits = "waits ";
    const bool is_sentence = wait.why.starts_with(kWaits);
    out += fmt::format("{} of step {} would wait{} {}\n", counted(wait.jobs, "job"), wait.step,
                       is_sentence ? "" : ":",
                       is_sentence ? wait.why.substr(kWaits.size()) : wait.why);
  }
  return out;
}

std::string scripts_text(const std::vector<ArraySnapshot>& arrays) {
  if (arrays.empty()) return "\nno job would be submitted to Slurm\n";
  std::string out = "\nwould be submitted to Slurm:\n";
  for (const ArraySnapshot& array : arrays) {
    const std::string jobs = counted(array.jobs, "job");
    out += fmt::format("\n# {}: {}, {} in {}\n{}", array.name, array.step, jobs,
                       counted(array.tasks, "task"), array.script);
  }
  return out;
}

json as_json(const SweepSpec& sweep, const Outlook& outlook) {
  const SubmitPreview& preview = outlook.preview;
  json steps = json::array();
  for (const StepSpec& step : sweep.steps) {
    steps.push_back({{"name", step.name},
                     {"jobs", step.once ? 1 : sweep.runs.size()},
                     {"gpus", gpus_of(step)},
                     {"needs", needs_text(sweep, step)}});
  }
  json runs = json::array();
  for (std::size_t i = 0; i < sweep.runs.size(); ++i) {
    runs.push_back({{"run", preview.runs[i]}, {"params", exact_json(sweep.runs[i].json)}});
  }
  json out = {{"schema", 1}, {"sweep", preview.reply.sweep}, {"steps", std::move(steps)}};
  out["runs"] = std::move(runs);
  out["estimated"] = false;
  json starts = json::array();
  for (const StartSnapshot& start : preview.starts) {
    starts.push_back({{"lane", start.lane}, {"job", job_of(start)}});
  }
  out["starts"] = std::move(starts);
  out["waits"] = preview.waits;
  json arrays = json::array();
  for (const ArraySnapshot& array : preview.arrays) arrays.push_back(array);
  out["arrays"] = std::move(arrays);
  out["new"] = preview.reply.fresh;
  out["requeued"] = preview.reply.requeued;
  out["kept"] = preview.reply.kept;
  out["dropped"] = preview.reply.dropped;
  out["outputs_gone"] = preview.reply.outputs_gone;
  out["others"] = preview.reply.others;
  out["old_running"] = preview.reply.old_running;
  out["remembered"] = preview.reply.remembered;
  out["warnings"] = preview.reply.warnings;
  return out;
}

}  // namespace

int dry_run(const Place& place, const SweepSpec& sweep, const RunOptions& options) {
  if (Result<void> code = check_code(sweep); !code) return fail(code.error());
  const Result<std::vector<std::string>> untold = check_notify(sweep, os::own_environment());
  if (!untold) return fail(untold.error());
  for (const std::string& warning : *untold) say("warning: " + warning);
  Client client(place, Client::Start::IfNeeded);
  const Result<SubmitContext> context = context_of(options, sweep);
  if (!context) return fail(context.error());
  Result<SubmitLines> lines = submit_lines("dry_run", sweep, *context);
  if (!lines) return fail(lines.error());
  const Result<json> reply = client.call(lines->request, lines->runs);
  if (!reply) return fail(reply.error());
  // In an allocation of several nodes nothing is submitted: jobs are steps.
  const bool is_on_nodes = context->engine == kSlurm && options.engine != kSlurm;
  Outlook outlook = outlook_of(reply->get<SubmitPreview>(), sweep);
  if (is_on_nodes) outlook.preview.arrays.clear();
  const SubmitPreview& preview = outlook.preview;
  if (options.engine.empty() || options.engine == "local") {
    if (Result<void> may = check_results_folder(sweep); !may) return fail(may.error());
    for (const std::string& warning : program_warnings(sweep, os::own_environment()))
      say("warning: " + warning);
  }
  const bool is_on_cluster = options.engine == kSlurm || !preview.arrays.empty();
  if (const std::string warning = slurm_warning(os::own_environment());
      is_on_cluster && !warning.empty()) {
    say("warning: " + warning);
  }
  for (const std::string& warning : preview.reply.warnings) say("warning: " + warning);
  if (options.output.json) {
    print(output_line(as_json(sweep, outlook)));
    return kOk;
  }
  const view::Style style = style_of(STDOUT_FILENO, options.output.colour);
  std::string out = fmt::format("{}: {} runs, results in {}\n\n", preview.reply.sweep,
                                sweep.runs.size(), sweep.out.empty() ? "runs" : sweep.out);
  if (!sweep.runs.empty()) out += runs_table(sweep, preview.runs, style) + "\n";
  out += steps_table(sweep, style);
  out +=
      is_on_cluster ? scripts_text(preview.arrays)
      : is_on_nodes
          ? "\neach job runs as a step, as soon as a node of the allocation has room for it\n"
          : "\nwould start now:\n" + starts_text(preview.starts, style) + waits_text(preview.waits);
  print(out);
  say(outlook.note);
  return kOk;
}

}  // namespace pergpu::cli
