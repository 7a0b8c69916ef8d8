// Looks at this machine for `doctor`.
#pragma once

#include "cli/doctor/doctor_facts.h"

namespace pergpu::cli {

/// Starts no coordinator in the user's home and changes nothing, but that the home is made where
/// there is none, as by every command.  A job runs in a temporary home.  The GPUs are asked by a
/// separate probe with a deadline (gpu/probe_inventory.h): a driver that hangs costs 15 s, not
/// forever.
DoctorFacts gather_facts();

}  // namespace pergpu::cli
