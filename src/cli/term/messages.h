// Data on stdout, talk and failures on stderr: all that a command says goes through here.
#pragma once

#include <string_view>

#include "result.h"

namespace pergpu::cli {

/// Data on stdout.  False when it could not be written, which has been reported and which main()
/// turns into the exit code (cli/term/standard_output.h).  A pipe whose reader has left ends the
/// program.
bool print(std::string_view data);

/// Talk on stderr, one or more lines; control characters are made visible, long lines shortened.
void say(std::string_view text);

/// Says what is wrong on stderr; returns the exit code.
int fail(const Error& error);

}  // namespace pergpu::cli
