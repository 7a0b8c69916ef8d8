// `pergpu run [options] [-g NAME=V1,V2]… -- CMD ARG… [::: a b c] [:::+ x y z]`: a sweep without a
// file, the same model that load_sweep() gives.
//
// Lists: each -g is a parameter of that name (spec/runs/word_list.h); each `:::` one called arg1,
// arg2, … that `{1}`, `{2}` stand for (`{}` is all of them, one after the other).  Lists multiply,
// `:::+` goes in step with the list before it.  A command without any placeholder gets the
// positional values appended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/schema/load.h"

namespace pergpu {

/// Options as typed; empty or nullopt: not given.
struct CommandLineOptions {
  std::string folder = {};  // the caller's cwd, absolute
  std::string name = {};    // else the program's base name; the submit makes it unique
  std::string out = {};
  std::string gpus = {};
  std::string cpus = {};
  std::string memory = {};
  std::string gpu_memory = {};
  std::string timeout = {};
  std::string retries = {};
  std::string max_parallel = {};
  std::string priority = {};
  std::string weight = {};
  std::string cwd = {};
  std::vector<std::string> lists = {};  // each -g: "NAME=V1,V2"
};

/// `words`: what follows `--`, with its ::: and :::+.  Diagnostics name the option or word and have
/// no line.
ParsedSweep sweep_from_command_line(const CommandLineOptions& options,
                                    const std::vector<std::string>& words);

}  // namespace pergpu
