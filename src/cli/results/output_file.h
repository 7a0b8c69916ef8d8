// `-o FILE`: where `export` and `report` write.
#pragma once

#include <string>
#include <string_view>

#include "result.h"

namespace pergpu::cli {

/// Replaces what a regular file `path` holds, or makes it, with the modes of the shell's umask; a
/// reader sees the old content or the new one.  A link is followed.  ErrorKind::Invalid: `path` is
/// something else (a folder, a device), which is left alone; Io: it could not be written.
Result<void> write_output(const std::string& path, std::string_view content);

/// Data for people's programs on stdout; on a terminal, where a program of theirs may have put
/// control characters into it, these are made visible.  False when it has no reader any more.
bool print_data(std::string_view data);

}  // namespace pergpu::cli
