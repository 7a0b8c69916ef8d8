// What the driver's signs of trouble mean: numbers of critical errors (Xids), the recovery action
// it advises, the state of the memory's repair.  The tables of docs/failures.md, as data.  Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gpu/inventory.h"

namespace pergpu::gpu {

/// Whose fault an Xid is, or that nothing follows from it.
enum class XidKind : std::uint8_t { Ignore, Application, Driver, Hardware };

/// What makes a GPU usable again; a reboot includes a reset.
enum class Lift : std::uint8_t { Reset, Reboot };
std::string_view to_string(Lift lift);

struct XidEntry {
  std::int64_t number = 0;
  XidKind kind = XidKind::Ignore;
  Lift lift = Lift::Reset;  // of Hardware
  const char* words = "";
};
/// By number.
std::span<const XidEntry> xid_table();
/// Null: not in the table; it is named, and nothing follows.
const XidEntry* xid_entry(std::int64_t number);
/// "Xid 79: the GPU has fallen off the bus".
std::string xid_words(std::int64_t number);

/// NVML's recovery actions that are named here.
constexpr int kRecoveryReset = 1;
constexpr int kRecoveryReboot = 2;
/// "reset the GPU"
std::string recovery_words(int action);

// What a reading says against its GPU: a set of these.
constexpr unsigned kLostCondition = 1;
constexpr unsigned kRepairPending = 2;
constexpr unsigned kRepairFailed = 4;
constexpr unsigned kRecoveryAdvised = 8;
constexpr unsigned kAllConditions = 15;
unsigned conditions_of(const GpuReading& reading);
/// The conditions of which it shows whether the GPU has them.
unsigned told_by(const GpuReading& reading);

/// A reason to start nothing on a GPU any more.
struct GpuFault {
  std::string words = {};
  Lift lift = Lift::Reset;
};
/// The fault that those of `conditions` which the reading shows are; nullopt: none.
std::optional<GpuFault> fault_of(const GpuReading& reading, unsigned conditions);

}  // namespace pergpu::gpu
