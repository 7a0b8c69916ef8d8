// The options of `run` and `submit`, and the sweep that they describe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command/command.h"
#include "spec/schema/command_line.h"
#include "spec/sweep/sweep.h"

namespace pergpu::cli {

struct RunOptions {
  Output output = {};
  // Both forms.
  std::string file = {};
  std::optional<std::int64_t> lanes = std::nullopt;  // 0: none
  std::string devices = {};
  std::string engine = {};  // "": not given
  std::string out = {};
  bool detach = false;
  bool dry_run = false;
  bool emit = false;
  bool rerun = false;
  bool only_new = false;
  bool add = false;
  std::vector<std::string> parameters = {};  // -p KEY=VALUE: with a file only
  // Without a file.
  CommandLineOptions command_line = {};
  bool has_words = false;
  std::vector<std::string> words = {};

  /// `run -- CMD` without lists: one job, whose output and exit code become ours.
  bool names_one_job(const SweepSpec& sweep) const {
    return has_words && !add && sweep.runs.size() <= 1 && sweep.steps.size() == 1;
  }
};

void add_run_options(CLI::App& command, RunOptions& options);

/// Reads the file or the command line.  Diagnostics go to stderr; Invalid when there is no sweep.
Result<SweepSpec> sweep_of(const RunOptions& options);

}  // namespace pergpu::cli
