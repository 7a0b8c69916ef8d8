// What a job has of the shell that submitted it, and what of it this coordinator can give
// (os/process/process_attributes.h): JSON for the wire and the store, and the differences as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "os/process/process_attributes.h"

namespace pergpu {

/// SubmitContext "shell".  Fields are only ever added, and each may be absent.
nlohmann::json json_of(const os::ProcessAttributes& shell);
/// nullopt: `j` is no object.  What makes no sense in it is left at its default.
std::optional<os::ProcessAttributes> attributes_of(const nlohmann::json& j);

/// "reach" in the answer to hello.
nlohmann::json json_of(const os::Reach& reach);
std::optional<os::Reach> reach_of(const nlohmann::json& j);

/// What a job gets less than its shell has, one phrase each: "nice 10 instead of 0",
/// "1024 open files instead of 4096 (ulimit -n)".
std::vector<std::string> clamps(const os::ProcessAttributes& shell, const os::Reach& reach);
/// One sentence about them with what to do; "": it gets all.  `is_service`: the coordinator is a
/// service manager's, which decides what it has.
std::string clamp_warning(const os::ProcessAttributes& shell, const os::Reach& reach,
                          bool is_service);

/// "0-3,8" of ascending numbers.
std::string core_list(const std::vector<int>& cores);

}  // namespace pergpu
