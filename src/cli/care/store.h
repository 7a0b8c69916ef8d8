// `pergpu store`: as the functions of cli/command/command.h.
#pragma once

#include "cli/command/command.h"

namespace pergpu::cli {

void add_store(CLI::App& program, Invocation& invocation);

}  // namespace pergpu::cli
