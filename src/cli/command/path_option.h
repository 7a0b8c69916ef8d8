// An option whose value is the path of one file: `~/` and variables in it are the shell's, also
// where the shell did not replace them (`--file=~/x`).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "spec/templates/path_text.h"

namespace pergpu::cli {

/// To be given to `transform()` of the option.
inline CLI::Validator path_option() {
  return CLI::Validator(
      [](std::string& text) {
        Result<std::string> path = expand_single_path(text);
        if (!path) return text + ": " + path.error().message;
        text = *std::move(path);
        return std::string();
      },
      "", "path");
}

}  // namespace pergpu::cli
