// Which GPUs are out of use because they are broken, and what ends that: one look after the other.
// Pure; who owns it stores text() of what has changed.
//
// A fault begins a quarantine: an Xid of the table's kind `hardware`, or a reading that shows a GPU
// lost, with a repair that waits or failed, or with a recovery the driver advises.  It ends
//   with another boot, once the GPU reads healthy,
//   with a reset, where that is enough: a condition that looks have shown is gone,
//   or by a person, release(): conditions that the GPU still has then do not count as long as it
//   has them, until another boot (a user who cannot reset it may want to use it on), new ones do.
// What a look does not show neither begins nor ends anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/health.h"
#include "gpu/inventory.h"

namespace pergpu::gpu {

struct Quarantine {
  std::string words = {};  // "Xid 79: the GPU has fallen off the bus"
  Lift lift = Lift::Reset;
  std::string boot_id = {};  // in which the fault was seen last
  std::int64_t since_wall_ns = 0;
  bool shown = false;  // by a reading, which will show when it is over
  bool operator==(const Quarantine&) const = default;
};

/// "reboot the machine, or `pergpu gpus --release 0`"; `name`: as --release takes it.
std::string way_out(const Quarantine& quarantine, const std::string& name);

class Quarantines {
 public:
  explicit Quarantines(std::string boot_id) : boot_id_(std::move(boot_id)) {}

  /// What text() gave, in this life or in one before.  Text that is not understood counts as none.
  void restore(const std::string& uuid, const std::string& text);
  /// "" when there is nothing to keep.
  std::string text(const std::string& uuid) const;

  /// Takes what a look shows; UUIDs whose text has changed.
  std::vector<std::string> take(const GpuLook& look, std::int64_t wall_ns);
  /// For a reason that no look shows.  False: nothing has changed.
  bool begin(const std::string& uuid, const std::string& words, Lift lift, std::int64_t wall_ns);
  /// A person's word.  False: it was not in quarantine.
  bool release(const std::string& uuid);

  /// Null: it is in use.
  const Quarantine* of(const std::string& uuid) const;
  /// All GPUs in quarantine.
  std::vector<std::string> uuids() const;
  /// The conditions that count against it: all but those of a release.
  unsigned counted(const std::string& uuid) const;

 private:
  struct Entry {
    std::optional<Quarantine> now = std::nullopt;
    unsigned waived = 0;
    int waived_action = 0;  // the advice that was, where that is waived
    std::string waived_boot_id = {};
    unsigned conditions = 0;  // as far as they were reported
    int action = 0;
  };
  static bool learn(Entry& entry, const GpuReading& reading);
  bool take_reading(const GpuReading& reading, std::int64_t wall_ns);

  std::string boot_id_;
  std::map<std::string, Entry> entries_;
};

}  // namespace pergpu::gpu
