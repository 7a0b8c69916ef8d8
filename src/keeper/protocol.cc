// The parts of the protocol that are not messages: file names, and reading a dead keeper's record.
#include "keeper/protocol.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/fd.h"

namespace pergpu::keeper {
namespace {

std::string path_of(const std::string& folder, char kind, std::int64_t keeper) {
  return folder + "/" + kind + std::to_string(keeper);
}

}  // namespace

std::string socket_path(const std::string& run_folder, std::int64_t keeper) {
  return path_of(run_folder, 'k', keeper);
}
std::string record_path(const std::string& run_folder, std::int64_t keeper) {
  return path_of(run_folder, 'k', keeper) + ".rec";
}
std::string notify_path(const std::string& run_folder, std::int64_t keeper) {
  return path_of(run_folder, 'n', keeper);
}

AttemptId id_of(const Held& held) {
  if (held.exited) return held.exited->id;
  if (held.failed) return held.failed->id;
  return held.started ? held.started->id : AttemptId{};
}

std::uint32_t record_checksum(std::string_view boot_id, std::string_view payload) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const std::string_view part : {boot_id, payload}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

std::vector<Held> read_record(const std::string& path, std::string_view boot_id) {
  std::vector<Held> out;
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return out;
  std::string bytes(kRecordSlotBytes, '\0');
  while (::read(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(kRecordSlotBytes)) {
    const std::string_view slot = bytes;
    std::uint32_t checksum = 0;
    std::uint32_t size = 0;
    Decoder(slot.substr(0, 8))(checksum, size);
    if (size > kRecordSlotBytes - 8 || record_checksum(boot_id, slot.substr(8, size)) != checksum)
      continue;
    std::optional<Held> held = decode<Held>(slot.substr(8, size));
    if (held && id_of(*held).job) out.push_back(*std::move(held));
  }
  return out;
}

}  // namespace pergpu::keeper
