// Which options belong to which form is checked here, so that none is silently without effect.
#include "cli/submit/run_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "api/snapshot.h"
#include "cli/command/sweep_argument.h"
#include "cli/submit/exec_limits.h"
#include "os/fs/folder_walk.h"
#include "os/fs/real_path.h"
#include "spec/schema/load.h"
#include "spec/tree/diagnostics.h"
#include "state/added_rows.h"
#include "state/submit.h"

namespace pergpu::cli {
namespace {

/// The first option given that only the form without a file knows; "" when there is none.
std::string first_command_line_option(const CommandLineOptions& given) {
  const std::array<std::pair<const char*, const std::string*>, 11> options = {{
      {"--name", &given.name},
      {"--gpus", &given.gpus},
      {"--cpus", &given.cpus},
      {"--memory", &given.memory},
      {"--gpu-memory", &given.gpu_memory},
      {"--timeout", &given.timeout},
      {"--retries", &given.retries},
      {"--max-parallel", &given.max_parallel},
      {"--priority", &given.priority},
      {"--weight", &given.weight},
      {"--cwd", &given.cwd},
  }};
  for (const auto& [name, value] : options) {
    if (!value->empty()) return name;
  }
  return given.lists.empty() ? "" : "-g";
}

Result<ParsedSweep> parse(const RunOptions& options) {
  if (options.rerun && options.only_new)
    return invalid("--rerun and --only-new exclude each other");
  if (options.add && options.has_words && options.command_line.name.empty()) {
    return invalid("--add needs the name of the sweep to add rows to: --name");
  }
  if (options.lanes == 0 && options.has_words && options.command_line.name.empty()) {
    return invalid(
        "--lanes 0 drops the --lanes of the sweep's last submit, so the sweep needs a name: pass "
        "--name, or a number of lanes");
  }
  const bool names_lanes = !options.devices.empty() || options.lanes.value_or(0) > 0;
  if (options.engine == kSlurm && names_lanes) {
    return invalid(
        fmt::format("{} chooses {} of this machine, but with --on slurm, Slurm chooses them",
                    options.lanes.value_or(0) > 0 ? "--lanes" : "--devices",
                    options.lanes.value_or(0) > 0 ? "lanes" : "GPUs"));
  }
  if (!options.devices.empty() && options.lanes.value_or(0) > 0) {
    return invalid("--devices uses GPUs, but --lanes uses none; pass only one of them");
  }
  if (options.emit && options.output.json) {
    return invalid("--emit prints a sweep file in TOML, so --json can't be used with it");
  }
  if (options.has_words && !options.file.empty()) {
    return invalid(fmt::format("pass either a sweep file ({}) or a command after `--`, not both",
                               options.file));
  }
  if (options.has_words) {
    if (!options.parameters.empty()) {
      return invalid("-p replaces a parameter of a sweep file; for a command, use -g NAME=V1,V2");
    }
    std::array<char, PATH_MAX> cwd{};
    if (!::getcwd(cwd.data(), cwd.size())) {
      Error error = os_error("current folder");
      error.kind = ErrorKind::Invalid;
      return error;
    }
    CommandLineOptions given = options.command_line;
    given.folder = cwd.data();
    given.out = options.out;
    return sweep_from_command_line(given, options.words);
  }
  if (options.file.empty()) {
    return invalid(
        "nothing to run: name a sweep file (`pergpu run sweep.toml`) or a command "
        "(`pergpu run -- python3 train.py`)");
  }
  const std::string misplaced = first_command_line_option(options.command_line);
  if (!misplaced.empty()) {
    return invalid(fmt::format(
        "{} is for commands (`pergpu run {} … -- CMD`); for a sweep file, set it in the file",
        misplaced, misplaced));
  }
  LoadOptions load;
  load.out = options.out;
  for (const std::string& parameter : options.parameters) {
    const std::size_t equals = parameter.find('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid(fmt::format("-p {0}: expected KEY=VALUE: write -p {0}=VALUE", parameter));
    }
    load.overrides.emplace_back(parameter.substr(0, equals), parameter.substr(equals + 1));
  }
  if (const std::string why = no_sweep_file(options.file); !why.empty()) return invalid(why);
  return load_sweep(options.file, load);
}

/// A sweep is known by where its results lie: the same place is always spelled the same way.
Result<void> settle_folders(SweepSpec& sweep) {
  sweep.folder = os::real_path(sweep.folder);
  const std::string root = output_root(sweep);
  // Where such a link leads today would be where the results lie from now on.
  Result<os::HeldFolder> held = os::HeldFolder::open(root);
  if (held) held = held->open_below(sweep.name);
  if (!held && os::is_foreign_link(held.error())) {
    return invalid("can't write results to " + root + ": " + held.error().message);
  }
  const std::string real = os::real_path(root);
  if (real != root) sweep.out = real;
  return {};
}

}  // namespace

void add_run_options(CLI::App& command, RunOptions& options) {
  command.add_option("SWEEP", options.file, "sweep file: .toml, .yaml or .json; -: standard input");
  command
      .add_option(
          "--lanes", options.lanes,
          "number of CPU lanes for this sweep alone; 0: none (default: as in the last submit)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{100'000}));
  command.add_option("--devices", options.devices,
                     "GPUs it may use: 0,2 or UUIDs (default: CUDA_VISIBLE_DEVICES)");
  command.add_option("--out", options.out, "root of the result folders");
  command.add_flag("--dry-run", options.dry_run, "show runs and steps; start nothing");
  command.add_flag("--emit", options.emit, "print the sweep file; start nothing");
  command.add_flag("--rerun", options.rerun, "run done jobs again too");
  command.add_flag("--only-new", options.only_new, "don't retry failed and cancelled jobs");
  command.add_flag("--add", options.add,
                   "add the file's rows to the sweep; keep rows that are not in the file");
  command.add_option("--on", options.engine, "local (this machine) or slurm (docs/slurm.md)")
      ->check(CLI::IsMember({"local", "slurm"}));
  command.add_option("--engine", options.engine, "local, or fake (runs nothing)")
      ->check(CLI::IsMember({"local", "fake"}))
      ->excludes("--on");
  command
      .add_option("-p", options.parameters,
                  "KEY=VALUE: change a parameter of the file; existing rows stay")
      ->allow_extra_args(false);
  add_output(command, options.output);

  const std::string group = "With a command after `--`";
  CommandLineOptions& line = options.command_line;
  command.add_option("--name", line.name, "name of the sweep")->group(group);
  command
      .add_option("--gpus", line.gpus,
                  "GPUs per job; 0.25: a share of a GPU; auto: pack as many jobs on a GPU as fit")
      ->group(group);
  command.add_option("--cpus", line.cpus, "cores to reserve per job")->group(group);
  command.add_option("--memory", line.memory, "memory to reserve per job, also its limit: 32GiB")
      ->group(group);
  command.add_option("--gpu-memory", line.gpu_memory, "GPU memory limit per job: 20GiB")
      ->group(group);
  command.add_option("--timeout", line.timeout, "time limit of each attempt: 90s, 12h")
      ->group(group);
  command.add_option("--retries", line.retries, "retries after a failure")->group(group);
  command
      .add_option("--max-parallel", line.max_parallel, "maximum number of jobs at the same time")
      ->group(group);
  command.add_option("--priority", line.priority, "jobs with a higher priority start first")
      ->group(group);
  command
      .add_option("--weight", line.weight,
                  "share of the lanes, relative to other sweeps with a weight")
      ->group(group);
  command.add_option("--cwd", line.cwd, "folder to run in")->group(group);
  command
      .add_option(
          "-g", line.lists,
          "NAME=V1,V2 or NAME=0..3: values for {NAME} in the command; {args} is all of them")
      ->allow_extra_args(false)
      ->group(group);
}

Result<SweepSpec> sweep_of(const RunOptions& options) {
  Result<ParsedSweep> parsed = parse(options);
  if (!parsed) return std::move(parsed).error();
  std::string text = to_text(parsed->diagnostics);
  if (!parsed->sweep) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return invalid(text.empty() ? "no sweep found" : text);
  }
  if (!text.empty()) say(text);
  const std::vector<StepSpec>& steps = parsed->sweep->steps;
  const bool wants_gpu =
      std::any_of(steps.begin(), steps.end(), [](const StepSpec& step) { return step.gpus > 0; });
  if (!options.devices.empty() && !wants_gpu) {
    return invalid("--devices: no step requests a GPU (`gpus = 1`, or --gpus 1 for a command)");
  }
  if (Result<void> may = check_exec_limits(*parsed->sweep); !may) return std::move(may).error();
  if (options.add) {
    if (Result<void> may = check_growth(*parsed->sweep); !may) return std::move(may).error();
  }
  if (Result<void> may = settle_folders(*parsed->sweep); !may) return std::move(may).error();
  return std::move(*parsed->sweep);
}

}  // namespace pergpu::cli
