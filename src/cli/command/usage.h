// What is wrong with a command line, as text.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace pergpu::cli {

/// Not empty: the first word is no command of this version, and what was meant.
std::string mistyped_command(const std::vector<std::string>& words);

/// `run` and `submit`, the commands that know `--`.
bool takes_command_line(const std::vector<std::string>& words);

/// Prints help or version on stdout (exit code 0), or the mistake on stderr (exit code 2).
/// `words`: the command line.
int explain_usage(const CLI::App& program, const CLI::ParseError& error,
                  const std::vector<std::string>& words);

}  // namespace pergpu::cli
