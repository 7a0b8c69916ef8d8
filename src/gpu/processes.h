// What /proc shows of a process on a GPU.  Used by the probe only: on a busy machine a walk over
// all descriptors takes milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/inventory.h"

namespace pergpu::gpu {

/// Whether this process lives in its own pid namespace: the driver reports pids of the host,
/// which mean nothing here.
bool in_pid_namespace();

/// Fills in `matched`, uid, command and ancestors of `process.pid`.
void describe_process(GpuProcess& process);

/// Processes other than this one that have a descriptor on `device` ("/dev/nvidia3"), as far as
/// this user may look: own uid, all for root.  At most 64.
std::vector<GpuProcess> holders_of(const std::string& device);

/// The user's name from /etc/passwd, else "uid 1001".  A directory service (LDAP …) is not asked:
/// it can block.
std::string user_name(std::uint32_t uid);
/// The same, of the text of such a file.
std::string user_name_in(std::string_view passwd, std::uint32_t uid);

}  // namespace pergpu::gpu
