// A running coordinator is asked: it knows which jobs are done, which lanes are free and what the
// runs' folders are called.  Without one the answer is an estimate: all lanes free, lanes filled in
// order, every run new.  Slurm is not asked in either case.
#include "cli/dry_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/client.h"
#include "cli/code_copy.h"
#include "cli/exit_code.h"
#include "cli/submit.h"
#include "cli/submit_checks.h"
#include "cli/submit_context.h"
#include "cli/terminal.h"
#include "coordinator/array_preview.h"
#include "coordinator/machine.h"
#include "job/gpu_parts.h"
#include "job/redact.h"
#include "job/schedule.h"
#include "os/paths.h"
#include "spec/exact_json.h"
#include "spec/run_name.h"
#include "spec/run_parameters.h"
#include "spec/units.h"
#include "view/long_text.h"
#include "view/shell_words.h"
#include "view/table.h"

namespace pergpu::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kRowsShown = 100;

/// What is shown: the coordinator's answer, or an estimate of it.
struct Outlook {
  SubmitPreview preview;
  bool estimated = false;
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
      {.title = "AT ONCE", .right = true},
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

/// Every job is taken to be new.
Result<Outlook> estimate_on_cluster(const SweepSpec& sweep, const SubmitContext& context) {
  Outlook out{.preview = {}, .estimated = true, .note = {}};
  out.note = "no coordinator is running: every job is taken to be new";
  out.preview.reply.sweep = sweep.name;
  for (std::size_t i = 0; i < sweep.runs.size(); ++i) {
    out.preview.runs.push_back(folder_of(sweep, i));
  }
  const Result<std::string> self = os::own_executable();
  if (!self) return self.error();
  Result<std::vector<ArraySnapshot>> arrays = preview_arrays(
      sweep, context, [](std::size_t, std::size_t) { return JobState::Queued; }, kUsualArraySize,
      *self);
  if (!arrays) return std::move(arrays).error();
  out.preview.arrays = *std::move(arrays);
  return out;
}

/// The lane of a job; nullopt: there is no room for it.
std::optional<std::string> take_gpus(const StepSpec& step, std::vector<GpuParts>& gpus) {
  const int share = step.gpu_share > 0 ? step.gpu_share : kWholeGpu;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].taken() + share <= kWholeGpu) chosen.push_back(i);
  }
  const auto asked = static_cast<std::size_t>(step.gpus);
  if (chosen.size() < asked) return std::nullopt;
  std::ranges::stable_sort(chosen, {}, [&](std::size_t i) { return gpus[i].taken(); });
  chosen.resize(asked);
  const LaneId lane{.pool = LaneId::Pool::Gpu,
                    .slot = static_cast<std::int32_t>(chosen.front()),
                    .part = gpus[chosen.front()].first_free()};
  for (const std::size_t i : chosen) gpus[i].give(gpus[i].first_free(), {.share = share});
  return to_string(lane);
}

/// Jobs without needs, in file order, on lanes that are all taken to be free.
Result<Outlook> estimate(const SweepSpec& sweep, const RunOptions& options) {
  Outlook out{.preview = {}, .estimated = true, .note = {}};
  out.note = "no coordinator is running: every lane is taken to be free and every job to be new";
  if (!options.devices.empty()) out.note += "; --devices is not checked";
  if (options.add) out.note += "; the sweep's own runs, if there are some, come before these";
  out.preview.reply.sweep = sweep.name;
  for (std::size_t i = 0; i < sweep.runs.size(); ++i) {
    out.preview.runs.push_back(folder_of(sweep, i));
  }
  const auto listed = [](const std::string& list) {
    return static_cast<std::size_t>(std::count(list.begin(), list.end(), ',')) + 1;
  };
  std::size_t gpu_lanes = options.devices.empty() ? 0 : listed(options.devices);
  std::size_t cpu_lanes = std::max(1u, std::thread::hardware_concurrency());
  const bool own_lanes = options.lanes > 0;
  if (own_lanes) cpu_lanes = static_cast<std::size_t>(options.lanes);
  std::vector<GpuParts> gpus(gpu_lanes);
  std::size_t cpus_used = 0;
  std::vector<StartSnapshot>& starts = out.preview.starts;
  for (std::size_t run = 0; run < std::max<std::size_t>(1, sweep.runs.size()); ++run) {
    for (const StepSpec& step : sweep.steps) {
      if (!step.needs.empty() || (step.once && run > 0) || (!step.once && sweep.runs.empty())) {
        continue;
      }
      const bool on_gpu = step.gpus > 0 && !(own_lanes && gpu_lanes == 0);
      if (on_gpu && gpu_lanes == 0) {
        if (out.note.find("on every free GPU") == std::string::npos) {
          out.note += "; steps that ask for GPUs start on every free GPU (`pergpu gpus`)";
        }
        continue;
      }
      std::optional<std::string> lane;
      if (on_gpu) {
        lane = take_gpus(step, gpus);
      } else if (cpus_used < cpu_lanes) {
        lane = fmt::format("{}{}", own_lanes ? "lane" : "cpu", cpus_used++);
      }
      if (!lane) continue;
      starts.push_back(
          {.run = step.once ? "" : out.preview.runs[run], .step = step.name, .lane = *lane});
    }
  }
  return out;
}

Outlook outlook_of(SubmitPreview preview, const SweepSpec& sweep) {
  Outlook out{.preview = std::move(preview), .estimated = false, .note = {}};
  const SubmitReply& reply = out.preview.reply;
  out.note = fmt::format("{} new jobs, {} {}, {} kept", reply.fresh, reply.requeued,
                         again_text(reply), reply.kept);
  if (reply.dropped > 0) {
    out.note += fmt::format(", {} to be cancelled (no longer in the file)", reply.dropped);
  }
  // Of a coordinator of another version: it may not have told them.
  for (std::size_t i = out.preview.runs.size(); i < sweep.runs.size(); ++i) {
    out.preview.runs.push_back(folder_of(sweep, i));
  }
  return out;
}

/// What needs no coordinator to be refused; "": nothing.  What GPUs there are only a look can tell.
std::string refusal_of(const SweepSpec& sweep) {
  const Machine machine = read_whole_machine();
  Capacity capacity;
  capacity.cpus = machine.core_count();
  capacity.memory_bytes = machine.memory_bytes;
  for (const StepSpec& step : sweep.steps) {
    const std::string never = never_fits(demand_of(step, LaneId::Pool::Cpu), capacity);
    if (!never.empty()) return fmt::format("step {}: {}", step.name, never);
  }
  return {};
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

std::string scripts_text(const std::vector<ArraySnapshot>& arrays) {
  if (arrays.empty()) return "\nSlurm would be asked for nothing\n";
  std::string out = "\nSlurm would be asked for:\n";
  for (const ArraySnapshot& array : arrays) {
    const std::string jobs = fmt::format("{} job{}", array.jobs, array.jobs == 1 ? "" : "s");
    out += fmt::format("\n# {}: {}, {} in {} task{}\n{}", array.name, array.step, jobs, array.tasks,
                       array.tasks == 1 ? "" : "s", array.script);
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
  out["estimated"] = outlook.estimated;
  json starts = json::array();
  for (const StartSnapshot& start : preview.starts) {
    starts.push_back({{"lane", start.lane}, {"job", job_of(start)}});
  }
  out["starts"] = std::move(starts);
  json arrays = json::array();
  for (const ArraySnapshot& array : preview.arrays) arrays.push_back(array);
  out["arrays"] = std::move(arrays);
  if (!outlook.estimated) {
    out["new"] = preview.reply.fresh;
    out["requeued"] = preview.reply.requeued;
    out["kept"] = preview.reply.kept;
    out["dropped"] = preview.reply.dropped;
    out["outputs_gone"] = preview.reply.outputs_gone;
    out["warnings"] = preview.reply.warnings;
  }
  return out;
}

}  // namespace

int dry_run(const Place& place, const SweepSpec& sweep, const RunOptions& options) {
  if (Result<void> code = check_code(sweep); !code) return fail(code.error());
  Client client(place, Client::Start::Never);
  const Result<SubmitContext> context = context_of(options, sweep);
  if (!context) return fail(context.error());
  Result<SubmitLines> lines = submit_lines("dry_run", sweep, *context);
  if (!lines) return fail(lines.error());
  const Result<json> reply = client.call(lines->request, lines->runs);
  // NotFound: none runs.  A refusal is the one that the submit would meet.
  if (!reply && reply.error().kind != ErrorKind::NotFound) return fail(reply.error());
  // In an allocation of several nodes nothing is submitted: jobs are steps.
  const bool is_on_nodes = context->engine == kSlurm && options.engine != kSlurm;
  if (!reply && context->engine != kSlurm) {
    const std::string refusal = refusal_of(sweep);
    if (!refusal.empty()) return fail(Error{ErrorKind::Invalid, 0, refusal});
  }
  Result<Outlook> outlook = reply ? outlook_of(reply->get<SubmitPreview>(), sweep)
                            : context->engine == kSlurm ? estimate_on_cluster(sweep, *context)
                                                        : estimate(sweep, options);
  if (!outlook) return fail(outlook.error());
  if (is_on_nodes) outlook->preview.arrays.clear();
  const SubmitPreview& preview = outlook->preview;
  if (options.engine == "local") {
    if (Result<void> may = check_results_folder(sweep); !may) return fail(may.error());
    for (const std::string& warning : program_warnings(sweep, environment_entries()))
      say("warning: " + warning);
  }
  for (const std::string& warning : preview.reply.warnings) say("warning: " + warning);
  if (options.output.json) {
    print(output_line(as_json(sweep, *outlook)));
    return kOk;
  }
  const view::Style style = style_of(STDOUT_FILENO, options.output.colour);
  std::string out = fmt::format("{}: {} runs, results in {}\n\n", preview.reply.sweep,
                                sweep.runs.size(), sweep.out.empty() ? "runs" : sweep.out);
  if (!sweep.runs.empty()) out += runs_table(sweep, preview.runs, style) + "\n";
  out += steps_table(sweep, style);
  out += options.engine == kSlurm ? scripts_text(preview.arrays)
         : is_on_nodes
             ? "\neach job as a step, as soon as a node of the allocation has room for it\n"
             : "\nat once:\n" + starts_text(preview.starts, style);
  print(out);
  say(outlook->note);
  return kOk;
}

}  // namespace pergpu::cli
