// The systemd user unit that `coordinator enable` writes, and where it lies.
#pragma once

#include <string>
#include <string_view>

namespace pergpu::cli {

/// ~/.config/systemd/user/pergpu.service; "": neither XDG_CONFIG_HOME nor HOME is set.
std::string user_unit_path();

/// systemd's user manager listens: without it a unit would never be read.
bool has_user_manager();

/// As systemd reads a quoted word of a unit: C's escapes, and `%` begins a specifier.
std::string unit_quoted(std::string_view text, bool is_command);

/// The program of the unit's first ExecStart=, as unit_quoted() wrote it; "": there is none.
std::string program_of_unit(std::string_view unit);

}  // namespace pergpu::cli
