// `pergpu share`: as the functions of cli/command/command.h.
#pragma once

#include "cli/command/command.h"

namespace pergpu::cli {

void add_share(CLI::App& program, Invocation& invocation);

}  // namespace pergpu::cli
