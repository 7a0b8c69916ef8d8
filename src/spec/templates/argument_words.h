// The parameters of a run as words of a command line, for {args} and {overrides}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"
#include "spec/templates/run_parameters.h"

namespace pergpu {

enum class ArgumentStyle : std::uint8_t {
  Options,    // --model=mlp --seed=0
  Overrides,  // model=mlp seed=0
};

/// One word a parameter, sorted by name: NAME=TEXT, its text as {NAME} has it.  The members of a
/// table are separate words (--model.depth=3); lists stay JSON.  A parameter that is null is no
/// option, so that the program's default holds, and NAME=null as an override.
/// Corrupt: `json` is no object.
Result<std::vector<std::string>> argument_words(std::string_view json,
                                                const RunParameters& parameters,
                                                ArgumentStyle style);

}  // namespace pergpu
