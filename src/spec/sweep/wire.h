// SweepSpec and RunSpec as JSON: for the socket to the coordinator and for the store.
//
// The sweep travels without its runs, the runs one a line.  Unknown fields are ignored and absent
// ones have their default, so that older stores load; fields may be added, never renamed.
#pragma once

#include <string>
#include <string_view>

#include "result.h"
#include "spec/sweep/sweep.h"

namespace pergpu {

/// One line of JSON; `runs` is left out.
std::string to_wire(const SweepSpec& sweep);
/// `runs` is empty.
Result<SweepSpec> sweep_from_wire(std::string_view text);

/// One line of JSON, without the newline: {"json":{…},"texts":{…}}.
std::string to_wire(const RunSpec& run);
Result<RunSpec> run_from_wire(std::string_view line);

}  // namespace pergpu
