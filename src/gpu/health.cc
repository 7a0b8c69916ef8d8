// The kinds follow NVIDIA's catalog of Xids; where its Kubernetes device plugin takes a number for
// a fault of the program (13, 31, 43, 45, 68, 109), so does this table.  45 and 109 may come from
// the hardware, too: then the driver advises a recovery, and that counts.  63 says that a repair
// was noted: whether the GPU needs a reset for it is in the reading.
#include "gpu/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pergpu::gpu {
namespace {

constexpr const char* kProgram = "an error of the program";
constexpr const char* kNote = "a note of the driver";
constexpr const char* kNeedsReset = "an error that needs a reset";
constexpr const char* kNvlink = "an error of its NVLink";

// clang-format off
constexpr XidEntry kXids[] = {
    {8, XidKind::Application, Lift::Reset, kProgram},
    {11, XidKind::Application, Lift::Reset, kProgram},
    {13, XidKind::Application, Lift::Reset, "the program made the GPU's engine fail"},
    {25, XidKind::Application, Lift::Reset, kProgram},
    {31, XidKind::Application, Lift::Reset, "the program touched memory of the GPU that is not its own"},
    {32, XidKind::Application, Lift::Reset, "the program sent the GPU a broken stream of commands"},
    {37, XidKind::Ignore, Lift::Reset, kNote},
    {38, XidKind::Ignore, Lift::Reset, kNote},
    {39, XidKind::Application, Lift::Reset, kProgram},
    {40, XidKind::Application, Lift::Reset, kProgram},
    {41, XidKind::Application, Lift::Reset, kProgram},
    {43, XidKind::Application, Lift::Reset, "the GPU stopped the program's work"},
    {44, XidKind::Ignore, Lift::Reset, kNote},
    {45, XidKind::Application, Lift::Reset, "the program's work was removed from the GPU, after another error or at its end"},
    {46, XidKind::Hardware, Lift::Reset, "the GPU stopped processing"},
    {48, XidKind::Hardware, Lift::Reset, "an uncorrectable memory error (double-bit ECC)"},
    {54, XidKind::Hardware, Lift::Reboot, "its power cable is not connected"},
    {60, XidKind::Application, Lift::Reset, kProgram},
    {62, XidKind::Hardware, Lift::Reset, "its internal controller has halted"},
    {63, XidKind::Ignore, Lift::Reset, "a repair of its memory was noted"},
    {64, XidKind::Hardware, Lift::Reset, "a repair of its memory could not be noted"},
    {66, XidKind::Ignore, Lift::Reset, kNote},
    {67, XidKind::Ignore, Lift::Reset, kNote},
    {68, XidKind::Application, Lift::Reset, kProgram},
    {69, XidKind::Application, Lift::Reset, kProgram},
    {70, XidKind::Application, Lift::Reset, kProgram},
    {71, XidKind::Application, Lift::Reset, kProgram},
    {72, XidKind::Application, Lift::Reset, kProgram},
    {74, XidKind::Hardware, Lift::Reset, kNvlink},
    {75, XidKind::Application, Lift::Reset, kProgram},
    {76, XidKind::Application, Lift::Reset, kProgram},
    {77, XidKind::Application, Lift::Reset, kProgram},
    {78, XidKind::Driver, Lift::Reset, "the driver and its software do not fit together"},
    {79, XidKind::Hardware, Lift::Reboot, "the GPU has fallen off the bus"},
    {80, XidKind::Application, Lift::Reset, kProgram},
    {82, XidKind::Application, Lift::Reset, kProgram},
    {83, XidKind::Application, Lift::Reset, kProgram},
    {84, XidKind::Application, Lift::Reset, kProgram},
    {85, XidKind::Application, Lift::Reset, kProgram},
    {86, XidKind::Application, Lift::Reset, kProgram},
    {88, XidKind::Application, Lift::Reset, kProgram},
    {89, XidKind::Application, Lift::Reset, kProgram},
    {92, XidKind::Ignore, Lift::Reset, "many corrected memory errors"},
    {93, XidKind::Ignore, Lift::Reset, kNote},
    {94, XidKind::Hardware, Lift::Reset, "an uncorrectable memory error, contained to the program that met it"},
    {95, XidKind::Hardware, Lift::Reset, "an uncorrectable memory error, not contained"},
    {96, XidKind::Application, Lift::Reset, kProgram},
    {97, XidKind::Application, Lift::Reset, kProgram},
    {98, XidKind::Application, Lift::Reset, kProgram},
    {99, XidKind::Application, Lift::Reset, kProgram},
    {100, XidKind::Application, Lift::Reset, kProgram},
    {101, XidKind::Application, Lift::Reset, kProgram},
    {102, XidKind::Application, Lift::Reset, kProgram},
    {103, XidKind::Application, Lift::Reset, kProgram},
    {104, XidKind::Application, Lift::Reset, kProgram},
    {105, XidKind::Application, Lift::Reset, kProgram},
    {106, XidKind::Ignore, Lift::Reset, kNote},
    {107, XidKind::Ignore, Lift::Reset, kNote},
    {109, XidKind::Application, Lift::Reset, "the GPU could not switch away from the program in time"},
    {110, XidKind::Hardware, Lift::Reset, "a security fault"},
    {119, XidKind::Hardware, Lift::Reset, "the GPU's firmware (GSP) does not answer"},
    {120, XidKind::Hardware, Lift::Reset, "the GPU's firmware (GSP) has failed"},
    {121, XidKind::Ignore, Lift::Reset, kNote},
    {126, XidKind::Application, Lift::Reset, kProgram},
    {127, XidKind::Application, Lift::Reset, kProgram},
    {128, XidKind::Application, Lift::Reset, kProgram},
    {129, XidKind::Application, Lift::Reset, kProgram},
    {130, XidKind::Application, Lift::Reset, kProgram},
    {131, XidKind::Application, Lift::Reset, kProgram},
    {132, XidKind::Application, Lift::Reset, kProgram},
    {133, XidKind::Application, Lift::Reset, kProgram},
    {134, XidKind::Application, Lift::Reset, kProgram},
    {135, XidKind::Application, Lift::Reset, kProgram},
    {136, XidKind::Hardware, Lift::Reset, kNeedsReset},
    {137, XidKind::Ignore, Lift::Reset, kNote},
    {139, XidKind::Application, Lift::Reset, kProgram},
    {140, XidKind::Hardware, Lift::Reset, "an uncorrectable memory error that was not repaired"},
    {141, XidKind::Ignore, Lift::Reset, kNote},
    {143, XidKind::Hardware, Lift::Reset, "the GPU could not be initialized"},
    {144, XidKind::Hardware, Lift::Reset, kNvlink},
    {145, XidKind::Hardware, Lift::Reset, kNvlink},
    {146, XidKind::Hardware, Lift::Reset, kNvlink},
    {147, XidKind::Hardware, Lift::Reset, kNvlink},
    {148, XidKind::Hardware, Lift::Reset, kNvlink},
    {149, XidKind::Hardware, Lift::Reset, kNvlink},
    {150, XidKind::Hardware, Lift::Reset, kNvlink},
    {151, XidKind::Hardware, Lift::Reboot, "the virtual machine has to be restarted"},
    {152, XidKind::Ignore, Lift::Reset, kNote},
    {153, XidKind::Ignore, Lift::Reset, kNote},
    {154, XidKind::Ignore, Lift::Reset, "the driver changed its advice, which every look reads"},
    {155, XidKind::Hardware, Lift::Reset, kNeedsReset},
    {156, XidKind::Hardware, Lift::Reset, kNeedsReset},
    {157, XidKind::Ignore, Lift::Reset, kNote},
    {158, XidKind::Hardware, Lift::Reset, kNeedsReset},
    {159, XidKind::Ignore, Lift::Reset, kNote},
    {160, XidKind::Ignore, Lift::Reset, kNote},
    {161, XidKind::Ignore, Lift::Reset, kNote},
};
// clang-format on

}  // namespace

std::string_view to_string(Lift lift) {
  switch (lift) {
    case Lift::Reset:
      return "reset";
    case Lift::Reboot:
      return "reboot";
  }
  return "reboot";
}

std::span<const XidEntry> xid_table() { return kXids; }

const XidEntry* xid_entry(std::int64_t number) {
  const auto entry = std::ranges::lower_bound(kXids, number, {}, &XidEntry::number);
  return entry != std::end(kXids) && entry->number == number ? &*entry : nullptr;
}

std::string xid_words(std::int64_t number) {
  const XidEntry* entry = xid_entry(number);
  return fmt::format("Xid {}: {}", number, entry != nullptr ? entry->words : "unknown error");
}

std::string recovery_words(int action) {
  switch (action) {
    case kRecoveryReset:
      return "reset the GPU";
    case kRecoveryReboot:
      return "reboot the machine";
    case 3:
      return "stop programs that use its links to other GPUs (drain P2P)";
    case 4:
      return "stop programs that use it, then reset it (drain and reset)";
    case 5:
      return "recover its IMEX domain";
  }
  return fmt::format("recovery action {}", action);
}

unsigned conditions_of(const GpuReading& reading) {
  unsigned found = 0;
  if (reading.health == GpuHealth::Lost) found |= kLostCondition;
  if (reading.repair_pending.value_or(false)) found |= kRepairPending;
  if (reading.repair_failed.value_or(false)) found |= kRepairFailed;
  if (reading.recovery_action.value_or(0) != 0) found |= kRecoveryAdvised;
  return found;
}

unsigned told_by(const GpuReading& reading) {
  unsigned told = 0;
  const bool is_answered = reading.health == GpuHealth::Ok || reading.health == GpuHealth::Lost;
  if (is_answered) told |= kLostCondition;
  if (reading.repair_pending) told |= kRepairPending;
  if (reading.repair_failed) told |= kRepairFailed;
  if (reading.recovery_action) told |= kRecoveryAdvised;
  return told;
}

std::optional<GpuFault> fault_of(const GpuReading& reading, unsigned conditions) {
  const unsigned found = conditions_of(reading) & conditions;
  if (found == 0) return std::nullopt;
  GpuFault fault;
  const auto add = [&](const std::string& words) {
    fault.words += (fault.words.empty() ? "" : "; ") + words;
  };
  if ((found & kLostCondition) != 0) {
    add(reading.note.empty() ? "the driver has lost it" : reading.note);
  }
  if ((found & kRepairFailed) != 0) {
    add("its memory could not be repaired (row remapping failed)");
    fault.lift = Lift::Reboot;
  }
  if ((found & kRepairPending) != 0) {
    add("its memory needs a reset to be repaired (row remapping pending)");
  }
  if ((found & kRecoveryAdvised) != 0) {
    add("the driver advises: " + recovery_words(*reading.recovery_action));
    if (reading.recovery_action == kRecoveryReboot) fault.lift = Lift::Reboot;
  }
  return fault;
}

}  // namespace pergpu::gpu
