// Reading files that a keeper or a job wrote into a results folder that others may write to.
//
// Such a file is a regular one with one name, reached through no link of another user and, where
// others can write, through none at all (walk_below() of os/fs/folder_walk.h).  Anything else in
// its place may lead to a private file of this user's, or never end: it is refused, and the message
// says what it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "os/fd.h"
#include "os/fs/folder_walk.h"
#include "result.h"

namespace pergpu::os {

enum class Writer : std::uint8_t {
  Keeper,  // logs, records: owned by this user, by root, or by the owner of their folder
  Job,     // metrics: a container may write as another user
  User,    // what is executed: only this user and root can have written it
};

/// The number of last folders of a path that may lie where others can write: <sweep>/<run>/<step>.
inline constexpr int kResultLevels = 3;

/// os_errno ENOENT: it isn't there.
Result<UniqueFd> open_written(const std::string& path, Writer writer, int levels = kResultLevels);
Result<UniqueFd> open_written(const HeldFolder& folder, const std::string& name, Writer writer);

/// Where the file has bytes again at or after `offset`; its size where only a hole is left. Another
/// user who may write to it can make it terabytes long without a byte on the disk.
std::int64_t next_data(int fd, std::int64_t offset);

/// As read_file() and read_tail() of os/fs/file.h.
Result<std::string> read_written(const std::string& path, Writer writer, std::size_t limit);
Result<std::string> read_written(const HeldFolder& folder, const std::string& name, Writer writer,
                                 std::size_t limit);
Result<std::string> read_written_tail(const std::string& path, Writer writer, std::size_t bytes);

}  // namespace pergpu::os
