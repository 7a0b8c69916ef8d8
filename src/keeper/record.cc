#include "keeper/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace pergpu::keeper {
namespace {

constexpr std::size_t kSlotBytes = 2048;
constexpr std::size_t kLongestText = 480;  // three of them and the numbers fit into a slot

std::uint32_t checksum_of(std::string_view boot_id, std::string_view bytes) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const std::string_view part : {boot_id, bytes}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

void cut(std::string& text) { text.resize(std::min(text.size(), kLongestText)); }

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

RecordFile::RecordFile(const std::string& path, std::string boot_id)
    : boot_id_(std::move(boot_id)),
      fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) {}

void RecordFile::put(AttemptId id, const Held& held) {
  Held small = held;
  if (small.failed) {
    cut(small.failed->phase);
    cut(small.failed->object);
  }
  if (small.exited) {
    cut(small.exited->missing_output);
    cut(small.exited->missing_why);
  }
  auto slot = std::find_if(slots_.begin(), slots_.end(),
                           [&](const Slot& s) { return s.used && s.id == id; });
  if (slot == slots_.end())
    slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.used; });
  if (slot == slots_.end()) slot = slots_.insert(slots_.end(), Slot{});
  *slot = Slot{.id = id, .used = true};
  write(static_cast<std::size_t>(slot - slots_.begin()), encode(small));
}

void RecordFile::remove(AttemptId id) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].used || slots_[i].id != id) continue;
    slots_[i].used = false;
    write(i, encode(Held{}));
  }
}

void RecordFile::write(std::size_t slot, const std::string& payload) {
  Encoder header;
  header(checksum_of(boot_id_, payload), static_cast<std::uint32_t>(payload.size()));
  std::string bytes = header.take() + payload;
  bytes.resize(kSlotBytes);
  (void)!::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(slot * kSlotBytes));
}

std::vector<Held> read_record(const std::string& path, std::string_view boot_id) {
  std::vector<Held> out;
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return out;
  std::string bytes(kSlotBytes, '\0');
  while (::read(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(kSlotBytes)) {
    const std::string_view slot = bytes;
    std::uint32_t checksum = 0;
    std::uint32_t size = 0;
    Decoder(slot.substr(0, 8))(checksum, size);
    if (size > kSlotBytes - 8 || checksum_of(boot_id, slot.substr(8, size)) != checksum) continue;
    std::optional<Held> held = decode<Held>(slot.substr(8, size));
    if (held && id_of(*held).job) out.push_back(*std::move(held));
  }
  return out;
}

}  // namespace pergpu::keeper
