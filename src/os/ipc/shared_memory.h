// Memory that processes share and that has no name in any folder (memfd_create): what a descriptor
// of it says, and which processes have it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "result.h"

namespace pergpu::os {

/// Distinguishes one memory from all others for as long as it is there.
struct MemoryId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const MemoryId&) const = default;
};

struct SharedMemory {
  MemoryId id = {};
  std::string name = {};  // as it was made: "pergpu:data-0af3…"; many may have the same
  std::uint64_t bytes = 0;
  std::int64_t made_wall_ns = 0;  // 0: the kernel does not report it
};

/// ErrorKind::Invalid: it is something else, or its size may still change: a reader could be killed
/// by a process that shortens it.
Result<SharedMemory> memory_of(int fd);

/// One process that has memory open or mapped.
struct MemoryHolder {
  pid_t pid = 0;
  int fd = -1;  // -1: mapped only
};
struct HeldMemory {
  SharedMemory memory = {};
  std::vector<MemoryHolder> holders = {};  // each process once
};

enum class LookAt : std::uint8_t {
  OpenFiles,
  MappingsToo,  // of a process with many libraries these are thousands of lines
};

/// All memory whose name begins with `prefix` and that processes of this user have, by the time it
/// was made.  Other users' processes, and those that may not be looked into, are passed over.
std::vector<HeldMemory> find_memory(std::string_view prefix, LookAt places);

/// A descriptor of our own for what a process has open; nullopt: it is not there any more.
std::optional<UniqueFd> open_memory(const MemoryHolder& holder, MemoryId id);

/// A line of /proc/PID/maps that maps memory of that prefix.
struct MappedMemory {
  MemoryId id = {};
  std::string name = {};
  std::uint64_t end = 0;  // it has at least this many bytes
};
std::optional<MappedMemory> mapped_memory_in(std::string_view line, std::string_view prefix);

}  // namespace pergpu::os
