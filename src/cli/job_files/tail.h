// The ends of files that others are writing: logs and metrics.  What isn't as they are written
// (os/fs/written_file.h) is as one that isn't there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "os/fs/written_file.h"

namespace pergpu::cli {

/// 0 when the file cannot be looked at.
std::int64_t file_size(const std::string& path);

/// At most `count` last lines of what stands behind `begin`, without line ends; blank lines are
/// left out.  Reads at most 64 KiB.  Empty when there is nothing to read.
std::vector<std::string> last_lines(const std::string& path, std::size_t count,
                                    std::int64_t begin = 0, os::Writer writer = os::Writer::Job);
/// The same of a text.
std::vector<std::string> last_lines_in(std::string_view text, std::size_t count);

/// Where the last `count` lines of the file begin (a last line without '\n' counts).  A line is
/// looked for through kLongestLine bytes.
inline constexpr std::int64_t kLongestLine = 64 << 20;
std::int64_t offset_of_last_lines(const std::string& path, std::int64_t count);

}  // namespace pergpu::cli
