// Texts are cut so that a slot always holds them.
#include "keeper/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "os/fs/named_file.h"

namespace pergpu::keeper {
namespace {

constexpr std::size_t kLongestText = 480;  // three of them and the numbers fit into a slot
constexpr std::size_t kSlotHeaderBytes = 8;
constexpr std::size_t kLongestPayloadOfSlot = kRecordSlotBytes - kSlotHeaderBytes;

void cut(std::string& text) { text.resize(std::min(text.size(), kLongestText)); }

}  // namespace

RecordFile::RecordFile(const std::string& path, std::string boot_id)
    : boot_id_(std::move(boot_id)),
      fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) {}

bool RecordFile::is_at(const std::string& path) const { return os::leads_to(path, fd_.get()); }

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
  // Without its groups it is found by its other marks (os/process/process_tree.h).
  if (small.started && encode(small).size() > kLongestPayloadOfSlot) small.started->groups.clear();
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
  header(record_checksum(boot_id_, payload), static_cast<std::uint32_t>(payload.size()));
  std::string bytes = header.take() + payload;
  bytes.resize(kRecordSlotBytes);
  (void)!::pwrite(fd_.get(), bytes.data(), bytes.size(),
                  static_cast<off_t>(slot * kRecordSlotBytes));
}

}  // namespace pergpu::keeper
