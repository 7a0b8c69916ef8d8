// A short name for a folder of sockets.
//
// The address of a socket holds a path of 107 bytes.  pergpu itself reaches longer ones
// (os/ipc/socket.h), but a job connects with whatever its language offers.  So jobs get the
// folder's own name where it is short enough, else that of a link to it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "result.h"

namespace pergpu::os {

/// Where a link may lie: folders that only this user can use, the first usable one is taken.  Those
/// in /tmp come first: unlike $XDG_RUNTIME_DIR it stays when the user logs out.
std::vector<std::string> link_folders();

/// Room for "coordinator.sock", or for "n" and the number of a keeper.
inline constexpr std::size_t kUsualName = 24;

/// `folder`, or a link to it, made again where it is gone: what comes behind its '/' may have
/// `room` bytes.  Links whose folder is gone are removed.  Error: no link can be made; says what to
/// do.
Result<std::string> socket_folder(const std::string& folder, std::size_t room,
                                  const std::vector<std::string>& link_folders);
Result<std::string> socket_folder(const std::string& folder, std::size_t room = kUsualName);

}  // namespace pergpu::os
